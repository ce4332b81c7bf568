"""sqlitedict with a mode of SQLite's journal: `delete`, as it is by default, or `wal`."""

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from sqlitedict import SqliteDict
from transactions import DATABASE, NUMBERS, installed, main, promise, rows_of


def make(journal: str) -> None:
    """Make it empty."""
    SqliteDict(DATABASE, journal_mode=journal).close()


def write(journal: str) -> None:
    """Commit the rows of each transaction by one commit()."""
    with SqliteDict(DATABASE, journal_mode=journal) as database:
        for number in NUMBERS:
            database.update({key.decode(): value * 5 for key, value in rows_of(number).items()})
            database.commit()
            promise(number)


def count(directory: Path) -> Sequence[int]:
    """Run SQLite's integrity check, as sqlitedict may never return if that fails; open it, and write to it."""
    file = directory / DATABASE
    with closing(sqlite3.connect(file)) as database:
        ((said,),) = database.execute("PRAGMA integrity_check(1)").fetchall()
        if said != "ok":
            raise sqlite3.DatabaseError(said)
    with SqliteDict(str(file), outer_stack=False) as database:
        rows = dict(database.items())
        database["more"] = b""
        database.commit()
        return [sum(rows.get(key.decode()) == value * 5 for key, value in rows_of(n).items()) for n in NUMBERS]


main(write, count, lambda: installed("sqlitedict"), make)
