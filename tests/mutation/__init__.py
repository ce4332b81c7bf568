"""Mutants that nobody wrote: every kind of mistake in `operators`, put into every part of the store in `components`.

`python -m tornlog mutants --set tests.mutation --narrowed` runs them, from a checkout; `tests.mutation:ID` names one.

The whole population is `all_sites`. Of it the first few of each operator in each component are hunted, in the order of
a hash of their names: nobody picks them, and which they are changes only where the code does. Passed over are those in
code that no run comes to, each with what would have to happen for that; they are the gaps of what runs do.
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
"""How many sites of one operator in one component are hunted."""


@cache
def selected_sites() -> tuple[Site, ...]:
    """Return the sites that are hunted, by id."""
    groups: defaultdict[tuple[str, str], list[Site]] = defaultdict(list)
    for site in (one for one in all_sites() if one.id not in UNREACHED):
        groups[site.component.name, site.operator.name].append(site)
    chosen = [site for group in groups.values() for site in sorted(group, key=_lot)[:SITES_EACH]]
    return tuple(sorted(chosen, key=lambda site: site.id))


def _lot(site: Site) -> bytes:
    return blake2b(site.id.encode(), digest_size=8).digest()


class _Systematic(Mapping[str, Mutant]):
    """The mutant of every site there is; iterates over those that are run."""

    def __getitem__(self, name: str) -> Mutant:
        return _mutant(name)

    def __iter__(self) -> Iterator[str]:
        return (site.id for site in selected_sites())

    def __len__(self) -> int:
        return len(selected_sites())


MUTANTS = _Systematic()
"""By id, without the name of this module in front."""


@cache
def _mutant(name: str) -> Mutant:
    return _sites_by_id()[name].mutant()


@cache
def _sites_by_id() -> dict[str, Site]:
    return {site.id: site for site in all_sites()}
