"""Failures of scenarios: a broken promise, the run that broke it, and perhaps a smaller one that does.

As an artefact (`faults.simulation.artefact`, of the kind "scenario"):

scenario    its name; claim: its sentence; seed; mutant: its id or null
original    the run: record (crashes, schedule, decisions), plan, and what it came to:
              digest      a replay by the same code gives the same
              violations  what broke, the first first
              story       what happened before it, as far as it concerns that, in ten lines
              size        how much there is to read in it; steps: scheduling points until it broke
shrunk      null, or a smaller run with the same breach
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
_NO_NAME = re.compile(r"[^\w.-]+")
"""What a file's name is better without: a mutant's may be a path."""


@dataclass(frozen=True, slots=True)
class Size:
    """How much there is to read in a failure."""

    messages: int
    """That were put, or tried to be, until it broke."""
    preemptions: int
    """Switches away from a task that could have gone on."""
    switches: int
    """Preemptions, and blocked tasks that were not followed by the one that had waited longest."""
    sectors: int
    """Pages that a power cut left old, lost or torn."""
    faults: int
    """Whatever else went wrong with a disk."""
    lives: int
    """Of the store, until the last one that was meant to end."""


@dataclass(frozen=True, slots=True)
class FailingRun:
    """A run that broke a promise, its record, and what there is to say about it."""

    record: RunRecord
    digest: str
    violations: list[Violation]
    story: list[str]
    size: Size
    steps: int
    """Scheduling points until it broke."""

    @property
    def signature(self) -> str:
        """Return what makes two failures the same: the kind of the first breach."""
        return self.violations[0].signature


@dataclass(frozen=True, slots=True)
class Failure:
    """One broken promise with the run that broke it, and perhaps with a smaller one that breaks it, too."""

    scenario: str
    claim: str
    seed: int
    mutant: str | None
    original: FailingRun
    shrunk: FailingRun | None = None

    @property
    def smallest(self) -> FailingRun:
        """Return the shrunk run if there is one."""
        return self.shrunk or self.original

    @property
    def violations(self) -> list[Violation]:
        """Return what broke."""
        return self.original.violations

    @property
    def signature(self) -> str:
        """Return what names the file: scenario and kind of breach."""
        return f"{self.scenario}-{self.original.signature}"

    @property
    def name_of_mutant(self) -> str:
        """Return what names the file among those of other mutants: several may break one promise in one scenario."""
        return _NO_NAME.sub("-", f"{self.mutant}-{self.original.signature}").strip("-")

    def to_json(self) -> str:
        """Return the artefact's text."""
        shrunk = None if self.shrunk is None else _run_document(self.shrunk)
        document = _FailureDocument(
            self.scenario, self.claim, self.seed, self.mutant, _run_document(self.original), shrunk
        )
        return write_artefact(SCENARIO, document)

    @classmethod
    def from_json(cls, text: str) -> "Failure":
        """Read an artefact. Raises ArtefactError naming what is wrong with it."""
        found = read_artefact(text, SCENARIO, _FailureDocument)
        shrunk = None if found.shrunk is None else _run_of("failure.shrunk", found.shrunk)
        original = _run_of("failure.original", found.original)
        return cls(found.scenario, found.claim, found.seed, found.mutant, original, shrunk)


@dataclass(frozen=True, slots=True)
class _RunDocument:
    """A failing run as its artefact has it."""

    steps: int
    size: Size
    plan: dict[str, Any]
    digest: str
    violations: list[Violation]
    story: list[str]
    record: RecordDocument


@dataclass(frozen=True, slots=True)
class _FailureDocument:
    """A failure as its artefact has it."""

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


def _run_of(place: str, document: _RunDocument) -> FailingRun:
    """Return the run of a document. Raises ArtefactError naming the first field that cannot be."""
    if not document.violations:
        raise ArtefactError(f"{place}.violations: expected at least one, found none")
    try:
        record = record_from(document.record, Plan.from_json(document.plan))
    except ValueError as error:
        raise ArtefactError(f"{place}.{error}") from error
    return FailingRun(record, document.digest, document.violations, document.story, document.size, document.steps)
