"""Puts of the stores in these tests."""

from tornlog.scenarios.oracle.put_entry import PutEntry


def put_of(number: int) -> PutEntry:
    """Make a put of T0/0 that has not been answered."""
    name = f"m{number}"
    body = f"{name} body".encode()
    properties = f"KEYS\1{name}\2TAGS\1TagA".encode()
    return PutEntry(name, "T0", 0, "TagA", body, properties, True, asked_ns=0)
