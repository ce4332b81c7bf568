"""Findings: a run of a scenario of one's own that failed, and all it takes to see it again, seed or no seed.

As an artefact (`artefact`, of the kind "own code"):

seed        of the run that it began with
signature   what makes two failures the same: the promise that broke, or else the kind of error
error       what ended the run, in full
digest      of the run; a replay by the same code gives the same
steps       scheduling points it took
record      what decides it: crashes, schedule, decisions
story       the last things that happened before it
raised      the innermost line of the user's own that it came through: "file:line in function"; empty: there is none
shrunk      whether it was made smaller than the seed had it
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from ...sim.choices import Decision
from .artefact import OWN_CODE, RecordDocument, document_of, read_artefact, record_from, write_artefact
from .record import Record
from .simulation import TAKEN

_IS_TAKEN = f" {TAKEN}"


TrialRecord = Record[None]


def steps_taken(record: TrialRecord) -> tuple[Decision, ...]:
    """Return the steps of the workload that are taken, as the draws that say so."""
    return tuple(decision for decision in record.decisions if decision.label.endswith(_IS_TAKEN))


@dataclass(frozen=True, slots=True)
class Finding:
    """A run that failed. As text, all there is to read in it; as JSON, all there is to keep."""

    seed: int
    record: TrialRecord
    signature: str
    error: str
    digest: str
    steps: int
    story: tuple[str, ...]
    """The last things that happened: when, who, what."""
    raised: str = ""
    """The innermost line of the user's own that it came through: "file:line in function"; empty: there is none."""
    is_shrunk: bool = False

    def __str__(self) -> str:
        return self.text(self.raised.rpartition("/")[2])

    def text(self, raised: str) -> str:
        """Return all there is to read in it; raised: its place, as the reader knows files."""
        record = self.record
        others = (decision for decision in record.decisions if not decision.label.endswith(_IS_TAKEN))
        return "\n".join(
            [
                f"{'shrunk from ' if self.is_shrunk else ''}seed {self.seed}: {self.error}",
                *_headed("raised", [raised] if raised else []),
                *_headed(
                    "workload",
                    (f"{step.stream}, {step.label[: -len(_IS_TAKEN)]}" for step in steps_taken(record)),
                ),
                *_headed("crashes", record.crashes),
                *_headed("schedule", record.schedule),
                *_headed("draws", others),
                *_headed("story", self.story),
            ]
        )

    def to_json(self, *, test: str = "") -> str:
        """Return the finding as an artefact; test: the one that it is of, by pytest's root directory."""
        document = _FindingDocument(
            self.seed,
            self.signature,
            self.error,
            self.digest,
            self.steps,
            document_of(self.record),
            list(self.story),
            self.raised,
            self.is_shrunk,
        )
        return write_artefact(OWN_CODE, document, test=test)

    @classmethod
    def from_json(cls, text: str) -> "Finding":
        """Read what to_json wrote. Raises ArtefactError saying what is wrong with another text."""
        found = read_artefact(text, OWN_CODE, _FindingDocument)
        return cls(
            found.seed,
            record_from(found.record, None),
            found.signature,
            found.error,
            found.digest,
            found.steps,
            tuple(found.story),
            found.raised,
            found.shrunk,
        )


@dataclass(frozen=True, slots=True)
class _FindingDocument:
    """A finding as its artefact has it."""

    seed: int
    signature: str
    error: str
    digest: str
    steps: int
    record: RecordDocument
    story: list[str]
    raised: str
    shrunk: bool


def _headed(name: str, lines: Iterable[object]) -> Iterator[str]:
    """Yield lines behind a column that names the first."""
    for line in lines:
        yield f"  {name:<9} {line}"
        name = ""
