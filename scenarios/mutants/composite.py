"""Several mutants at once, as one: what a real version has, it has together."""

from collections.abc import Callable, Iterable

from ..claims.ranges import Ranges
from .mutant import Mutant


class PatchesCollideError(ValueError):
    """Two mutants replace one attribute: which of them would be in effect is left to chance."""


def composed(
    name: str,
    summary: str,
    members: Iterable[Mutant],
    narrow: Callable[[Ranges], Ranges] | None = None,
) -> Mutant:
    """Return a mutant with every patch of its members. Raises PatchesCollideError naming two that cannot both be in."""
    mutants = tuple(members)
    replaced_by: dict[tuple[str, str, str], str] = {}
    for mutant in mutants:
        for patch in mutant.patches:
            place = (getattr(patch.owner, "__module__", ""), patch.owner.__name__, patch.name)
            other = replaced_by.setdefault(place, mutant.id)
            if other != mutant.id:
                raise PatchesCollideError(f"{other} and {mutant.id} both replace {place[1]}.{place[2]}")
    return Mutant(
        name,
        "several",
        summary,
        tuple(patch for mutant in mutants for patch in mutant.patches),
        narrow,
        tuple(dict.fromkeys(invariant for mutant in mutants for invariant in mutant.expected)),
    )
