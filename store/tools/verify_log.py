"""Verifier of the log: joins the facts of its ranges.

This module finds the end of the log and the torn tail after it. If a range did not begin at the end of the previous
range, the range is checked again from there. The queueOffsets of each queue must continue from range to range.
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
    """The result of a check of the log."""

    min_offset: int = 0
    end_offset: int = 0
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
    """Yield each range that is not empty, with facts that begin at the end of the previous range.

    `judged` contains all ranges in log order, each checked alone. A range that began elsewhere, because of damage or of
    a record in a message body, is checked again.
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
    def __init__(self, first: int | None) -> None:
        """`first` is the required queueOffset of the first record, or None if any value is valid."""
        self._next = first
        self._also_next: int | None = None

    def count_run(self, run: QueueRun) -> int | None:
        """Check a run of records. If its first queueOffset is wrong, returns the expected one, else None.

        After a wrong queueOffset the next record may continue from the expected or the found queueOffset.
        """
        assert run.records > 0, run
        found, expected = run.first, self._next
        if expected is None or found in (expected, self._also_next):
            self._next, self._also_next = found + run.records, None
            return None
        if run.records == 1:  # probably only this queueOffset is wrong
            self._next, self._also_next = expected + 1, found + 1
        else:
            self._next, self._also_next = found + run.records, None
        return expected


class LogVerifier:
    """Joins the results of ranges, which the caller adds in log order."""

    def __init__(self, min_offset: int, findings: Findings) -> None:
        self.facts = LogFacts(min_offset, min_offset)
        self._findings = findings
        self._counts: dict[QueueKey, _QueueCount] = {}
        self._zero_tails: list[DirectoryViolation] = []
        self._doubtful: list[tuple[int, DirectoryViolation]] = []
        self._keys: list[tuple[int, KeyFindings]] = []
        """For each range, the end of the log as known after the range, and the key findings."""

    def add_range(self, log_range: LogPart, found: RangeFacts) -> None:
        facts = self.facts
        if found.records:
            self._findings.violations += self._zero_tails  # zeros before a record are violations
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
                # If the log begins at 0, no message has expired.
                count = self._counts[queue] = _QueueCount(None if facts.min_offset else 0)
            for run in of_range.runs:
                expected = count.count_run(run)
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
            self._findings.add_violation(DirectoryPromise.QOFF, log_range.path, at, name, expected, number)

    def finish(self) -> LogFacts:
        facts = self.facts
        for log_offset, violation in self._doubtful:
            if log_offset < facts.end_offset:
                self._findings.violations.append(violation)
            else:
                self._findings.add_explained(violation, "truncate the log there")
        for end_offset, keys in self._keys:
            facts.key_findings += keys.certain
            facts.key_findings += keys.if_log_goes_on if end_offset < facts.end_offset else keys.if_log_ends
        return facts
