"""Turso: a value of `PRAGMA synchronous`, `full` as it is by default or `off`."""

from collections.abc import Sequence
from pathlib import Path

import turso
from transactions import DATABASE, NUMBERS, installed, main, promise, rows_of


def opened(synchronous: str) -> turso.Connection:
    """Open it, and make it with an empty table if that is not there."""
    database = turso.connect(DATABASE, isolation_level=None)
    database.execute(f"PRAGMA synchronous={synchronous}")
    database.execute("CREATE TABLE IF NOT EXISTS rows (number INTEGER, key BLOB, value BLOB)")
    return database


def make(synchronous: str) -> None:
    """Make it empty."""
    opened(synchronous).close()


def write(synchronous: str) -> None:
    """Commit on one connection."""
    database = opened(synchronous)
    for number in NUMBERS:
        database.execute("BEGIN")
        for key, value in rows_of(number).items():
            database.execute("INSERT INTO rows VALUES (?, ?, ?)", (number, key, value * 5))
        database.execute("COMMIT")
        promise(number)
    database.close()


def count(directory: Path) -> Sequence[int]:
    """Open it as the next user would, run its integrity check, and write to it."""
    database = turso.connect(str(directory / DATABASE), isolation_level=None)
    try:
        ((said,),) = database.execute("PRAGMA integrity_check").fetchall()
        if said != "ok":
            raise turso.DatabaseError(said)
        ((tables,),) = database.execute("SELECT count(*) FROM sqlite_master").fetchall()
        counts = database.execute("SELECT number, count(*) FROM rows GROUP BY number").fetchall() if tables else []
        rows = dict(counts)
        database.execute("CREATE TABLE more (number INTEGER)")
        return [rows.get(number, 0) for number in NUMBERS]
    finally:
        database.close()


main(write, count, lambda: installed("pyturso"), make)
