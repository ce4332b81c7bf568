"""Spreading: checks many parts of a store, in this process or in several processes.

Checks, items and results can be pickled. Open files cannot be pickled, so a check opens the files in its own process.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol, TypeVar

from ..formats.columns import NativeCore
from ..world import Files

Item = TypeVar("Item")
Result = TypeVar("Result")
Judgement = Callable[[Files, NativeCore | None, Item], Result]


class PartSpread(Protocol):
    """Checks many parts."""

    def __call__(self, judgement: Judgement[Item, Result], items: Sequence[Item]) -> Iterator[Result]:
        """Yield the results in the order of the items. Raises any OSError of a check."""


def spread_in_process(files: Files, core: NativeCore | None) -> PartSpread:
    """Return a spread that checks the parts one after another in this process."""

    def run_judgement(judgement: Judgement[Item, Result], items: Sequence[Item]) -> Iterator[Result]:
        return (judgement(files, core, item) for item in items)

    return run_judgement
