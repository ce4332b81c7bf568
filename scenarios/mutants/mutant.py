"""Mutant: a known bug that a `with` block applies to the store.

A mutant is a function with the decorator `bug`, which names the attribute of the store to replace. The replacement
affects the whole process, so only one mutant can be active at a time.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from inspect import getattr_static, getdoc
from types import ModuleType
from typing import Any, Generic, ParamSpec, TypeAlias, TypeVar

from ..claims.ranges import Ranges
from .activity import Activity, activity_counted, counting_replacement, functions_in, reports_bites
from .activity import bit as bit  # mutants import all that they need from this module

P = ParamSpec("P")
R = TypeVar("R")
OtherP = ParamSpec("OtherP")
OtherR = TypeVar("OtherR")
Owner: TypeAlias = type | ModuleType

_applied: list[str] = []


class PatchError(Exception):
    """A patch names an attribute that does not exist."""


@dataclass(frozen=True, slots=True)
class Patch:
    """An attribute and its replacement. Raises PatchError if the owner lacks the attribute.

    A patch of an inherited attribute does not change the base class.
    """

    owner: Owner
    name: str
    replacement: object

    def __post_init__(self) -> None:
        # Every class has the attributes of `object`.
        bases = self.owner.__mro__[:-1] if isinstance(self.owner, type) else (self.owner,)
        if not any(self.name in vars(base) for base in bases):
            raise PatchError(f"{self.owner.__name__} has no {self.name}")

    def install(self, activity: Activity) -> Callable[[], None]:
        """Replace the attribute, and count calls of the replacement.

        Returns a function that restores the attribute.
        """
        restore = partial(delattr, self.owner, self.name)
        if self.name in vars(self.owner):
            restore = partial(setattr, self.owner, self.name, vars(self.owner)[self.name])
        setattr(self.owner, self.name, counting_replacement(self.replacement, activity))
        return restore


@dataclass(slots=True, eq=False)
class Mutant:
    """A bug, as a set of patches of the store's attributes."""

    id: str
    summary: str
    patches: tuple[Patch, ...]
    found_by: tuple[str, ...]
    """The invariants that a run with the bug may violate first."""
    needs: Ranges = field(default_factory=Ranges)
    """The ranges of plans that can reveal the bug; by default all ranges."""

    def __post_init__(self) -> None:
        for name, given in (("patches", self.patches), ("found_by", self.found_by)):
            if not isinstance(given, tuple):
                raise TypeError(f"{self.id}: {name}: expected a tuple, found {given!r}")

    @property
    def has_reach(self) -> bool:
        """Return whether calls can be counted: not if all replacements are constants."""
        return any(functions_in(patch.replacement) for patch in self.patches)

    @property
    def reports_bites(self) -> bool:
        return any(reports_bites(patch.replacement) for patch in self.patches)

    @contextmanager
    def applied(self) -> Iterator[Activity]:
        """Apply the mutant inside a `with` block, and count its activity. Raises RuntimeError if another mutant is
        active."""
        if _applied:
            raise RuntimeError(f"mutant {self.id}: {_applied[0]} is applied already")
        with ExitStack() as restored, activity_counted() as activity:
            _applied.append(self.id)
            assert len(_applied) == 1, _applied
            restored.callback(_applied.remove, self.id)
            for patch in self.patches:
                restored.callback(patch.install(activity))
            yield activity


@dataclass(frozen=True, slots=True)
class Replacement(Generic[P, R]):
    """An additional replacement function of a bug, see `Bug.also`."""

    original: Callable[P, R]
    """The replaced function of the store."""


class Bug(Mutant, Generic[P, R]):
    """A mutant in the form of a function."""

    __slots__ = ("original",)
    original: Callable[P, R]
    """The replaced function of the store."""

    def also(self, owner: Owner, name: str) -> Callable[[Callable[OtherP, OtherR]], Replacement[OtherP, OtherR]]:
        """Return a decorator for an additional function, with which the bug replaces this attribute."""

        def add(function: Callable[OtherP, OtherR]) -> Replacement[OtherP, OtherR]:
            original, patch = _original_and_patch(owner, name, function)
            self.patches += (patch,)
            return Replacement(original)

        return add


def bug(
    id_: str, owner: Owner | tuple[Owner, ...], name: str, *, found_by: tuple[str, ...]
) -> Callable[[Callable[P, R]], Bug[P, R]]:
    """Return a decorator for a function that replaces an attribute of the store. The function's docstring is the
    summary.

    `owner` may be several modules, because a function imported by name is an attribute of each importing module. For a
    property, the function replaces the getter.
    """
    owners = owner if isinstance(owner, tuple) else (owner,)

    def make(function: Callable[P, R]) -> Bug[P, R]:
        replaced = [_original_and_patch(each, name, function) for each in owners]
        patches = tuple(patch for _, patch in replaced)
        made = Bug[P, R](id_, _summary(function), patches, found_by, vars(function).get("needs", Ranges()))
        made.original = replaced[0][0]
        return made

    return make


def needs(ranges: Ranges | None = None, **knobs: Any) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Return a decorator that sets the ranges of plans which the bug needs. Write this decorator below `bug`.

    `knobs`: see `Ranges.replace`.
    """
    needed = (ranges or Ranges()).replace(**knobs)

    def note(function: Callable[P, R]) -> Callable[P, R]:
        vars(function)["needs"] = needed
        return function

    return note


def _original_and_patch(owner: Owner, name: str, function: Callable[P, R]) -> tuple[Callable[P, R], Patch]:
    """Return an attribute's current function, and the patch that replaces the function."""
    original: Any = getattr_static(owner, name, None)
    replacement: Any = function
    if isinstance(original, property):
        original, replacement = original.fget, property(function)
    elif isinstance(original, staticmethod | classmethod):
        original, replacement = original.__func__, type(original)(replacement)
    return original, Patch(owner, name, replacement)


def _summary(function: Callable[..., Any]) -> str:
    """Return the first paragraph of a docstring as a clause: `A put is lost.` becomes `a put is lost`."""
    text = " ".join((getdoc(function) or "").partition("\n\n")[0].split()).removesuffix(".")
    is_name = any(letter.isupper() for letter in text.partition(" ")[0][1:])  # such as RocketMQ
    return text if is_name else text[:1].lower() + text[1:]


class PatchesCollideError(ValueError):
    """Two combined mutants replace the same attribute."""


def compose_mutants(name: str, summary: str, members: Iterable[Mutant], needs: Ranges | None = None) -> Mutant:
    """Return a mutant with the patches of all given mutants. Raises PatchesCollideError with the names of two
    mutants."""
    mutants = tuple(members)
    replaced_by: dict[tuple[str, str, str], str] = {}
    for mutant in mutants:
        for patch in mutant.patches:
            place = (getattr(patch.owner, "__module__", ""), patch.owner.__name__, patch.name)
            other = replaced_by.setdefault(place, mutant.id)
            if other != mutant.id:
                raise PatchesCollideError(f"{other} and {mutant.id} both replace {place[1]}.{place[2]}")
    patches = tuple(patch for mutant in mutants for patch in mutant.patches)
    found_by = tuple(dict.fromkeys(invariant for mutant in mutants for invariant in mutant.found_by))
    return Mutant(name, summary, patches, found_by, needs or Ranges())
