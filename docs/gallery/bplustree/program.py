"""bplustree: `log`, or `checkpoint`, which moves the log to the tree before the last transaction."""

from collections.abc import Sequence
from pathlib import Path

from bplustree import BPlusTree
from transactions import DATABASE, NUMBERS, TRANSACTIONS, installed, main, promise, rows_in, value_of


def opened(path: Path) -> BPlusTree:
    """Open it, and make it if it is not there."""
    return BPlusTree(str(path.absolute()), order=4, value_size=1024)


def make(setting: str) -> None:
    """Make it empty."""
    opened(Path(DATABASE)).close()


def write(setting: str) -> None:
    """Insert values, each a transaction."""
    tree = opened(Path(DATABASE))
    for number in NUMBERS:
        if number == TRANSACTIONS and setting == "checkpoint":
            tree.checkpoint()
        tree.insert(number, value_of(number))
        promise(number)
    tree.close()


def count(directory: Path) -> Sequence[int]:
    """Open it as the next user would, and write to it."""
    tree = opened(directory / DATABASE)
    try:
        found = [rows_in(tree.get(number), number) for number in NUMBERS]
        tree.insert(99, b"more")
        return found
    finally:
        tree.close()


main(write, count, lambda: installed("bplustree"), make)
