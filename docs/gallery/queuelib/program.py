"""queuelib's FifoDiskQueue: it is opened, an item is put, it is closed; a transaction is an item."""

from collections.abc import Sequence
from pathlib import Path

from queuelib import FifoDiskQueue
from transactions import DATABASE, NUMBERS, installed, main, promise, rows_in, value_of


def make(setting: str) -> None:
    """Make it, with an item, because closing removes an empty one."""
    queue = FifoDiskQueue(DATABASE)
    queue.push(b"made")
    queue.close()


def write(setting: str) -> None:
    """Put items: `closed` after each, or all in one queue that stays `open`."""
    queue = FifoDiskQueue(DATABASE)
    for number in NUMBERS:
        queue.push(value_of(number))
        if setting == "closed":
            queue.close()
            queue = FifoDiskQueue(DATABASE)
        promise(number)
    queue.close()


def count(directory: Path) -> Sequence[int]:
    """Open it as the next user would, take all items, and put one."""
    queue = FifoDiskQueue(str(directory / DATABASE))
    items = [item for item in iter(queue.pop, None) if item != b"made"]
    items += [None] * (len(NUMBERS) - len(items))
    found = [rows_in(item, number) for number, item in zip(NUMBERS, items, strict=True)]
    queue.push(b"more")
    queue.close()
    return found


main(write, count, lambda: installed("queuelib"), make)
