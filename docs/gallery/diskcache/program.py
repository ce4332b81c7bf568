"""diskcache: a value of `sqlite_synchronous`, 1 as it is by default or 2, and values in the database or in `file`s."""

from collections.abc import Sequence
from pathlib import Path

from diskcache import Cache
from transactions import DATABASE, NUMBERS, installed, main, promise, rows_in, value_of

_FILE_BYTES = 64


def opened(path: Path, synchronous: str, where: str) -> Cache:
    """Open it, and make it if it is not there."""
    least = _FILE_BYTES if where == "file" else 1 << 15
    return Cache(str(path), sqlite_synchronous=int(synchronous), disk_min_file_size=least)


def make(synchronous: str, where: str) -> None:
    """Make it empty."""
    opened(Path(DATABASE), synchronous, where).close()


def write(synchronous: str, where: str) -> None:
    """Set values, each a transaction."""
    with opened(Path(DATABASE), synchronous, where) as cache:
        for number in NUMBERS:
            cache.set(number, value_of(number))
            promise(number)


def count(directory: Path) -> Sequence[int]:
    """Open it as the next user would, and write to it."""
    with Cache(str(directory / DATABASE)) as cache:
        found = [rows_in(cache.get(number), number) for number in NUMBERS]
        cache.set("more", b"")
        return found


main(write, count, lambda: installed("diskcache"), make)
