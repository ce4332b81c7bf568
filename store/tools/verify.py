"""Verification: checks a store directory and reports every violation.

`DirectoryPromise` lists the guarantees that are checked. A flipped bit outside of a body may stay undetected, because
only bodies have a checksum.

The verifier checks the log in parts, which several processes can share (`spread`). For each record of a part it checks
the queue entry at the record's queueOffset and the index entries of the record's keys. Queue and index entries that did
not match a record are checked afterwards.

An `abort` file shows that the last exit was unclean. The next recovery then repairs damage after the last whole record,
entries that point there, missing entries at a queue's end, unfinished segments, and index files that the checkpoint
does not cover. The verifier reports such damage as a *note*. If the data was durable according to the checkpoint's
times, minus RocketMQ's margin of 3 s, the damage is a violation.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, cast

from ..config import StoreConfig
from ..errors import CorruptFileError
from ..formats.checkpoint import (
    CHECKPOINT_BYTES,
    SAFETY_MARGIN_MS,
    CheckpointValues,
    decode_checkpoint,
    is_creation_interrupted,
    times_beyond_log,
)
from ..formats.columns import NativeCore
from ..log.segment_queue import SegmentDirectories
from ..world import Files
from .geometry import Geometry, config_of_directory, geometry_fields
from .spread import PartSpread, spread_in_process
from .verify_files import RawSegment, RowReader, damaged_side_files
from .verify_index import IndexFacts, IndexFileFacts, IndexFinding, LinkJudgement, examine_index, report_index
from .verify_log import LogFacts, LogVerifier, joined_ranges
from .verify_queues import QueueJudgement, QueueToJudge, queue_directories
from .verify_ranges import LogPart, RangeFacts, RangeJudgement, ranges_of
from .verify_settling import QueuedRecords
from .violation import DirectoryPromise, Findings

FORMAT = "tornlog-verify/1"
_QUEUES_AT_ONCE = 32
_PROMISES = list(DirectoryPromise)
_COUNTS = (
    *("segments", "logBytes", "records", "recordBytes", "blanks"),
    *("queues", "entries", "expiredEntries", "blankEntries", "extFiles", "extUnits"),
    *("indexFiles", "indexEntries"),
)


@dataclass(slots=True)
class Verification:
    """The result of a verification."""

    findings: Findings
    config: StoreConfig | None = None
    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(_COUNTS, 0))

    def fields(self) -> dict[str, Any]:
        fields: dict[str, Any] = {"format": FORMAT, "cleanExit": not self.findings.unclean_exit}
        if self.config is not None:
            fields["geometry"] = geometry_fields(self.config)
        fields["counts"] = self.counts
        fields["violations"] = [
            violation._asdict() | {"promise": violation.promise.value} for violation in self.findings.violations
        ]
        fields["notes"] = self.findings.notes
        return fields


def verify_directory(
    files: Files,
    root: str,
    geometry: Geometry,
    advance: Callable[[int], None],
    core: NativeCore | None = None,
    spread: PartSpread | None = None,
    split_bytes: int = 0,
) -> Verification:
    """Check the store in the directory `root`, an absolute path.

    Calls `advance` with the size of each checked part of the log. `files` are only listed, mapped and read;
    `OverlayFiles` prevents changes. `spread` runs the checks, by default one after another in this process. A part of
    the log has split_bytes, or is a segment if split_bytes is 0.
    """
    unclean_exit = files.status(f"{root}/abort") is not None
    findings = Findings(root, unclean_exit)
    found = Verification(findings)
    try:
        found.config = config_of_directory(files, root, geometry)
    except CorruptFileError as error:
        findings.add_corrupt(DirectoryPromise.LOG, error)
        return found
    except OSError as error:
        findings.add_unreadable(DirectoryPromise.LOG, root, error)
        return found
    _Verifier(files, found, found.config, spread or spread_in_process(files, core), split_bytes).verify(advance)
    return found


@dataclass(frozen=True, slots=True)
class _LogOrIndexJudgement:
    """Checks a log range or an index file's links, so that both can run in parallel."""

    log: RangeJudgement
    links: LinkJudgement

    def __call__(
        self, files: Files, core: NativeCore | None, part: LogPart | IndexFileFacts
    ) -> RangeFacts | list[IndexFinding]:
        return self.log(files, core, part) if isinstance(part, LogPart) else self.links(files, core, part)


class _Verifier:
    def __init__(
        self, files: Files, found: Verification, config: StoreConfig, spread: PartSpread, split_bytes: int
    ) -> None:
        self._files = files
        self._found = found
        self._findings = found.findings
        self._config = config
        self._spread = spread
        self._split_bytes = split_bytes

    def verify(self, advance: Callable[[int], None]) -> None:
        findings, config, counts = self._findings, self._config, self._found.counts
        log_directories = SegmentDirectories.of_commit_log(self._files, config)
        reader = RowReader(self._files, config.mapped_file_size_commit_log, DirectoryPromise.LOG, findings)
        segments = reader.read(log_directories.existing_directories())
        checkpoint = _CheckpointVerifier(self._files, config.checkpoint_path, findings)
        of_index = Findings(findings.root, findings.unclean_exit)
        index_ms = checkpoint.values.index_msg_timestamp_ms
        index = examine_index(self._files, config, index_ms, of_index, self._spread)
        facts, links = self._verify_log(segments, index, advance)
        checkpoint.report(findings, facts.records)
        self._verify_queues(facts, min(checkpoint.values[:2]) - SAFETY_MARGIN_MS)
        findings.extend(of_index)
        report_index([*index.found, *links, *facts.key_findings], findings)
        last_ms, is_unclean, path = facts.last_store_timestamp_ms, findings.unclean_exit, config.checkpoint_path
        for error in times_beyond_log(checkpoint.values, last_ms, unclean_exit=is_unclean, file=path):
            findings.add_corrupt(DirectoryPromise.CKPT, error)
        for error in damaged_side_files(self._files, config):
            findings.add_corrupt(DirectoryPromise.META, error)
        findings.violations.sort(key=lambda violation: _PROMISES.index(violation.promise))
        counts["segments"] = len(segments)
        counts["logBytes"] = sum(segment.size_bytes for segment in segments)
        counts["records"], counts["recordBytes"], counts["blanks"] = facts.records, facts.record_bytes, facts.blanks
        counts["indexFiles"], counts["indexEntries"] = index.file_count, index.entry_count

    def _verify_log(
        self, segments: list[RawSegment], index: IndexFacts, advance: Callable[[int], None]
    ) -> tuple[LogFacts, list[IndexFinding]]:
        """Check the log, and in parallel the index links. Returns the result and the wrong links."""
        root, topics = self._findings.root, _topics_with_queues(self._files, self._config)
        of_log = RangeJudgement(root, self._config, topics, index)
        of_links = LinkJudgement(root, index.slots, index.entries_max)
        ranges = ranges_of(segments, self._split_bytes)
        parts: list[LogPart | IndexFileFacts] = [*index.files, *ranges]
        judged = self._spread(_LogOrIndexJudgement(of_log, of_links), parts)
        links = [finding for _ in index.files for finding in cast(list[IndexFinding], next(judged))]
        # The ranges are joined in order, because the queueOffsets of a queue continue from range to range.
        verifier = LogVerifier(segments[0].base_offset if segments else 0, self._findings)
        each = zip(ranges, cast(Iterator[RangeFacts], judged), strict=True)
        for log_range, facts in joined_ranges(each, self._spread, of_log):
            verifier.add_range(log_range, facts)
            advance(log_range.end - log_range.start)
        facts_of_log = verifier.finish()
        if not segments:
            facts_of_log.key_findings += of_log.keys_without_log(self._files)
        return facts_of_log, links

    def _verify_queues(self, facts: LogFacts, durable_ms: int) -> None:
        findings, counts = self._findings, self._found.counts
        place = findings.root, findings.unclean_exit, self._config
        judgement = QueueJudgement(*place, facts.min_offset, facts.end_offset, durable_ms)
        queues = [
            QueueToJudge(*queue, facts.settled.pop(queue[:2], []), facts.unsettled.pop(queue[:2], QueuedRecords()))
            for queue in queue_directories(self._files, self._config, findings)
        ]
        batches = [queues[begin : begin + _QUEUES_AT_ONCE] for begin in range(0, len(queues), _QUEUES_AT_ONCE)]
        for found in self._spread(judgement, batches):
            findings.extend(found.findings)
            counts["queues"] += found.queues
            counts["entries"] += found.entries
            counts["blankEntries"] += found.blanks
            counts["expiredEntries"] += found.expired
            counts["extFiles"] += found.ext_files
            counts["extUnits"] += found.ext_units
        findings.extend(judgement.without_directory(self._files, facts.unsettled))


def _topics_with_queues(files: Files, config: StoreConfig) -> frozenset[str]:
    """Return the topics that have a queue directory."""
    try:
        return frozenset(files.list_directory(config.consume_queue_directory))
    except OSError:
        return frozenset()  # `QueueJudgement` reports this error


class _CheckpointVerifier:
    """Reads the checkpoint. All times are 0 if the checkpoint is missing or damaged."""

    def __init__(self, files: Files, path: str, findings: Findings) -> None:
        self.values = CheckpointValues(0, 0, 0)
        self._path = path
        self._is_missing = False
        self._found = Findings(findings.root, findings.unclean_exit)
        try:
            self.values = self._read_checkpoint_or_report(files)
        except CorruptFileError as error:
            self._found.add_corrupt(DirectoryPromise.CKPT, error)
        except OSError as error:
            self._found.add_unreadable(DirectoryPromise.CKPT, path, error)

    def _read_checkpoint_or_report(self, files: Files) -> CheckpointValues:
        status = files.status(self._path)
        if status is None:
            self._is_missing = True
            return CheckpointValues(0, 0, 0)
        size_bytes = min(status.size_bytes, CHECKPOINT_BYTES)  # RocketMQ 5 has more data after these bytes
        # Mapping fails for everything except a regular file.
        raw = bytes(files.map(self._path, size_bytes).view(0, size_bytes))
        if is_creation_interrupted(raw):
            expected, found = f"at least {CHECKPOINT_BYTES} bytes", f"{len(raw)}, all zero"
            violation = self._found.violation(DirectoryPromise.CKPT, self._path, len(raw), "size", expected, found)
            self._found.add_explained(violation, "complete the checkpoint")
            return CheckpointValues(0, 0, 0)
        return decode_checkpoint(raw, file=self._path)

    def report(self, findings: Findings, records: int) -> None:
        """Report errors. If records exist, a missing checkpoint is an error: a store creates it first."""
        if self._is_missing and records:
            violation = findings.violation(DirectoryPromise.CKPT, self._path, 0, "file", "a file", "nothing")
            findings.add_explained(violation, "check all queue entries and create the checkpoint")
        findings.extend(self._found)
