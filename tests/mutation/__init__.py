"""Systematic mutants: every mistake in `operators` in every component.

`python -m tornlog mutants --set tests.mutation --narrowed` runs them, from a checkout; `tests.mutation:ID` names one.

`all_sites` has all mutants. The command hunts the first few of each operator and component, in the order of a hash of
their names. So the selection is arbitrary and changes only with the code. Sites in code that no run reaches are
skipped; UNREACHED has the condition for reaching each. `record` shows which mutants ran.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import cache
from hashlib import blake2b

from tornlog.scenarios.mutants.mutant import Mutant

from .sites import Site, all_sites
from .survivors import SURVIVORS as SURVIVORS
from .survivors import UNREACHED

SITES_EACH = 1
"""Hunted sites per operator and component."""


@cache
def selected_sites() -> tuple[Site, ...]:
    """Return the hunted sites, by id."""
    groups: defaultdict[tuple[str, str], list[Site]] = defaultdict(list)
    for site in (one for one in all_sites() if one.id not in UNREACHED):
        groups[site.component.name, site.operator.name].append(site)
    chosen = [site for group in groups.values() for site in sorted(group, key=_hash_of)[:SITES_EACH]]
    return tuple(sorted(chosen, key=lambda site: site.id))


def _hash_of(site: Site) -> bytes:
    return blake2b(site.id.encode(), digest_size=8).digest()


class _Systematic(Mapping[str, Mutant]):
    """The mutant of every site; iteration yields the hunted ones."""

    def __getitem__(self, name: str) -> Mutant:
        return _mutant(name)

    def __iter__(self) -> Iterator[str]:
        return (site.id for site in selected_sites())

    def __len__(self) -> int:
        return len(selected_sites())


MUTANTS = _Systematic()
"""By id, without the name of this module."""


@cache
def _mutant(name: str) -> Mutant:
    return _sites_by_id()[name].mutant()


@cache
def _sites_by_id() -> dict[str, Site]:
    return {site.id: site for site in all_sites()}
