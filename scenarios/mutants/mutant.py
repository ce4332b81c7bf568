"""A mutant: a known bug, put back into the store for as long as a `with` block lasts.

The store itself stays clean: a mutant replaces attributes of its classes and modules, which is global to the process.
So one mutant is applied at a time, and nothing else runs beside it.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

from ..claims.ranges import Ranges

_applied: list[str] = []


@dataclass(frozen=True, slots=True)
class Patch:
    """One attribute and what stands in its place; name must be owner's own, so that a method that moves is missed."""

    owner: type | ModuleType
    name: str
    replacement: Callable[..., Any] | property | int


@dataclass(frozen=True, slots=True)
class Mutant:
    """One entry of the bug catalogue as patches of the store."""

    id: str
    summary: str
    """What the bug is, in one sentence."""
    patches: tuple[Patch, ...]
    expected: tuple[str, ...]
    """Invariants that may be the first to see it."""
    ranges: Ranges = field(default_factory=Ranges)
    """What a run needs for the bug to show; by default any run may show it."""

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Put the bug in, and take it out again whatever happens. RuntimeError if another mutant is in."""
        if _applied:
            raise RuntimeError(f"mutant {self.id}: {_applied[0]} is applied already")
        for patch in self.patches:
            assert patch.name in vars(patch.owner), f"{self.id}: {patch.owner.__name__} has no {patch.name}"
        originals = [vars(patch.owner)[patch.name] for patch in self.patches]
        _applied.append(self.id)
        try:
            for patch in self.patches:
                setattr(patch.owner, patch.name, patch.replacement)
            yield
        finally:
            for patch, original in zip(self.patches, originals, strict=True):
                setattr(patch.owner, patch.name, original)
            _applied.remove(self.id)


class PatchesCollideError(ValueError):
    """Two mutants replace one attribute: which of them would be in effect is left to chance."""


def composed(name: str, summary: str, members: Iterable[Mutant], ranges: Ranges | None = None) -> Mutant:
    """Return a mutant with every patch of its members. Raises PatchesCollideError naming two that cannot both be in."""
    mutants = tuple(members)
    replaced_by: dict[tuple[str, str, str], str] = {}
    for mutant in mutants:
        for patch in mutant.patches:
            place = (getattr(patch.owner, "__module__", ""), patch.owner.__name__, patch.name)
            other = replaced_by.setdefault(place, mutant.id)
            if other != mutant.id:
                raise PatchesCollideError(f"{other} and {mutant.id} both replace {place[1]}.{place[2]}")
    patches = tuple(patch for mutant in mutants for patch in mutant.patches)
    expected = tuple(dict.fromkeys(invariant for mutant in mutants for invariant in mutant.expected))
    return Mutant(name, summary, patches, expected, ranges or Ranges())
