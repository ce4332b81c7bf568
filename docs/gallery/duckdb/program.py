"""DuckDB: `log`, or `checkpoint`, which moves the log to the database before the last transaction."""

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import duckdb
from transactions import DATABASE, NUMBERS, TRANSACTIONS, installed, main, promise, rows_of

_CONFIG = {"threads": 1}


def make(setting: str) -> None:
    """Make it, with an empty table."""
    with closing(duckdb.connect(DATABASE, config=_CONFIG)) as database:
        database.execute("CREATE TABLE rows (number INTEGER, key BLOB, value BLOB)")


def write(setting: str) -> None:
    """Commit on one connection."""
    with closing(duckdb.connect(DATABASE, config=_CONFIG)) as database:
        for number in NUMBERS:
            if number == TRANSACTIONS and setting == "checkpoint":
                database.execute("CHECKPOINT")
            database.execute("BEGIN")
            rows = [(number, key, value) for key, value in rows_of(number).items()]
            database.executemany("INSERT INTO rows VALUES (?, ?, ?)", rows)
            database.execute("COMMIT")
            promise(number)


def count(directory: Path) -> Sequence[int]:
    """Open it as the next user would, and write to it."""
    with closing(duckdb.connect(str(directory / DATABASE), config=_CONFIG)) as database:
        found = database.execute("SELECT number, key, value FROM rows").fetchall()
        database.execute("CREATE TABLE more (number INTEGER)")
        rows = {(number, key): value for number, key, value in found}
        return [sum(rows.get((n, key)) == value for key, value in rows_of(n).items()) for n in NUMBERS]


main(write, count, lambda: installed("duckdb"), make)
