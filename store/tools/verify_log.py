"""Verifier of the log: puts together what its ranges show.

Here it is seen where the log ends, so that what is behind is its tail; whether each range began where the one in front
of it ends, or is to be judged again from there; and whether queues count up from range to range.

Needs memory for what is wrong, for records that are not settled, and for where settled ones begin and end.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from ..formats.message import QUEUE_OFFSET_AT
from ..formats.properties import PROPERTY_INNER_MULTI_QUEUE_OFFSET
from .spread import PartSpread
from .verify_index import IndexFinding
from .verify_keys import KeyFindings
from .verify_ranges import LogPart, RangeFacts, RangeJudgement
from .verify_settling import QueuedRecords, QueueKey, QueueRun, SettledSpan, add_span
from .violation import DirectoryPromise, DirectoryViolation, Findings


@dataclass(slots=True)
class LogFacts:
    """What the log holds."""

    min_offset: int = 0
    end_offset: int = 0
    """Log offset behind the last whole record."""
    last_store_timestamp_ms: int = 0
    records: int = 0
    blanks: int = 0
    record_bytes: int = 0
    settled: dict[QueueKey, list[SettledSpan]] = field(default_factory=dict)
    unsettled: dict[QueueKey, QueuedRecords] = field(default_factory=dict)
    key_findings: list[IndexFinding] = field(default_factory=list)


def joined_ranges(
    judged: Iterable[tuple[LogPart, RangeFacts]], spread: PartSpread, judgement: RangeJudgement
) -> Iterator[tuple[LogPart, RangeFacts]]:
    """Yield ranges in order, each with what it holds from where the one in front of it ends; none of empty ones.

    judged: all of them, in order, each as it was judged by itself. One that began elsewhere, as only damage or a record
    in a message's body brings about, is judged once more.
    """
    next_begin = 0
    for log_range, facts in judged:
        if log_range.start == 0:
            next_begin = 0
        elif next_begin >= log_range.end:
            continue
        if facts.begin != next_begin:
            again = log_range._replace(start=next_begin, is_known=True)
            (facts,) = spread(judgement, [again])
            assert facts.begin == next_begin, (facts.begin, next_begin)
        assert facts.end >= next_begin, (facts.end, next_begin)
        next_begin = facts.end
        yield log_range, facts


class _QueueCount:
    """How far a queue has counted."""

    def __init__(self, first: int | None) -> None:
        """first is the queueOffset the first record has to have, None if any will do."""
        self._next = first
        self._also_next: int | None = None

    def take(self, run: QueueRun) -> int | None:
        """Go on behind a run; return the queueOffset its first record should have if it has another.

        After a mismatch the count may go on from what was found or as if nothing had happened.
        """
        assert run.records > 0, run
        found, expected = run.first, self._next
        if expected is None or found in (expected, self._also_next):
            self._next, self._also_next = found + run.records, None
            return None
        if run.records == 1:  # a number that is wrong by itself is followed by the right one
            self._next, self._also_next = expected + 1, found + 1
        else:
            self._next, self._also_next = found + run.records, None
        return expected


class LogVerifier:
    """Takes the ranges of a log in order."""

    def __init__(self, min_offset: int, findings: Findings) -> None:
        """min_offset: where the log begins."""
        self.facts = LogFacts(min_offset, min_offset)
        self._findings = findings
        self._counts: dict[QueueKey, _QueueCount] = {}
        self._zero_tails: list[DirectoryViolation] = []
        self._doubtful: list[tuple[int, DirectoryViolation]] = []
        self._keys: list[tuple[int, KeyFindings]] = []
        """With the log's end, as it was known after that range."""

    def take(self, log_range: LogPart, found: RangeFacts) -> None:
        """Add a range."""
        facts = self.facts
        if found.records:
            self._findings.violations += self._zero_tails  # now that something follows them
            self._zero_tails.clear()
            assert found.end_offset > facts.end_offset, (found.end_offset, facts.end_offset)
            facts.end_offset = found.end_offset
            facts.last_store_timestamp_ms = max(facts.last_store_timestamp_ms, found.last_store_timestamp_ms)
        facts.records += found.records
        facts.record_bytes += found.record_bytes
        facts.blanks += found.blanks
        self._findings.violations += found.found
        self._zero_tails += [] if found.zero_tail is None else [found.zero_tail]
        self._doubtful += found.doubtful
        if found.keys is not None:
            self._keys.append((facts.end_offset, found.keys))
        misplaced: list[tuple[int, bool, str, int, int]] = []
        for queue, of_range in found.queues.items():
            count = self._counts.get(queue)
            if count is None:
                # Nothing has expired from a log that begins at 0.
                count = self._counts[queue] = _QueueCount(None if facts.min_offset else 0)
            for run in of_range.runs:
                expected = count.take(run)
                if expected is not None:
                    misplaced.append((run.physical_offset, run.is_light, queue[0], expected, run.first))
            spans = facts.settled.setdefault(queue, [])
            for span in of_range.settled:
                add_span(spans, span)
            facts.unsettled.setdefault(queue, QueuedRecords()).extend(of_range.unsettled)
        for physical_offset, is_light, topic, expected, number in sorted(misplaced):
            at, name = physical_offset - log_range.base_offset, "queueOffset"
            if is_light:
                name = f"{PROPERTY_INNER_MULTI_QUEUE_OFFSET} for {topic}"
            else:
                at += QUEUE_OFFSET_AT
            self._findings.violated(DirectoryPromise.QOFF, log_range.path, at, name, expected, number)

    def finish(self) -> LogFacts:
        """Return what the log holds, now that its end is known."""
        facts = self.facts
        for log_offset, violation in self._doubtful:
            if log_offset < facts.end_offset:
                self._findings.violations.append(violation)
            else:
                self._findings.explained(violation, "end the log there")
        for end_offset, keys in self._keys:
            facts.key_findings += keys.certain
            facts.key_findings += keys.if_log_goes_on if end_offset < facts.end_offset else keys.if_log_ends
        return facts
