"""A mutant: a known bug, put back into the store for as long as a `with` block lasts.

The store itself stays clean: a mutant replaces attributes of its classes and modules, which is global to the process.
So one mutant is applied at a time, and nothing else runs beside it.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from types import ModuleType

from ..claims.ranges import Ranges
from .activity import Activity, counted, counting, functions_in, reports_bites
from .activity import bit as bit  # for mutants: they are written with this module alone

_applied: list[str] = []


class PatchError(Exception):
    """A patch that replaces nothing: its owner has no such attribute."""


@dataclass(frozen=True, slots=True)
class Patch:
    """One attribute and what stands in its place.

    An attribute that a class inherits gets an override for as long as the mutant is in: its base and siblings keep
    theirs. One that nobody has is an error, so that a method that moves is missed.
    """

    owner: type | ModuleType
    name: str
    replacement: object
    """A function, a property, or a constant."""

    @property
    def is_override(self) -> bool:
        """Return whether it overrides what the owner inherits. PatchError: the owner has no such attribute at all."""
        if self.name in vars(self.owner):
            return False
        bases = self.owner.__mro__[1:-1] if isinstance(self.owner, type) else ()  # object has names of its own
        if not any(self.name in vars(base) for base in bases):
            raise PatchError(f"{self.owner.__name__} has no {self.name}")
        return True

    def put_in(self, activity: Activity) -> Callable[[], None]:
        """Replace the attribute by one that counts its calls; return what takes it out again."""
        take_out = partial(delattr, self.owner, self.name)
        if not self.is_override:
            take_out = partial(setattr, self.owner, self.name, vars(self.owner)[self.name])
        setattr(self.owner, self.name, counted(self.replacement, activity))
        return take_out


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

    @property
    def has_reach(self) -> bool:
        """Return whether it is code that can be counted: a constant in another's place is everywhere and nowhere."""
        return any(functions_in(patch.replacement) for patch in self.patches)

    @property
    def reports_bites(self) -> bool:
        """Return whether it says itself when it does otherwise than the store."""
        return any(reports_bites(patch.replacement) for patch in self.patches)

    def check(self) -> None:
        """Raise PatchError, naming the mutant, if there is nothing that one of its patches could replace."""
        for patch in self.patches:
            try:
                _ = patch.is_override
            except PatchError as error:
                raise PatchError(f"{self.id}: {error}") from None

    @contextmanager
    def applied(self) -> Iterator[Activity]:
        """Put the bug in, and take it out again whatever happens; give what it does meanwhile.

        RuntimeError if another mutant is in. PatchError, before anything is replaced, if that is not there.
        """
        if _applied:
            raise RuntimeError(f"mutant {self.id}: {_applied[0]} is applied already")
        self.check()
        with ExitStack() as taken_out, counting() as activity:
            _applied.append(self.id)
            taken_out.callback(_applied.remove, self.id)
            for patch in self.patches:
                taken_out.callback(patch.put_in(activity))
            yield activity


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
