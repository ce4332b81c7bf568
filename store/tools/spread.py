"""Spreading: one judgement on many parts of a store, here one after the other, or wherever else parts are handed to.

A judgement is given the files of the store where it is made, for an open file is not handed on; it, its items and its
results are, so all of them are plain values.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol, TypeVar

from ..formats.columns import Core
from ..world import Files

Item = TypeVar("Item")
Result = TypeVar("Result")
Judgement = Callable[[Files, Core | None, Item], Result]


class PartSpread(Protocol):
    """Has many parts judged."""

    def __call__(self, judgement: Judgement[Item, Result], items: Sequence[Item]) -> Iterator[Result]:
        """Yield what is found of each item, in the order of the items. Raises the OSError that a judgement raises."""


def in_turn(files: Files, core: Core | None) -> PartSpread:
    """Return what judges one part after the other, here."""

    def judged(judgement: Judgement[Item, Result], items: Sequence[Item]) -> Iterator[Result]:
        return (judgement(files, core, item) for item in items)

    return judged
