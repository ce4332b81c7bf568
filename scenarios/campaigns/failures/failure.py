"""Failures of scenarios: a violation, its run, and an optional smaller run.

The artefact (`faults.simulation.artefact`, of the kind "scenario"):

    scenario    its name; claim: its claim as a sentence; seed; mutant: the mutant's id or null
    original    the run: record (crashes, schedule, decisions), plan, and its outcome:
                  digest      the same in a replay by the same code
                  violations  in order
                  story       the events around the first violation
                  size        see `RunSize`; steps: scheduling points until the violation
                  parts       lines about the needed crashes, faults and switches
    shrunk      null, or a smaller run with the same kind of violation
"""

import re
from dataclasses import dataclass, field
from typing import Any

from ....faults.simulation.artefact import (
    SCENARIO,
    ArtefactError,
    RecordDocument,
    document_of,
    read_artefact,
    record_from,
    write_artefact,
)
from ....faults.simulation.record import Record
from ...claims.plan import Plan
from ...oracle.evidence import Violation

RunRecord = Record[Plan]
_NOT_IN_FILE_NAMES = re.compile(r"[^\w.-]+")
"""Characters to replace in file names. A mutant's name may be a path."""


@dataclass(frozen=True, slots=True)
class RunSize:
    """The size of a failing run, in events that a reader has to follow."""

    messages: int
    """Number of attempted puts before the violation."""
    preemptions: int
    """Number of switches away from a runnable task."""
    switches: int
    """Preemptions, plus switches from a blocked task to a task other than the longest-waiting one."""
    sectors: int
    """Number of old, lost or torn pages after power cuts."""
    faults: int
    """Number of disk faults, excluding `sectors`."""
    lives: int
    """Number of starts of the store, excluding the start for the final liveness check."""


@dataclass(frozen=True, slots=True)
class FailingRun:
    """A failing run with its record and description."""

    record: RunRecord
    digest: str
    violations: list[Violation]
    story: list[str]
    size: RunSize
    steps: int
    """Number of scheduling points before the violation."""
    parts: list[str] = field(default_factory=list)
    """Lines about the needed crashes, faults and switches. Only a shrunk run has them."""

    @property
    def signature(self) -> str:
        """The signature of the first violation. Runs with equal signatures are the same failure."""
        return self.violations[0].signature


@dataclass(frozen=True, slots=True)
class Failure:
    """A violation, its run, and an optional shrunk run."""

    scenario: str
    claim: str
    seed: int
    mutant: str | None
    original: FailingRun
    shrunk: FailingRun | None = None

    @property
    def smallest(self) -> FailingRun:
        return self.shrunk or self.original

    @property
    def violations(self) -> list[Violation]:
        return self.original.violations

    @property
    def signature(self) -> str:
        """Return the start of the file's name: scenario and signature."""
        return f"{self.scenario}-{self.original.signature}"

    @property
    def file_stem_of_mutant(self) -> str:
        """Return the start of the file's name for a mutant.

        Two mutants with the same violation have different names.
        """
        return _NOT_IN_FILE_NAMES.sub("-", f"{self.mutant}-{self.original.signature}").strip("-")

    def to_json(self) -> str:
        shrunk = None if self.shrunk is None else _run_document(self.shrunk)
        document = _FailureDocument(
            self.scenario, self.claim, self.seed, self.mutant, _run_document(self.original), shrunk
        )
        return write_artefact(SCENARIO, document)

    @classmethod
    def from_json(cls, text: str) -> "Failure":
        """Raises ArtefactError for an invalid field."""
        found = read_artefact(text, SCENARIO, _FailureDocument)
        shrunk = None if found.shrunk is None else _run_from_document("failure.shrunk", found.shrunk)
        original = _run_from_document("failure.original", found.original)
        return cls(found.scenario, found.claim, found.seed, found.mutant, original, shrunk)


@dataclass(frozen=True, slots=True)
class _RunDocument:
    steps: int
    size: RunSize
    plan: dict[str, Any]
    digest: str
    violations: list[Violation]
    story: list[str]
    record: RecordDocument
    parts: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _FailureDocument:
    scenario: str
    claim: str
    seed: int
    mutant: str | None
    original: _RunDocument
    shrunk: _RunDocument | None


def _run_document(run: FailingRun) -> _RunDocument:
    record = document_of(run.record)
    plan = run.record.setup.to_json()
    return _RunDocument(run.steps, run.size, plan, run.digest, run.violations, run.story, record, run.parts)


def _run_from_document(place: str, document: _RunDocument) -> FailingRun:
    if not document.violations:
        raise ArtefactError(f"{place}.violations: expected at least one, found none")
    try:
        record = record_from(document.record, Plan.from_json(document.plan))
    except ValueError as error:
        raise ArtefactError(f"{place}.{error}") from error
    described = (document.violations, document.story, document.size, document.steps, document.parts)
    return FailingRun(record, document.digest, *described)
