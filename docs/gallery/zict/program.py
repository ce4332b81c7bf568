"""zict's File: `add` stores a value under a new key, `overwrite` stores each value under the key of the one before."""

from collections.abc import Sequence
from pathlib import Path

from transactions import DATABASE, NUMBERS, ROWS, installed, main, promise, rows_in, value_of
from zict import File

_SHARED_KEY = "last"


def write(setting: str) -> None:
    """Store values, each a transaction."""
    mapping = File(DATABASE)
    for number in NUMBERS:
        mapping[_SHARED_KEY if setting == "overwrite" else str(number)] = value_of(number)
        promise(number)


def count(directory: Path) -> Sequence[int]:
    """Open it as the next user would, and write to it. A value of the shared key replaces all earlier transactions."""
    mapping = File(directory / DATABASE)
    found = [rows_in(mapping.get(str(number)), number) for number in NUMBERS]
    last = mapping.get(_SHARED_KEY)
    if last is not None:
        newest = next((number for number in NUMBERS if last == value_of(number)), NUMBERS[0])
        rows_in(last, newest)
        found = [ROWS if number <= newest else 0 for number in NUMBERS]
    mapping["more"] = b""
    return found


def make(_: str) -> None:
    """Make it empty."""
    File(DATABASE)


main(write, count, lambda: installed("zict"), make)
