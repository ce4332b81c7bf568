"""Findings: failed runs of a user's scenario, with the data to replay them.

As an artefact (`artefact`, kind "own code"):

    seed       of the first failing run
    signature  identifies the kind of failure: the broken promise, or else the type of the error
    error      the full message of the error that ended the run
    digest     of the run; equal in a replay with the same code
    steps      number of scheduling points of the run
    record     the decisions of the run: crashes, schedule, random choices
    story      the last events before the failure
    raised     the innermost line of the user's code in the traceback: "file:line in function"; may be empty
    shrunk     whether the run is smaller than the seed's run
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
    """Return the decisions that select the workload steps."""
    return tuple(decision for decision in record.decisions if decision.label.endswith(_IS_TAKEN))


@dataclass(frozen=True, slots=True)
class Finding:
    """A failed run. Its text is a summary; its JSON is the complete artefact."""

    seed: int
    record: TrialRecord
    signature: str
    error: str
    digest: str
    steps: int
    story: tuple[str, ...]
    raised: str = ""
    """Innermost line of the user's code in the traceback: "file:line in function"; may be empty."""
    is_shrunk: bool = False

    def __str__(self) -> str:
        return self.text(self.raised.rpartition("/")[2])

    def text(self, raised: str) -> str:
        """Return the summary. raised: the line of the user's code, with a path from the reader's working directory."""
        record = self.record
        others = (decision for decision in record.decisions if not decision.label.endswith(_IS_TAKEN))
        return "\n".join(
            [
                f"{'shrunk from ' if self.is_shrunk else ''}seed {self.seed}: {self.error}",
                *_lines_under("raised", [raised] if raised else []),
                *_lines_under(
                    "workload", (f"{step.stream}, {step.label[: -len(_IS_TAKEN)]}" for step in steps_taken(record))
                ),
                *_lines_under("crashes", record.crashes),
                *_lines_under("schedule", record.schedule),
                *_lines_under("draws", others),
                *_lines_under("events", self.story),
            ]
        )

    def to_json(self, *, test: str = "") -> str:
        """Return an artefact. test: the failed pytest test, relative to the root directory of pytest."""
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
        """Read the output of to_json. ArtefactError: the first invalid field."""
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
    seed: int
    signature: str
    error: str
    digest: str
    steps: int
    record: RecordDocument
    story: list[str]
    raised: str
    shrunk: bool


def _lines_under(name: str, lines: Iterable[object]) -> Iterator[str]:
    for line in lines:
        yield f"  {name:<9} {line}"
        name = ""
