"""ZODB on a FileStorage: `commit`, or `pack`, which packs the storage before the last transaction."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import transaction
from persistent.mapping import PersistentMapping
from transactions import NUMBERS, TRANSACTIONS, installed, main, promise, rows_of
from ZODB.DB import DB
from ZODB.FileStorage import FileStorage

_FILE = "Data.fs"


@contextmanager
def opened(path: str) -> Iterator[DB]:
    """Open it, and make it if it is not there."""
    database = DB(FileStorage(path))
    try:
        yield database
    finally:
        database.close()


def make(setting: str) -> None:
    """Make it, with a root."""
    with opened(_FILE):
        pass


def write(setting: str) -> None:
    """Commit on one connection, each transaction an object of its own: a pack has revisions of the root to remove."""
    with opened(_FILE) as database:
        root = database.open().root()
        for number in NUMBERS:
            if number == TRANSACTIONS and setting == "pack":
                database.pack()
            root[number] = PersistentMapping(rows_of(number))
            transaction.commit()
            promise(number)
        transaction.abort()


def count(directory: Path) -> Sequence[int]:
    """Open it as the next user would, and write to it."""
    with opened(str(directory / _FILE)) as database:
        root = database.open().root()
        found = [sum(root.get(n, {}).get(key) == value for key, value in rows_of(n).items()) for n in NUMBERS]
        root["more"] = 1
        transaction.commit()
        return found


main(write, count, lambda: installed("ZODB"), make)
