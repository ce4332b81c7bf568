"""Verification of a store directory as it stands: no recovery, no change, every violation reported.

What is checked, by the codes of `violation.Promise`: the segments and every record, blank and zero tail in them;
queue offsets; every queue entry against its record and every record for its entry; every index entry against its record
and every key for its entry; the checkpoint against the log. Not checked: side files under `config/`, and bits that no
field gives away (only bodies have a checksum).

A directory with an `abort` file was not shut down. There, damage behind the last whole record, entries that point
there, entries not yet added at a queue's end, and unborn segments are *notes*: the next recovery cuts, adds and removes
them. They stay violations where a crash does not explain them: when the checkpoint, less RocketMQ's 3 s of margin, says
that what is missing was durable. So it is with index files, which recovery builds again from the first one on that the
checkpoint does not call durable.

JSON contract, `tornlog-verify/1`:

    format      "tornlog-verify/1"
    cleanExit   whether there is no `abort` file
    geometry    {"mappedFileSizeCommitLog", "mappedFileSizeConsumeQueue", "messageDelayLevel", "maxHashSlotNum",
                "maxIndexNum", "enableConsumeQueueExt"} used
    counts      {"segments", "logBytes", "records", "recordBytes", "blanks", "queues", "entries", "expiredEntries",
                "blankEntries", "extFiles", "extUnits", "indexFiles", "indexEntries"}
    violations  [{"promise", "file", "offset", "field", "expected", "found"}]; file is relative to the directory
    notes       sentences

Fields may be added under the same format; a change of meaning makes it `/2`.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ..config import StoreConfig
from ..errors import CorruptFileError
from ..formats.checkpoint import (
    CHECKPOINT_BYTES,
    SAFETY_MARGIN_MS,
    CheckpointValues,
    claims_beyond,
    decode_checkpoint,
    is_unborn,
)
from ..formats.columns import Core
from ..formats.delay_level import parse_delay_levels
from ..log.segment_queue import SegmentDirectories
from ..world import Files
from .geometry import Geometry, config_of_directory, geometry_fields
from .verify_files import RowReader
from .verify_index import IndexVerifier
from .verify_log import LogFacts, LogVerifier
from .verify_queues import QueueVerifier
from .violation import DirectoryPromise, Findings

FORMAT = "tornlog-verify/1"
_PROMISES = list(DirectoryPromise)
_COUNTS = (
    *("segments", "logBytes", "records", "recordBytes", "blanks"),
    *("queues", "entries", "expiredEntries", "blankEntries", "extFiles", "extUnits"),
    *("indexFiles", "indexEntries"),
)


@dataclass(slots=True)
class Verification:
    """What was checked, and what was found."""

    findings: Findings
    config: StoreConfig | None = None
    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(_COUNTS, 0))

    def fields(self) -> dict[str, Any]:
        """Return everything as plain values: see the contract."""
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
    files: Files, root: str, geometry: Geometry, advance: Callable[[int], None], core: Core | None = None
) -> Verification:
    """Check the store at root, an absolute path; advance is called with log bytes as they are read.

    files only has to list, map and read: `OverlayFiles` cannot change anything by mistake. A core makes it faster.
    """
    unclean_exit = files.status(f"{root}/abort") is not None
    findings = Findings(root, unclean_exit)
    found = Verification(findings)
    try:
        found.config = config_of_directory(files, root, geometry)
    except CorruptFileError as error:
        findings.corrupt(DirectoryPromise.LOG, error)
        return found
    except OSError as error:
        findings.unreadable(DirectoryPromise.LOG, root, error)
        return found
    _verify(files, found, found.config, advance, core)
    return found


def _verify(
    files: Files, found: Verification, config: StoreConfig, advance: Callable[[int], None], core: Core | None
) -> None:
    findings, log_bytes = found.findings, config.mapped_file_size_commit_log
    log_directories = SegmentDirectories.of_commit_log(files, config)
    reader = RowReader(files, log_bytes, DirectoryPromise.LOG, findings)
    segments = reader.read(log_directories.present())
    delays_ms, topics = parse_delay_levels(config.message_delay_level), _topics(files, config)
    facts = LogVerifier(log_bytes, delays_ms, findings, topics, core).verify(segments, advance)
    checkpoint = _read_checkpoint(files, config.checkpoint_path, facts, findings)
    durable_ms = min(checkpoint[:2]) - SAFETY_MARGIN_MS
    queues = QueueVerifier(files, config, log_directories, facts, durable_ms, findings)
    queues.verify()
    index = IndexVerifier(files, config, facts, checkpoint.index_msg_timestamp_ms, findings, core)
    index.verify(segments)
    is_unclean, path = findings.unclean_exit, config.checkpoint_path
    for error in claims_beyond(checkpoint, facts.last_store_timestamp_ms, unclean_exit=is_unclean, file=path):
        findings.corrupt(DirectoryPromise.CKPT, error)
    findings.violations.sort(key=lambda violation: _PROMISES.index(violation.promise))
    found.counts |= {
        "segments": len(segments),
        "logBytes": sum(len(segment.view) for segment in segments),
        "records": facts.records,
        "recordBytes": facts.record_bytes,
        "blanks": facts.blanks,
        "queues": queues.queues,
        "entries": queues.entries,
        "expiredEntries": queues.expired,
        "blankEntries": queues.blanks,
        "extFiles": queues.ext.file_count,
        "extUnits": queues.ext.unit_count,
        "indexFiles": index.file_count,
        "indexEntries": index.entry_count,
    }


def _topics(files: Files, config: StoreConfig) -> frozenset[str]:
    """Return the names that queues have a directory for: light queues are distinguished from what merely names them."""
    try:
        return frozenset(files.list_directory(config.consume_queue_directory))
    except OSError:
        return frozenset()  # the queues' own verification says so


def _read_checkpoint(files: Files, path: str, facts: LogFacts, findings: Findings) -> CheckpointValues:
    """Return the checkpoint's times, 0 where there are none. It is there before the first record is."""
    promise = DirectoryPromise.CKPT
    try:
        status = files.status(path)
        if status is None:
            if facts.records:
                violation = findings.violation(promise, path, 0, "file", "a file", "nothing")
                findings.explained(violation, "trust no queue entry and make the checkpoint anew")
            return CheckpointValues(0, 0, 0)
        file = files.map(path, status.size_bytes)  # which refuses what is no file
        raw = bytes(file.view(0, status.size_bytes)[:CHECKPOINT_BYTES])
        if is_unborn(raw):
            expected, found = f"at least {CHECKPOINT_BYTES} bytes", f"{len(raw)}, all zero"
            violation = findings.violation(promise, path, len(raw), "size", expected, found)
            findings.explained(violation, "make the checkpoint whole")
            return CheckpointValues(0, 0, 0)
        return decode_checkpoint(raw, file=path)
    except CorruptFileError as error:
        findings.corrupt(promise, error)
    except OSError as error:
        findings.unreadable(promise, path, error)
    return CheckpointValues(0, 0, 0)
