"""Spreading: judges many parts of a store, in turn or in other processes.

A judgement gets files of the process in which it runs, because open files cannot be sent. Judgements, items and results
are plain values.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol, TypeVar

from ..formats.columns import Core
from ..world import Files

Item = TypeVar("Item")
Result = TypeVar("Result")
Judgement = Callable[[Files, Core | None, Item], Result]


class PartSpread(Protocol):
    """Judges many parts."""

    def __call__(self, judgement: Judgement[Item, Result], items: Sequence[Item]) -> Iterator[Result]:
        """Yield the result of each item, in the order of the items. Raises the OSError of a judgement."""


def in_turn(files: Files, core: Core | None) -> PartSpread:
    """Return a spread that judges one part after another, in this process."""

    def judged(judgement: Judgement[Item, Result], items: Sequence[Item]) -> Iterator[Result]:
        return (judgement(files, core, item) for item in items)

    return judged
