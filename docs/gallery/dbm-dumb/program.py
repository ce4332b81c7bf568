"""dbm.dumb, or shelve over it: `sync`, or `nosync`, which calls no sync(); a transaction is one value."""

import dbm.dumb
import platform
import shelve
from collections.abc import Sequence
from pathlib import Path

from transactions import DATABASE, NUMBERS, main, promise, rows_in, value_of


def write(module: str, setting: str) -> None:
    """Store values, and change one of them."""
    with dbm.dumb.open(DATABASE, "c") as plain:
        database = shelve.Shelf(plain) if module == "shelve" else plain
        for number in NUMBERS:
            database[str(number)] = value_of(number)
            if setting == "sync":
                database.sync()
            promise(number)


def count(directory: Path) -> Sequence[int]:
    """Open either kind as the next user would, and write to it."""
    with dbm.dumb.open(str(directory / DATABASE), "c") as database:
        shelf = shelve.Shelf(database)
        found = []
        for number in NUMBERS:
            value = database.get(str(number).encode())
            if value is not None and value.startswith(b"\x80"):  # a pickle
                value = shelf[str(number)]
            found.append(rows_in(value, number))
        database["more"] = b""
        database.sync()
        return found


main(write, count, lambda: f"Python {platform.python_version()}")
