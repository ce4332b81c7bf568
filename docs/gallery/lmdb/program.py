"""LMDB by py-lmdb: sync, nometasync, nosync, writemap."""

from collections.abc import Sequence
from pathlib import Path

import lmdb
from transactions import DATABASE, NUMBERS, installed, main, promise, rows_of

_MAP_BYTES = 1 << 20


def opened(setting: str) -> lmdb.Environment:
    """Open it in the working directory."""
    flags = {"sync": setting != "nosync", "metasync": setting != "nometasync", "writemap": setting == "writemap"}
    return lmdb.open(DATABASE, map_size=_MAP_BYTES, **flags)


def make(setting: str) -> None:
    """Make it, with its first transaction, and close it."""
    environment = opened(setting)
    with environment.begin(write=True) as transaction:
        transaction.put(b"made", b"")
    environment.sync(True)
    environment.close()


def write(setting: str) -> None:
    """Commit in one environment."""
    environment = opened(setting)
    for number in NUMBERS:
        with environment.begin(write=True) as transaction:
            for key, value in rows_of(number).items():
                transaction.put(key, value)
        promise(number)
    environment.close()


def count(directory: Path) -> Sequence[int]:
    """Open it as the next user would, and write to it."""
    if not (directory / DATABASE / "data.mdb").exists():
        return [0 for _ in NUMBERS]
    environment = lmdb.open(str(directory / DATABASE), map_size=_MAP_BYTES)
    try:
        with environment.begin() as transaction:
            found = [sum(transaction.get(key) == value for key, value in rows_of(n).items()) for n in NUMBERS]
        with environment.begin(write=True) as transaction:
            transaction.put(b"more", b"")
        return found
    finally:
        environment.close()


main(write, count, lambda: f"LMDB {'.'.join(map(str, lmdb.version()))} ({installed('lmdb')})", make)
