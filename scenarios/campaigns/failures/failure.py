"""Failures of scenarios: a broken promise, its run, and an optional smaller run.

The artefact (`faults.simulation.artefact`, of the kind "scenario"):

    scenario    its name; claim: the claim's sentence; seed; mutant: the mutant's id or null
    original    the run: record (crashes, schedule, decisions), plan, and its outcome:
                  digest      the same in a replay by the same code
                  violations  in order
                  story       the events that concern the first violation, in ten lines
                  size        the measures in `RunSize`; steps: scheduling points until the violation
    shrunk      null, or a smaller run with the same kind of violation
"""

import re
from dataclasses import dataclass
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
"""Characters to replace in file names, because a mutant's name may be a path."""


@dataclass(frozen=True, slots=True)
class RunSize:
    """Measures of how much a reader has to follow in a failing run."""

    messages: int
    """Attempted puts until the violation."""
    preemptions: int
    """Number of switches away from a task that could have continued."""
    switches: int
    """Preemptions, plus switches from a blocked task to a task that was not the longest-waiting one."""
    sectors: int
    """Number of pages that are old, lost or torn after a power cut."""
    faults: int
    """Disk faults, without the pages in `sectors`."""
    lives: int
    """Lives of the store, without the final life for the liveness check."""


@dataclass(frozen=True, slots=True)
class FailingRun:
    """A run that broke a promise, with its record and description."""

    record: RunRecord
    digest: str
    violations: list[Violation]
    story: list[str]
    size: RunSize
    steps: int
    """Scheduling points until the violation."""

    @property
    def signature(self) -> str:
        """Return the signature of the first violation. Runs with equal signatures count as the same failure."""
        return self.violations[0].signature


@dataclass(frozen=True, slots=True)
class Failure:
    """One broken promise, the run that broke it, and an optional shrunk run."""

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

        Two mutants that break the same promise have different names.
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
        """Raises ArtefactError, which names the invalid field."""
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
    return _RunDocument(run.steps, run.size, plan, run.digest, run.violations, run.story, record)


def _run_from_document(place: str, document: _RunDocument) -> FailingRun:
    if not document.violations:
        raise ArtefactError(f"{place}.violations: expected at least one, found none")
    try:
        record = record_from(document.record, Plan.from_json(document.plan))
    except ValueError as error:
        raise ArtefactError(f"{place}.{error}") from error
    return FailingRun(record, document.digest, document.violations, document.story, document.size, document.steps)
