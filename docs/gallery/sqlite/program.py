"""SQLite by Python's sqlite3: a journal mode and a value of `PRAGMA synchronous`."""

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from transactions import DATABASE, NUMBERS, main, promise, rows_of


def connect(file: Path) -> sqlite3.Connection:
    """Open a database with explicit transactions."""
    return sqlite3.connect(file, isolation_level=None)


def write(journal: str, synchronous: str) -> None:
    """Commit on one connection."""
    with closing(connect(Path(DATABASE))) as database:
        database.execute(f"PRAGMA journal_mode={journal}").fetchall()
        database.execute(f"PRAGMA synchronous={synchronous}")
        database.execute("CREATE TABLE rows (number INTEGER, key BLOB, value BLOB)")
        for number in NUMBERS:
            database.execute("BEGIN")
            rows = [(number, key, value * 5) for key, value in rows_of(number).items()]
            database.executemany("INSERT INTO rows VALUES (?, ?, ?)", rows)
            database.execute("COMMIT")
            promise(number)


def count(directory: Path) -> Sequence[int]:
    """Open it as the next user would, run its integrity check, and write to it."""
    with closing(connect(directory / DATABASE)) as database:
        ((said,),) = database.execute("PRAGMA integrity_check(1)").fetchall()
        if said != "ok":
            raise sqlite3.DatabaseError(said)
        has_table = database.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
        rows = dict(database.execute("SELECT number, count(*) FROM rows GROUP BY number")) if has_table else {}
        database.execute("CREATE TABLE more (number INTEGER)")
        return [rows.get(number, 0) for number in NUMBERS]


main(write, count, lambda: f"SQLite {sqlite3.sqlite_version}")
