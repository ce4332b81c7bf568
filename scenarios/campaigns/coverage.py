"""Campaign coverage: faults that were never injected, marks that were never hit; silence proves nothing about them."""

from collections import Counter
from collections.abc import Iterable, Mapping

from ...faults.disk.fault_injector import MOMENTS
from ...faults.kinds import FAULTS as FAULTS
from ..runs.marks import MARKS as MARKS
from .runner import Tally


def never_injected(tallies: Iterable[Tally]) -> list[str]:
    """Return the kinds of fault that were never injected."""
    injected: Counter[str] = sum((tally.injected for tally in tallies), Counter())
    return [kind for kind in FAULTS if not injected[kind]]


def never_hit(tallies: Iterable[Tally]) -> list[str]:
    """Return the marks that were never hit."""
    marks: Counter[str] = sum((tally.marks for tally in tallies), Counter())
    return [mark for mark in MARKS if not marks[mark]]


def faults_of(injected: Mapping[str, int]) -> Counter[str]:
    """Return how often each kind of fault was injected: what is counted, but for the ends of machines."""
    return Counter({kind: times for kind, times in injected.items() if not kind.startswith("crash")})


def ends_of(injected: Mapping[str, int]) -> Counter[str]:
    """Return how machines died: in which operations, summed up by moment, and under which profile."""
    ends: Counter[str] = Counter()
    for kind, times in injected.items():
        crash, _, rest = kind.partition(" ")
        first, _, operation = rest.partition(" ")
        if crash == "crash" and rest:
            in_operation = bool(operation) and first in MOMENTS
            ends[f"died {first} an operation" if in_operation else f"crash under {rest}"] += times
    return ends
