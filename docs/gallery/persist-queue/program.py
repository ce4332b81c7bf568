"""persist-queue's file queue: items are put, two to a file; a transaction is an item."""

from collections.abc import Sequence
from pathlib import Path

import persistqueue
from transactions import DATABASE, NUMBERS, installed, main, promise, rows_in, value_of


def make(setting: str) -> None:
    """Make it empty."""
    persistqueue.Queue(DATABASE, chunksize=2)


def write(setting: str) -> None:
    """Put items."""
    queue = persistqueue.Queue(DATABASE, chunksize=2)
    for number in NUMBERS:
        queue.put(value_of(number))
        promise(number)


def count(directory: Path) -> Sequence[int]:
    """Open it as the next user would, take all items, and put one."""
    queue = persistqueue.Queue(str(directory / DATABASE), chunksize=2)
    items = [queue.get(block=False) for _ in range(queue.qsize())]
    items += [None] * (len(NUMBERS) - len(items))
    queue.put(b"more")
    return [rows_in(item, number) for number, item in zip(NUMBERS, items, strict=True)]


main(write, count, lambda: installed("persist-queue"), make)
