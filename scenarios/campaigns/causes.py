"""Causes: find which known bugs of a RocketMQ version violated a guarantee.

The failing run is replayed with the same crash points and choices under other sets of bugs. A bug is *enough* if the
run with this bug alone violates the guarantee in the same way. Removing a bug *helps* if the run with all other bugs
does not violate the guarantee in the same way. If every failure has a bug that is enough, no removal is tried. Neither
result is a proof: without a bug, the run may fail earlier or may not reach the failing operation.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

from ...sim.interruption import Interruption
from ..mutants.mutant import Mutant, compose_mutants
from .failures.failure import Failure, RunRecord
from .failures.parts import violates
from .runner import Tally
from .worker_pool import run_jobs

FAILURES_TRIED = 5
"""Maximum number of replayed failures of each violation."""


@dataclass(frozen=True, slots=True)
class Cause:
    """A bug that contributed to a violation."""

    id: str
    tries: int
    mended: int
    """Failures that do not recur in a replay without this bug."""
    enough: int
    """Failures that recur in a replay with this bug alone."""

    def __post_init__(self) -> None:
        assert 0 <= self.mended <= self.tries, (self.mended, self.tries)
        assert 0 <= self.enough <= self.tries, (self.enough, self.tries)

    @property
    def weight(self) -> tuple[int, int]:
        return (self.mended + self.enough, self.enough)


@dataclass(frozen=True, slots=True)
class ViolationKind:
    """One kind of violation, found in one or more runs."""

    promise: str
    kind: str
    """The name of the field with the wrong value."""
    times: int
    scenarios: dict[str, int]
    failures: tuple[Failure, ...]
    """A sample of the failures, alternating between scenarios. The failures of a scenario are sorted by seed."""
    causes: tuple[Cause, ...] = ()
    """The contributing bugs, the likeliest first."""
    clean: int = 0
    """Number of replayed failures that recur without any bug."""

    def __post_init__(self) -> None:
        assert len(self.failures) > 0, "a violated promise has a failure"
        assert self.times == sum(self.scenarios.values()), (self.times, self.scenarios)

    @property
    def first(self) -> Failure:
        return self.failures[0]

    @property
    def likeliest_causes(self) -> tuple[Cause, ...]:
        return tuple(cause for cause in self.causes if cause.weight == self.causes[0].weight)

    def to_json(self, again: str) -> dict[str, Any]:
        """Return a value for JSON output. again: the command that repeats the first failure."""
        return {
            "promise": self.promise,
            "kind": self.kind,
            "times": self.times,
            "scenarios": self.scenarios,
            "scenario": self.first.scenario,
            "seed": self.first.seed,
            "causes": [asdict(cause) for cause in self.causes],
            "clean": self.clean,
            "again": again,
        }


def broken_promises(tallies: Iterable[Tally]) -> list[ViolationKind]:
    """Return the violations, the most frequent first."""
    times: dict[str, dict[str, int]] = {}
    found: dict[str, list[Failure]] = {}
    for tally in tallies:
        for signature, count in tally.signatures.items():
            times.setdefault(signature, {})[tally.scenario.name] = count
        for failure in tally.failures:
            found.setdefault(failure.violations[0].signature, []).append(failure)
    rows = []
    for signature, failures in found.items():
        in_turn = _alternating_by_scenario(failures)
        violation = in_turn[0].violations[0]
        scenarios = dict(sorted(times[signature].items()))
        total = sum(scenarios.values())
        kind = violation.field or "broken"
        rows.append(ViolationKind(violation.invariant, kind, total, scenarios, in_turn))
    return sorted(rows, key=lambda row: (-row.times, row.promise, row.kind))


def _alternating_by_scenario(failures: Iterable[Failure]) -> tuple[Failure, ...]:
    seen: Counter[str] = Counter()
    keyed = []
    for failure in sorted(failures, key=lambda failure: failure.seed):
        keyed.append((seen[failure.scenario], failure))
        seen[failure.scenario] += 1
    return tuple(failure for _, failure in sorted(keyed, key=lambda pair: pair[0]))


def violation_kinds_with_causes(
    rows: Sequence[ViolationKind], version: str, *, jobs: int = 1, interruption: Interruption | None = None
) -> Iterator[ViolationKind]:
    """Yield each violation with the bugs of the version that caused it.

    After an interruption, the remaining violations are yielded without causes.
    """
    explain, interruption = partial(_with_likeliest_causes, version=version), interruption or Interruption()
    left = {(row.promise, row.kind): row for row in rows}
    for row, found in run_jobs(explain, rows, jobs, interruption):
        del left[row.promise, row.kind]
        yield found
    yield from left.values()


def _with_likeliest_causes(row: ViolationKind, version: str) -> ViolationKind:
    from ..mutants.versions import VERSIONS  # here, because it collects all mutants

    return with_causes(row, tuple(VERSIONS[version].members.values()))


def with_causes(row: ViolationKind, members: Sequence[Mutant]) -> ViolationKind:
    signature = row.first.violations[0].signature
    records = [failure.original.record for failure in row.failures[:FAILURES_TRIED]]
    clean = _indexes_of_violating(compose_mutants("none", "", ()), records, signature)
    records = [record for number, record in enumerate(records) if number not in clean]
    alone = {member.id: _indexes_of_violating(member, records, signature) for member in members}
    if set().union(*alone.values()) == set(range(len(records))):
        suspects = [member for member in members if alone[member.id]]
    else:
        suspects = list(members)  # at least one failure needs a combination of bugs
    causes = []
    for member in suspects:
        rest = compose_mutants(f"all but {member.id}", "", [other for other in members if other is not member])
        mended = len(records) - len(_indexes_of_violating(rest, records, signature))
        if mended or alone[member.id]:
            causes.append(Cause(member.id, len(records), mended, len(alone[member.id])))
    causes.sort(key=lambda cause: cause.weight, reverse=True)
    return replace(row, causes=tuple(causes), clean=len(clean))


def _indexes_of_violating(mutant: Mutant, records: Sequence[RunRecord], signature: str) -> set[int]:
    """Return the indexes of runs that have this violation with a mutant, or end in a harness error."""
    return {number for number, record in enumerate(records) if _has_violation(record, mutant, signature)}


def _has_violation(record: RunRecord, mutant: Mutant, signature: str) -> bool:
    with mutant.applied():
        return violates(record, signature)


def likeliest_cause_names(row: ViolationKind) -> list[str]:
    """Return the likeliest causes, or a line which states that no single bug is the cause."""
    unknown = "none: it also fails without these bugs" if row.clean else "only several bugs together"
    return [cause.id for cause in row.likeliest_causes] or [unknown]


def cause_text(cause: Cause) -> str:
    return f"{cause.id}: {cause.mended} of {cause.tries} pass without it, {cause.enough} fail with it alone"
