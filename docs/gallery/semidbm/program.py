"""semidbm: `sync`, `nosync`, or `compact`, which makes it small before the last value; a transaction is one value."""

from collections.abc import Sequence
from pathlib import Path

import semidbm
from transactions import DATABASE, NUMBERS, TRANSACTIONS, installed, main, promise, rows_in, value_of


def make(setting: str) -> None:
    """Make it empty."""
    semidbm.open(DATABASE, "c").close()


def write(setting: str) -> None:
    """Store values."""
    database = semidbm.open(DATABASE, "c")
    for number in NUMBERS:
        if number == TRANSACTIONS and setting == "compact":
            database.compact()
        database[str(number)] = value_of(number)
        if setting != "nosync":
            database.sync()
        promise(number)
    database.close()


def count(directory: Path) -> Sequence[int]:
    """Open it as the next user would, and write to it."""
    database = semidbm.open(str(directory / DATABASE), "c", verify_checksums=True)
    try:
        found = [rows_in(database[str(n)] if str(n).encode() in database else None, n) for n in NUMBERS]
        database["more"] = b""
        return found
    finally:
        database.close()


main(write, count, lambda: installed("semidbm"), make)
