"""Spreading: checks many parts of a store, in one or several processes.

Checks, items and results must be picklable. Open files are not picklable, so each process opens its own.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol, TypeVar

from ..formats.columns import NativeCore
from ..world import Files

Item = TypeVar("Item")
Result = TypeVar("Result")
Judgement = Callable[[Files, NativeCore | None, Item], Result]


class PartSpread(Protocol):
    """Runs one check on many items."""

    def __call__(self, judgement: Judgement[Item, Result], items: Sequence[Item]) -> Iterator[Result]:
        """Yield the results in the order of the items. Raises any OSError of a check."""


def spread_in_process(files: Files, core: NativeCore | None) -> PartSpread:
    """Return a function that checks the items one after another in this process."""

    def run_judgement(judgement: Judgement[Item, Result], items: Sequence[Item]) -> Iterator[Result]:
        return (judgement(files, core, item) for item in items)

    return run_judgement
