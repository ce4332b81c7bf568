"""TinyDB, a JSON file: `grow`, or `shrink`, which takes drafts out before the last transaction."""

from collections.abc import Sequence
from pathlib import Path

from tinydb import TinyDB
from transactions import DATABASE, NUMBERS, TRANSACTIONS, installed, main, promise, rows_of


def make(setting: str) -> None:
    """Make it, with drafts."""
    with TinyDB(DATABASE) as database:
        database.table("drafts").insert_multiple({"draft": "x" * 400} for _ in range(10))


def write(setting: str) -> None:
    """Insert the rows of a transaction by one call, which writes the whole file."""
    with TinyDB(DATABASE) as database:
        for number in NUMBERS:
            if number == TRANSACTIONS and setting == "shrink":
                database.drop_table("drafts")
            rows = [{"key": key.decode(), "value": value.hex()} for key, value in rows_of(number).items()]
            database.table(str(number)).insert_multiple(rows)
            promise(number)


def count(directory: Path) -> Sequence[int]:
    """Open it as the next user would, and write to it."""
    with TinyDB(directory / DATABASE) as database:
        found = []
        for number in NUMBERS:
            rows = {row["key"].encode(): bytes.fromhex(row["value"]) for row in database.table(str(number))}
            found.append(sum(rows.get(key) == value for key, value in rows_of(number).items()))
        database.table("more").insert({})
        return found


main(write, count, lambda: installed("tinydb"), make)
