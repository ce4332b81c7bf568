"""Where look-ups by key differ, and why. What is here has been compared with the log before."""

from collections import Counter
from collections.abc import Iterator
from struct import Struct

from ..oracle.index_model import ENTRY_BYTES as INDEX_ENTRY_BYTES
from ..oracle.index_model import HEADER_BYTES as INDEX_HEADER_BYTES
from ..oracle.index_model import entries_at
from ..oracle.reader import ENTRY_BYTES as QUEUE_ENTRY_BYTES
from ..oracle.reader import key_hash
from .deviations import (
    FILE_TIMES,
    INDEX_HASH_ONLY,
    INDEX_LOST,
    INDEX_NAME_TAKEN,
    INDEX_SECONDS,
    INDEX_STALE,
    INDEX_TWICE,
    TIME_OF_NOTHING,
    Deviation,
)
from .log_differences import why_longer
from .observed import QueueKey, times_of, window_of
from .opened import OpenedDirectory, StoreDifference
from .truth import BLANK, keys_of

_ENTRY = Struct(">qiq")
_CHECKPOINT = Struct(">qq")
_MARGIN_MS = 3_000


def differences_of_lookup(opened: OpenedDirectory, topic: str, key: str) -> Iterator[StoreDifference]:
    """Yield each message that a look-up finds more or less often."""
    here, there = Counter(opened.ours.lookups[topic, key]), Counter(opened.real.lookups[topic, key])
    for offset in sorted(here.keys() | there.keys()):
        if here[offset] != there[offset]:
            why = _why_found(opened, topic, key, offset, here[offset], there[offset])
            place = f"look-up {topic} {key}: {offset}"
            yield StoreDifference(place, f"{here[offset]} times", f"{there[offset]} times", why)


def _why_found(
    opened: OpenedDirectory, topic: str, key: str, offset: int, here: int, there: int
) -> Deviation | None:
    """Return why a look-up finds a message more or less often. What is here has been compared with the log."""
    if there < here:
        return _why_not_found(opened, offset)
    record = opened.ours.records.get(offset)
    if record is None:
        return why_longer(opened) if offset >= opened.ours.max_offset else INDEX_STALE
    wanted = key_hash(topic, key.encode())
    equal = sum(key_hash(record.topic, name.encode()) == wanted for name in keys_of(record))
    if equal >= there:
        return INDEX_HASH_ONLY
    if not equal:
        return INDEX_STALE
    was_twice = _indexed(opened)[offset] > len(keys_of(record))  # by an earlier start of the real store
    return INDEX_TWICE if was_twice or "abort" in opened.files or offset >= _dispatched_from(opened) else None


def differences_of_times(opened: OpenedDirectory) -> Iterator[StoreDifference]:
    """Yield look-ups that take times and differ, though entries and look-ups without times are the same."""
    ours, real = opened.ours, opened.real
    for key, time_ms in sorted(ours.nearest.keys() & real.nearest.keys()):
        here, there = ours.nearest[key, time_ms], real.nearest[key, time_ms]
        if here != there and ours.queues[key].entries == real.queues[key].entries:
            place = f"queue {key[0]}/{key[1]} at {time_ms}"
            yield StoreDifference(place, str(here), str(there), _why_nearest(opened, key))
    begin_ms, end_ms = window_of(times_of(ours))
    for topic, key_name in sorted(ours.windowed.keys() & real.windowed.keys()):
        if ours.lookups[topic, key_name] != real.lookups[topic, key_name]:
            continue
        here_found, there_found = ours.windowed[topic, key_name], real.windowed[topic, key_name]
        for offset in sorted(set(here_found) ^ set(there_found)):
            stored_ms = ours.records[offset].store_timestamp if offset in ours.records else -1
            is_edge = offset in here_found and begin_ms <= stored_ms < begin_ms + 1_000
            place = f"look-up {topic} {key_name} from {begin_ms} to {end_ms}: {offset}"
            is_first = offset in here_found and _may_begin_an_index_file(opened, offset)
            why = INDEX_SECONDS if is_edge or is_first else None
            yield StoreDifference(place, str(offset in here_found), str(offset in there_found), why)


def _why_nearest(opened: OpenedDirectory, key: QueueKey) -> Deviation | None:
    """Return why a queue of the same entries leads elsewhere: entries without a time, or several files."""
    entries = opened.ours.queues[key].entries
    if any(entry[:2] == BLANK[:2] or entry[0] not in opened.ours.records for entry in entries):
        return TIME_OF_NOTHING
    per_file = opened.config.mapped_file_size_consume_queue // QUEUE_ENTRY_BYTES
    queue = opened.ours.queues[key]
    has_several = queue.min_offset // per_file != (queue.max_offset - 1) // per_file
    return FILE_TIMES if has_several else None


def _dispatched_from(opened: OpenedDirectory) -> int:
    """Return the log offset from which the real store dispatches after a clean exit: to where any queue has come."""
    ends = [0]
    for path, content in opened.files.items():
        if path.startswith("consumequeue/"):
            whole = len(content) // _ENTRY.size * _ENTRY.size
            ends += (
                offset + size
                for offset, size, _ in _ENTRY.iter_unpack(content[:whole])
                if size > 0 and offset + size <= opened.ours.max_offset
            )
    return max(ends)


def _why_not_found(opened: OpenedDirectory, offset: int) -> Deviation | None:
    """Return why a look-up misses a message: recovery has not come by it, or two index files had one name."""
    is_scanned = "abort" in opened.files and offset >= recovery_start(opened)
    if not is_scanned and ("abort" in opened.files or offset not in _indexed(opened)):
        return INDEX_LOST
    entries = sum(len(keys_of(record)) for record in opened.ours.records.values())
    return INDEX_NAME_TAKEN if entries >= opened.config.max_index_num else None


def _indexed(opened: OpenedDirectory) -> Counter[int]:
    """Return how many entries index files had for each log offset before anybody opened the directory."""
    first = entries_at(opened.config.max_hash_slot_num) + INDEX_ENTRY_BYTES  # entry 0 is never used
    found: Counter[int] = Counter()
    for path, content in opened.files.items():
        if path.startswith("index/"):
            whole = content[first:]
            found.update(
                int.from_bytes(whole[at + 4 : at + 12]) for at in range(0, len(whole), INDEX_ENTRY_BYTES)
            )
    return found


def _may_begin_an_index_file(opened: OpenedDirectory, offset: int) -> bool:
    """Return whether a record is the first of an index file: such an entry's seconds count from the file before.

    It is by a header's word, or may be where the real store's recovery has made files of its own.
    """
    headers = [
        content[:INDEX_HEADER_BYTES] for path, content in opened.files.items() if path.startswith("index/")
    ]
    is_first = offset in {int.from_bytes(header[16:24]) for header in headers}
    return is_first or ("abort" in opened.files and offset >= recovery_start(opened))


def recovery_start(opened: OpenedDirectory) -> int:
    """Return the log offset from which the real store recovers after an unclean exit.

    That is the last file whose first record is not younger than the checkpoint, less three seconds, or else the first.
    Source: RocketMQ CommitLog.recoverAbnormally, StoreCheckpoint.getMinTimestamp.
    """
    checkpoint = opened.files.get("checkpoint", b"").ljust(16, b"\0")
    until_ms = min(_CHECKPOINT.unpack_from(checkpoint)) - _MARGIN_MS
    size, ours = opened.config.mapped_file_size_commit_log, opened.ours
    bases = [base for base in range(ours.min_offset, ours.max_offset, size) if base in ours.records]
    return max(
        (base for base in bases if 0 < ours.records[base].store_timestamp <= until_ms),
        default=ours.min_offset,
    )
