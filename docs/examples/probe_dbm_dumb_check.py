"""The promise of sync() in dbm.dumb's documentation: "Synchronize the on-disk directory and data files"."""

import dbm.dumb
from collections.abc import Iterator
from pathlib import Path


def check(directory: Path, acknowledged: list[str]) -> Iterator[str]:
    """Yield each synced entry that is missing or changed. Only synced entries are promised."""
    if not acknowledged:
        return
    try:
        with dbm.dumb.open(str(directory / "accounts")) as accounts:
            found = {name: accounts[name] for name in acknowledged if name in accounts}
    except Exception as error:
        yield f"synced entries cannot be read: {type(error).__name__}"
        return
    for name in acknowledged:
        if name not in found:
            yield f"synced entry {name!r} is lost"
        elif found[name] != f"the account of {name}".encode():
            yield f"synced entry {name!r} is there with another value: {found[name]!r}"
