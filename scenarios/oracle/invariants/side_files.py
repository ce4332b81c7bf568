"""Side files: checks progress files (META) and the checkpoint (CKPT).

A side file is always replaced as a whole. Before their first use, loaded offsets must be limited to the range of their
queues. A load must fail if no complete version is readable. The other content of side files is not checked.
"""

import re
from collections.abc import Callable, Container, Iterator, Mapping
from struct import Struct
from typing import NamedTuple, TypeVar

from ....faults.disk.disk import Disk
from ....store.config import BrokerRole
from ....store.formats.delay_level import SCHEDULE_TOPIC
from ....store.log.segment import Segment
from ....store.message_store import MessageStore
from ....store.side_file import SideFile
from ....store.world import Files
from ..evidence import Violation, record_tried
from ..group_commits import Group
from ..ledger import Ledger, Versions
from ..reader import ENTRY, UnreadableError, points_at_record, read_records
from .units import find_undurable_units

Value = TypeVar("Value")

_LEVEL_PROGRESS = re.compile(rb"\b(\d+)\"?:(\d+)")
_SHOWN_BYTES = 120
_TIME_NAMES = ("physicMsgTimestamp", "logicsMsgTimestamp", "indexMsgTimestamp")


class WatchedSideFile(SideFile):
    """A side file that records its versions in the ledger."""

    def __init__(self, files: Files, versions: Versions, on_begin: Callable[[bytes], object]) -> None:
        """on_begin is called with each new version before it is written."""
        super().__init__(files, versions.path)
        self._versions = versions
        self._on_begin = on_begin
        self._is_without_backup = False
        """Whether the next version replaces the current one without a backup."""

    def load(self, parse: Callable[[bytes, str], Value]) -> Value | None:
        parsed: list[bytes] = []

        def note(raw: bytes, file: str) -> Value:
            value = parse(raw, file)
            parsed.append(raw)
            return value

        loaded = super().load(note)
        self._versions.note_load(parsed[-1] if parsed else None)
        return loaded

    def store(self, content: bytes) -> bool:
        versions = self._versions
        if content != versions.durable:
            self._on_begin(content)
        before = None if versions.unfinished or self._is_without_backup else versions.durable
        versions.unfinished.append(content)
        written = super().store(content)
        if written:
            versions.backup = before
        versions.durable, self._is_without_backup = content, False
        versions.unfinished.clear()
        return written

    def store_alone(self, content: bytes) -> bool:
        self._versions.backup, self._is_without_backup = None, True
        return super().store_alone(content)


# -- versions at a start ---------------------------------------------------------------------------


def check_version(versions: Versions) -> Iterator[Violation]:
    """META: yield a violation if a start read neither the durable version nor a later one."""
    durable, *begun = versions.allowed
    if durable is not None:
        record_tried("META")
    if versions.loaded not in versions.allowed:
        later, shown = len(begun), (_shown_text(durable), _shown_text(versions.loaded))
        summary = f"a start found neither the durable version nor one of {later} later ones"
        yield Violation("META", summary, versions.path, 0, "version", *shown)


def _shown_text(content: bytes | None) -> str:
    return "none" if content is None else content[:_SHOWN_BYTES].decode(errors="replace")


def check_backup(versions: Versions, disk: Disk) -> Iterator[Violation]:
    """META: yield a violation if the backup of a side file does not have the version before the durable one."""
    if versions.backup is None or versions.unfinished:
        return
    record_tried("META")
    path = f"{versions.path}.bak"
    found = disk.content(path)
    if found != versions.backup:
        summary = f"{path} does not have the version before the durable one"
        yield Violation("META", summary, path, 0, "version", _shown_text(versions.backup), _shown_text(found))


def check_damage_reported(store: MessageStore, ledger: Ledger) -> Iterator[Violation]:
    """META: yield a damaged progress file that the load did not report."""
    path, ledger.unreported_damage = ledger.unreported_damage, ""
    report = store.last_recovery
    if path and (report is None or all(finding.file != path for finding in report.findings)):
        yield Violation("META", "a load did not report a damaged side file", path, 0, "findings", path, "none")


def check_delay_levels(store: MessageStore) -> Iterator[Violation]:
    """META: after a load, yield each delay level with progress outside of its queue."""
    for level, offset in store.schedule.offsets.items():
        queue = store.queues.find(SCHEDULE_TOPIC, level - 1)
        least, most = (0, 0) if queue is None else (queue.min_offset, queue.max_offset)
        if not least <= offset <= most:
            summary, path = f"progress of delay level {level} is outside of its queue", store.schedule.file.path
            yield Violation("META", summary, path, 0, "level", f"{least} to {most}", str(offset))


def check_started_delivery(store: MessageStore, disk: Disk) -> Iterator[Violation]:
    """META: after a start, yield each delay level with progress in the file or its backup beyond its queue.

    Otherwise the queue may grow past this progress, and the next start would skip the new messages before it. A slave
    has its master's progress, and a damaged file is not checked.
    """
    path = store.schedule.file.path
    if store.config.broker_role is BrokerRole.SLAVE:
        return
    for each in (path, f"{path}.bak"):
        for level, offset in level_progress(disk.content(each)).items():
            record_tried("META")
            end = store.commit_log.topic_queue_table.get((SCHEDULE_TOPIC, level - 1), 0)
            if offset > end:
                summary = f"after a start, the file has progress of delay level {level} beyond its queue"
                yield Violation("META", summary, each, 0, "progress", f"<= {end}", str(offset))


def level_progress(content: bytes) -> dict[int, int]:
    """Return the queue offset of each delay level in the text of delayOffset.json."""
    return {int(level): int(offset) for level, offset in _LEVEL_PROGRESS.findall(content)}


def check_clamped_offsets(
    store: MessageStore, found: Mapping[Group, int], clamped: Mapping[Group, int]
) -> Iterator[Violation]:
    """META: yield each offset that the load did not lower to its queue's end, or changed without need."""
    for group, offset in found.items():
        name, topic, queue_id = group
        wanted = min(offset, store.get_max_offset_in_queue(topic, queue_id))
        if clamped[group] != wanted:
            summary = f"the offset of {name} in {topic}/{queue_id} is not limited to its queue"
            yield Violation("META", summary, field="offset", expected=str(wanted), found=str(clamped[group]))


# -- checkpoint ------------------------------------------------------------------------------------


def check_checkpoint(store: MessageStore, disk: Disk, ledger: Ledger | None = None) -> Iterator[Violation]:
    """CKPT: yield each time in the checkpoint that covers data that is not durable.

    The later of the times in memory and in the file count, because write-back may persist them at any time. Names of
    files and directories must be durable, too. Records of the checkpoint's own millisecond are not checked, as recovery
    has a margin of seconds. With a ledger, segments that retention may have removed from the disk are not checked.
    """
    in_file = read_checkpoint_times(store, disk)
    claimed = CheckpointTimes(*map(max, store.checkpoint.values, in_file))
    if any(claimed):
        record_tried("CKPT")
    for number, path, end in _undurable_claims(store, disk, ledger, claimed):
        summary, texts = "the checkpoint covers bytes that are not durable", _text_of_times(store, in_file)
        facts = _TIME_NAMES[number], "a time before theirs", str(claimed[number]), texts
        yield Violation("CKPT", summary, path, end, *facts)


def _undurable_claims(
    store: MessageStore, disk: Disk, ledger: Ledger | None, claimed: "CheckpointTimes"
) -> Iterator[tuple[int, str, int]]:
    """Yield (number of the time, file, end of covered bytes) for each file with undurable bytes that a time covers."""
    logs = [segment for segment in store.log.segments if not _is_durable(segment, disk)]
    if logs:
        log_end = _end_of_records_before(store, disk, claimed.physic_msg_timestamp_ms)
        for segment in logs:
            end = min(log_end - segment.base_offset, segment.size_bytes)
            if ledger is not None and segment.end_offset <= ledger.expired_to:
                continue
            if end > 0 and not disk.is_durable(segment.file.path, 0, end):
                yield 0, segment.file.path, end
    entries = [
        segment
        for queue in store.queues.all_queues()
        for segment in queue.queue.segments
        if not disk.is_file_durable(segment.file.path, 0, segment.size_bytes)
    ]
    if entries:
        log_end = _end_of_records_before(store, disk, claimed.logics_msg_timestamp_ms)
        for segment in entries:
            path, end = segment.file.path, _end_of_entries_below(segment, disk, log_end)
            if end and not disk.is_file_durable(path, 0, end):
                yield 1, path, end
    yield from ((1, *unit) for unit in find_undurable_units(store, disk, claimed.logics_msg_timestamp_ms))
    for file in () if store.index is None else store.index.table.files:
        path, end = file.file.path, file.file.size_bytes
        may_be_going = ledger is not None and file.end_physical_offset < ledger.expired_to
        is_claimed = file.is_full and file.end_timestamp_ms <= claimed.index_msg_timestamp_ms and not may_be_going
        if is_claimed and not disk.is_file_durable(path, 0, end):
            yield 2, path, end


class CheckpointTimes(NamedTuple):
    """The times of log, queues and full index files in a checkpoint."""

    physic_msg_timestamp_ms: int
    logics_msg_timestamp_ms: int
    index_msg_timestamp_ms: int


_TIMES = Struct(">qqq")


def read_checkpoint_times(store: MessageStore, disk: Disk) -> CheckpointTimes:
    """Read the times in the checkpoint file, zeros if it is too short."""
    raw = disk.content(store.config.checkpoint_path)
    return CheckpointTimes(*(_TIMES.unpack_from(raw) if len(raw) >= _TIMES.size else (0, 0, 0)))


def check_stopped_checkpoint(store: MessageStore, disk: Disk) -> Iterator[Violation]:
    """CKPT: after a clean stop, yield each time in the file that is not the last one in memory, or not durable.

    The times of log and queues must be those of the last record, or later ones of lost records.
    """
    record_tried("CKPT")
    path, kept = store.config.checkpoint_path, CheckpointTimes(*store.checkpoint.values)
    found = read_checkpoint_times(store, disk)
    for number, (name, kept_ms, found_ms) in enumerate(zip(_TIME_NAMES, kept, found, strict=True)):
        if kept_ms != found_ms:
            summary = "a clean stop did not write the last time to the checkpoint"
            times = _text_of_times(store, found)
            yield Violation("CKPT", summary, path, 8 * number, name, str(kept_ms), str(found_ms), times)
    last_ms = _last_stored_ms_of_start(store, disk)
    for number, found_ms in enumerate((found.physic_msg_timestamp_ms, found.logics_msg_timestamp_ms)):
        if found_ms < last_ms:
            summary, times = "a clean stop left a time before that of the last record", _text_of_times(store, found)
            yield Violation("CKPT", summary, path, 8 * number, _TIME_NAMES[number], str(last_ms), str(found_ms), times)
    if not disk.is_file_durable(path, 0, _TIMES.size):
        summary, times = "a clean stop left a checkpoint that is not durable", _text_of_times(store, found)
        yield Violation("CKPT", summary, path, 0, "file", "durable", "not", times)


def _last_stored_ms_of_start(store: MessageStore, disk: Disk) -> int:
    """Return the store time of the last record since the start, 0 without one.

    Also 0 if dispatch gave up a record. As in RocketMQ, a start without puts changes no time of the checkpoint.
    """
    report = store.last_recovery
    assert report is not None, "it has been loaded"
    if store.dispatch.passed_over is not None:
        return 0
    for segment in reversed(store.log.segments):
        if segment.end_offset <= report.end_offset:
            break
        content, path, base = disk.content(segment.file.path), segment.file.path, segment.base_offset
        try:
            readings = list(read_records(content, segment.wrote.get(), file=path, base_offset=base))
        except UnreadableError:
            return 0  # `check_log_prefix` reports the error
        if readings:
            last = readings[-1].record
            return last.store_timestamp_ms if last.physical_offset >= report.end_offset else 0
    return 0


def _is_durable(segment: Segment, disk: Disk) -> bool:
    return disk.is_durable(segment.file.path, 0, segment.size_bytes)


def _end_of_records_before(store: MessageStore, disk: Disk, timestamp_ms: int) -> int:
    """Store times never decrease along the log."""
    end = store.log.min_offset
    if timestamp_ms <= 0:
        return end
    for segment in store.log.segments:
        content = disk.content(segment.file.path)
        if not content:
            end = segment.end_offset  # the segment was just removed, so all entries of its records are durable
            continue
        try:
            end_position, file = segment.wrote.get(), segment.file.path
            for record, _ in read_records(content, end_position, file=file, base_offset=segment.base_offset):
                if record.store_timestamp_ms >= timestamp_ms:
                    return end
                end = record.physical_offset + record.size_bytes
        except UnreadableError:
            return end  # `check_log_prefix` reports the error
    return end


def _end_of_entries_below(segment: Segment, disk: Disk, log_end: int) -> int:
    raw = disk.content(segment.file.path)[: segment.wrote.get()]
    end = 0
    while end < len(raw):
        entry = ENTRY.unpack_from(raw, end)
        if not points_at_record(*entry) or entry[0] >= log_end:
            break  # the write time of a blank entry is unknown; CQ-VALID reports it
        end += ENTRY.size
    return end


def _text_of_times(store: MessageStore, in_file: CheckpointTimes) -> str:
    """Describe the three times in memory and in the file."""
    texts = (
        f"{name} {kept_ms} in memory, {found_ms} in the file"
        for name, kept_ms, found_ms in zip(("log", "queues", "index"), store.checkpoint.values, in_file, strict=True)
    )
    return f"times of the checkpoint: {'; '.join(texts)}"


# -- tables of a broker ----------------------------------------------------------------------------


def check_topic(ledger: Ledger, topic: str) -> Iterator[Violation]:
    """META: yield a topic that a broker does not know although it stored messages in it."""
    record_tried("META")
    if topic in ledger.topics:
        summary = f"{topic} has messages, but the broker does not know it"
        yield Violation("META", summary, field="topic", expected=topic, found="no such topic")


def check_tables(
    ledger: Ledger, topics: Mapping[str, int], groups: Container[str], queues: int | None = None
) -> Iterator[Violation]:
    """META: yield each topic and group that a broker created for a client and that is missing after a load.

    topics: topic -> number of queues. queues: the number for which each producer asks; None if an operator may have
    changed it.
    """
    for topic, queue_id in sorted(ledger.topics.items()):
        record_tried("META")
        if topics.get(topic, 0) <= queue_id:
            summary = f"{topic} was created, but a start does not find it"
            found = f"{topics[topic]} queues" if topic in topics else "no such topic"
            yield Violation("META", summary, field="topic", expected=f"queue {queue_id}", found=found)
        elif queues is not None and topics[topic] != queues:
            summary, found = f"{topic} has another number of queues than its producers asked for", str(topics[topic])
            yield Violation("META", summary, field="queues", expected=str(queues), found=found)
    for group in sorted(ledger.groups):
        record_tried("META")
        if group not in groups:
            summary = f"{group} was created, but a start does not find it"
            yield Violation("META", summary, field="group", expected=group, found="no such group")
