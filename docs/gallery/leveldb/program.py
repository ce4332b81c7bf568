"""LevelDB by plyvel: batches that are synced, or not. A new log, table and manifest come before the last one."""

from collections.abc import Sequence
from pathlib import Path

import plyvel
from transactions import DATABASE, NUMBERS, TRANSACTIONS, installed, main, promise, rows_of


def make(setting: str) -> None:
    """Make it empty."""
    plyvel.DB(DATABASE, create_if_missing=True).close()


def write(setting: str) -> None:
    """Commit batches."""
    database = plyvel.DB(DATABASE, create_if_missing=True)
    for number in NUMBERS:
        if number == TRANSACTIONS:
            database.close()
            database = plyvel.DB(DATABASE)
        with database.write_batch(sync=setting == "sync") as batch:
            for key, value in rows_of(number).items():
                batch.put(key, value)
        promise(number)
    database.close()


def count(directory: Path) -> Sequence[int]:
    """Open it as the next user would, and write to it."""
    database = plyvel.DB(str(directory / DATABASE), create_if_missing=True)
    try:
        found = [sum(database.get(key) == value for key, value in rows_of(number).items()) for number in NUMBERS]
        database.put(b"more", b"")
        return found
    finally:
        database.close()


main(write, count, lambda: f"LevelDB ({installed('plyvel')})", make)
