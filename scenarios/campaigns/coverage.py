"""Campaign coverage: lists faults never injected and coverage marks never hit.

A campaign does not test these faults and the code at these marks.
"""

from collections import Counter
from collections.abc import Iterable, Mapping

from ...faults.disk.fault_injector import MOMENTS
from ...faults.kinds import FAULTS as FAULTS
from ..claims.possible_faults import possible_faults
from ..claims.scenario import Scenario
from ..runs.marks import MARKS as MARKS
from .runner import Tally


def never_injected(tallies: Iterable[Tally]) -> list[str]:
    rows = list(tallies)
    injected: Counter[str] = sum((tally.injected for tally in rows), Counter())
    return [kind for kind in faults_in(tally.scenario for tally in rows) if not injected[kind]]


def faults_in(scenarios: Iterable[Scenario]) -> dict[str, str]:
    possible = {kind for scenario in scenarios for kind in possible_faults(scenario.ranges)}
    return {kind: meaning for kind, meaning in FAULTS.items() if kind in possible}


def marks_never_hit(tallies: Iterable[Tally]) -> list[str]:
    marks: Counter[str] = sum((tally.marks for tally in tallies), Counter())
    return [mark for mark in MARKS if not marks[mark]]


def faults_of(injected: Mapping[str, int]) -> Counter[str]:
    """Return the number of injections of each fault except machine crashes."""
    return Counter({kind: times for kind, times in injected.items() if not kind.startswith("crash")})


def crashes_of(injected: Mapping[str, int]) -> Counter[str]:
    """Count machine crashes by phase within an operation and by crash profile."""
    ends: Counter[str] = Counter()
    for kind, times in injected.items():
        crash, _, rest = kind.partition(" ")
        first, _, operation = rest.partition(" ")
        if crash == "crash" and rest:
            in_operation = bool(operation) and first in MOMENTS
            ends[f"{first} an operation" if in_operation else f"on {rest}"] += times
    return ends
