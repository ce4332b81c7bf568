"""Differences of both stores' views of a directory, explained or not."""

from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from struct import Struct

from tornlog.scenarios.oracle.index_model import ENTRY_BYTES as INDEX_ENTRY_BYTES
from tornlog.scenarios.oracle.index_model import entries_at
from tornlog.scenarios.oracle.reader import ENTRY_BYTES as QUEUE_ENTRY_BYTES
from tornlog.scenarios.oracle.reader import UnreadableError, key_hash, read
from tornlog.store.formats.delay_level import SCHEDULE_TOPIC

from . import deviations
from .deviations import Deviation
from .observed import Entry, OpenedDirectory, QueueKey, SeenQueue, StoreDifference, times_of, window_of
from .truth import BLANK, contradictions_of, keys_of


def differences(opened: OpenedDirectory) -> list[StoreDifference]:
    """Return all differences. Contradictions between our store and its own log come first and have no explanation."""
    ours, real = opened.ours, opened.real
    if ours.refusal or real.refusal:
        return list(_refusal_differences(opened))
    found = [
        StoreDifference(f"{place}, by the log", str(got), str(expected), None)
        for place, expected, got in contradictions_of(ours, opened.config)
    ]
    found += differences_of_log(opened)
    for key in sorted(ours.queues.keys() | real.queues.keys()):
        found += differences_of_queue(opened, key)
    for topic, name in sorted(ours.lookups.keys() & real.lookups.keys()):
        found += differences_of_lookup(opened, topic, name)
    found += differences_of_times(opened)
    found += differences_of_progress(opened)
    return found


def _refusal_differences(opened: OpenedDirectory) -> Iterator[StoreDifference]:
    ours, real = opened.ours, opened.real
    why = None
    if ours.refusal:  # a refusal by the real store does not make ours right
        pass
    elif real.refusal == "load() returned false" and any(_odd_files(opened)):
        why = deviations.ODD_FILE
    elif real.refusal.startswith("start() does not end: dispatch") and has_gap(opened):
        why = deviations.GAP  # its dispatch waits for the missing bytes for ever
    elif real.refusal == "load() returned false" and opened.version == "rocketmq-5.3.3":
        why = deviations.EMPTY_QUEUE_FILE if any(_queues_without_a_last_entry(opened)) else None
    yield StoreDifference("opening", ours.refusal or "opens", real.refusal or "opens", why)


def _queues_without_a_last_entry(opened: OpenedDirectory) -> Iterator[str]:
    """Yield directories of queues with several files and a last file of zeros, also after a truncation."""
    last: dict[str, list[bytes]] = {}
    for path, content in sorted(opened.files.items()):
        if path.startswith("consumequeue/"):
            last.setdefault(path.rpartition("/")[0], []).append(content)
    for directory, contents in last.items():
        if len(contents) > 1 and not any(contents[-1]):
            yield directory


def _odd_files(opened: OpenedDirectory) -> Iterator[str]:
    """Yield files of log and queues with a wrong length."""
    for base, content in opened.log_files.items():
        if len(content) != opened.config.mapped_file_size_commit_log:
            yield f"commitlog/{base:020}"
    for path, content in opened.files.items():
        is_queue = path.startswith("consumequeue/")
        if is_queue and len(content) != opened.config.mapped_file_size_consume_queue:
            yield path


def differences_of_log(opened: OpenedDirectory) -> Iterator[StoreDifference]:
    """Yield differences of the logs' bounds and of records."""
    ours, real = opened.ours, opened.real
    beyond = why_longer(opened)
    if ours.min_offset != real.min_offset:
        yield StoreDifference("log, begin", str(ours.min_offset), str(real.min_offset), None)
    if ours.max_offset != real.max_offset:
        yield StoreDifference("log, end", str(ours.max_offset), str(real.max_offset), beyond)
    for offset in sorted(ours.records.keys() | real.records.keys()):
        here, there = ours.records.get(offset), real.records.get(offset)
        if here != there:
            why = None
            if here is None and offset >= ours.max_offset:
                why = beyond
            elif there is None and has_gap(opened):
                why = deviations.GAP  # the real store's scan has reached the gap
            yield StoreDifference(f"record {offset}", str(here), str(there), why)
    for offset in sorted(set(ours.unreadable) ^ set(real.unreadable)):
        here_too, there_too = str(offset in ours.unreadable), str(offset in real.unreadable)
        why = beyond if offset >= ours.max_offset else None
        yield StoreDifference(f"damage {offset}", here_too, there_too, why)


def why_longer(opened: OpenedDirectory) -> Deviation | None:
    """Return why the real log continues after the end of ours; None if it does not or without a reason.

    The reason must follow from the bytes, not from our scanner, which is under test.
    """
    ours, real, size = opened.ours, opened.real, opened.config.mapped_file_size_commit_log
    if real.max_offset <= ours.max_offset:
        return None
    at = ours.max_offset % size
    base = ours.max_offset - at
    content, file = opened.log_files.get(base, b""), f"commitlog/{base:020}"
    try:
        read(content, at, len(content), file=file, physical_offset=ours.max_offset)
    except UnreadableError as error:
        if error.field == "physicalOffset":
            return deviations.FOREIGN_RECORD
        return deviations.TORN_RECORD if error.is_torn else None
    return None


def has_gap(opened: OpenedDirectory) -> bool:
    """Return whether a file is missing between two files of the log."""
    bases = sorted(opened.log_files)
    size = opened.config.mapped_file_size_commit_log
    return any(after - before != size for before, after in pairwise(bases))


_ENTRY = Struct(">qiq")


def differences_of_queue(opened: OpenedDirectory, key: QueueKey) -> Iterator[StoreDifference]:
    """Yield differences of a queue's entries; without any, other differences that consumers see."""
    ours, real = opened.ours.queues.get(key), opened.real.queues.get(key)
    name, nothing = f"queue {key[0]}/{key[1]}", SeenQueue(0, 0, [], [])
    begin = min(queue.min_offset for queue in (ours, real) if queue is not None)
    end = max(queue.max_offset for queue in (ours, real) if queue is not None)
    ours, real = ours or nothing, real or nothing
    differ = False
    for queue_offset in range(begin, end):
        here, there = ours.entry(queue_offset), real.entry(queue_offset)
        if here != there:
            differ = True
            is_behind = queue_offset >= real.max_offset
            kept = here
            if is_behind and here == BLANK:  # a blank entry is explained by the entries after it
                behind = (ours.entry(number) for number in range(queue_offset + 1, end))
                kept = next((one for one in behind if one != BLANK), here)
            why = _why_entry_differs(opened, key, kept, there, is_behind=is_behind)
            yield StoreDifference(f"{name} {queue_offset}", str(here), str(there), why)
    if not differ and ours.pulled != real.pulled:
        yield StoreDifference(f"{name} pulled", str(ours.pulled), str(real.pulled), None)


def _why_entry_differs(
    opened: OpenedDirectory, key: QueueKey, here: Entry | None, there: Entry | None, *, is_behind: bool
) -> Deviation | None:
    """Return why an entry differs. Our entry was compared with the log before: it is right, or a blank."""
    ours = opened.ours
    if there is None:
        if here is None or here == BLANK or here[0] not in ours.records:
            return None  # no message is lost with it
        if is_behind:
            return deviations.QUEUE_TAIL_LOST if here[0] < _real_queues_end(opened) else None
        return deviations.QUEUE_HEAD_LOST
    offset, size, code = there
    if size <= 0:
        return deviations.ZERO_ENTRY
    if there == BLANK:
        return deviations.QUEUE_HEAD_LOST
    if offset >= ours.max_offset and offset < opened.real.max_offset:
        return why_longer(opened)
    if here is None and offset < ours.min_offset:
        return deviations.EXPIRED_ENTRY
    record = ours.records.get(offset)
    if record is None:
        return deviations.DANGLING_ENTRY
    if here is not None and here[:2] == (offset, size):
        is_hash = key[0] == SCHEDULE_TOPIC and code != here[2] and -(1 << 31) <= code < 1 << 31
        return deviations.DELAY_LEVELS if is_hash else _torn(opened, key, there)
    is_own = (record.topic, record.queue_id) == key or "INNER_MULTI_DISPATCH" in record.properties
    return deviations.QUEUE_SHIFTED if is_own else deviations.DANGLING_ENTRY


def _real_queues_end(opened: OpenedDirectory) -> int:
    """Return the end of the real store's dispatch: the highest log offset of an entry in any of its queues."""
    entries = (entry for queue in opened.real.queues.values() for entry in queue.entries)
    return max((offset + size for offset, size, _ in entries if size > 0), default=0)


def _torn(opened: OpenedDirectory, key: QueueKey, there: Entry) -> Deviation | None:
    """Return the deviation for a torn entry, if the directory had the entry before it was opened."""
    raw = _ENTRY.pack(*there)
    directory = f"consumequeue/{key[0]}/{key[1]}/"
    found = any(path.startswith(directory) and raw in content for path, content in opened.files.items())
    return deviations.TORN_ENTRY if found else None


def differences_of_progress(opened: OpenedDirectory) -> Iterator[StoreDifference]:
    """Yield differences in delivery progress.

    A load limits progress to the queue, so it may differ if queues differ.
    """
    ours, real = opened.ours, opened.real
    if ours.progress is None or real.progress is None:
        return
    for level in sorted(ours.progress.keys() | real.progress.keys()):
        here, there = ours.progress.get(level, 0), real.progress.get(level, 0)
        key = (SCHEDULE_TOPIC, level - 1)
        queues = [store.queues.get(key) for store in (ours, real)]
        ends = [(0, 0) if queue is None else (queue.min_offset, queue.max_offset) for queue in queues]
        if here != there:
            why = deviations.QUEUE_TAIL_LOST if ends[0] != ends[1] else None
            yield StoreDifference(f"progress of level {level}", str(here), str(there), why)


_CHECKPOINT = Struct(">qq")
_MARGIN_MS = 3_000
_ENTRY_NUMBER = slice(36, 40)
"""Position of the next entry's number in the header of an index file."""


def differences_of_lookup(opened: OpenedDirectory, topic: str, key: str) -> Iterator[StoreDifference]:
    """Yield each message that the two stores' look-ups do not find equally often."""
    here, there = Counter(opened.ours.lookups[topic, key]), Counter(opened.real.lookups[topic, key])
    for offset in sorted(here.keys() | there.keys()):
        if here[offset] != there[offset]:
            why = _why_found_differently(opened, topic, key, offset, here[offset], there[offset])
            place = f"look-up {topic} {key}: {offset}"
            yield StoreDifference(place, f"{here[offset]} times", f"{there[offset]} times", why)


def _why_found_differently(
    opened: OpenedDirectory, topic: str, key: str, offset: int, here: int, there: int
) -> Deviation | None:
    """Return why a look-up finds a message more or less often. Ours was compared with the log."""
    if there < here:
        return _why_not_found(opened, offset)
    record = opened.ours.records.get(offset)
    if record is None:
        return why_longer(opened) if offset >= opened.ours.max_offset else deviations.INDEX_STALE
    wanted = key_hash(topic, key.encode())
    equal = sum(key_hash(record.topic, name.encode()) == wanted for name in keys_of(record))
    if equal >= there:
        return deviations.INDEX_HASH_ONLY
    if not equal:
        return deviations.INDEX_STALE
    was_twice = _index_entry_counts(opened)[offset] > len(keys_of(record))  # by an earlier start of the real store
    return (
        deviations.INDEX_TWICE if was_twice or "abort" in opened.files or offset >= _dispatched_from(opened) else None
    )


def differences_of_times(opened: OpenedDirectory) -> Iterator[StoreDifference]:
    """Yield differences of look-ups by time, if entries and look-ups without times are equal."""
    ours, real = opened.ours, opened.real
    for key, time_ms in sorted(ours.nearest.keys() & real.nearest.keys()):
        here, there = ours.nearest[key, time_ms], real.nearest[key, time_ms]
        queues = [(store.queues[key].min_offset, store.queues[key].entries) for store in (ours, real)]
        if here != there and queues[0] == queues[1]:
            place = f"queue {key[0]}/{key[1]} at {time_ms}"
            yield StoreDifference(place, str(here), str(there), _why_nearest_differs(opened, key, there))
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
            why = deviations.INDEX_SECONDS if is_edge or is_first else None
            yield StoreDifference(place, str(offset in here_found), str(offset in there_found), why)


def _why_nearest_differs(opened: OpenedDirectory, key: QueueKey, there: int) -> Deviation | None:
    """Return why equal queues give different results: entries without a time, or several files.

    The real store picks a file by its mtime, also one without a valid entry. An empty file ends the search at 0. In a
    file of only expired entries the search finds no position, -1, which is the number before the file's first. Source:
    RocketMQ ConsumeQueue.getOffsetInQueueByTime.
    """
    entries = opened.ours.queues[key].entries
    if any(entry[:2] == BLANK[:2] or entry[0] not in opened.ours.records for entry in entries):
        return deviations.TIME_OF_NOTHING
    per_file = opened.config.mapped_file_size_consume_queue // QUEUE_ENTRY_BYTES
    queue = opened.ours.queues[key]
    directory = f"consumequeue/{key[0]}/{key[1]}/"
    paths = [path for path in opened.files if path.startswith(directory)]
    firsts = [int(path.removeprefix(directory)) // QUEUE_ENTRY_BYTES for path in paths]
    if there == 0 and any(first >= queue.max_offset for first in firsts):
        return deviations.TIME_OF_NOTHING
    if there in [max(0, first - 1) for first in firsts if first + per_file <= queue.min_offset]:
        return deviations.FILE_TIMES
    has_several = queue.min_offset // per_file != (queue.max_offset - 1) // per_file
    return deviations.FILE_TIMES if has_several else None


def _dispatched_from(opened: OpenedDirectory) -> int:
    """Return where the real store's dispatch begins after a clean exit: the end of the furthest queue."""
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
    """Return why a look-up misses a message: recovery did not reach it, or two index files had one name."""
    is_scanned = "abort" in opened.files and offset >= recovery_start(opened)
    if not is_scanned and ("abort" in opened.files or offset not in _index_entry_counts(opened)):
        return deviations.INDEX_LOST
    entries = sum(len(keys_of(record)) for record in opened.ours.records.values())
    return deviations.INDEX_NAME_TAKEN if entries >= opened.config.max_index_num else None


def _index_entry_counts(opened: OpenedDirectory) -> Counter[int]:
    """Return the number of index entries per log offset in the directory as written.

    Entries from the header's number on do not count: the real store overwrites them.
    """
    first = entries_at(opened.config.max_hash_slot_num)
    found: Counter[int] = Counter()
    for path, content in opened.files.items():
        if path.startswith("index/"):
            end = min(len(content), first + int.from_bytes(content[_ENTRY_NUMBER]) * INDEX_ENTRY_BYTES)
            starts = range(first + INDEX_ENTRY_BYTES, end, INDEX_ENTRY_BYTES)  # entry 0 is never used
            found.update(int.from_bytes(content[at + 4 : at + 12]) for at in starts)
    return found


def _may_begin_an_index_file(opened: OpenedDirectory, offset: int) -> bool:
    """Return whether a record may be the first of an index file, whose time counts from the previous file.

    Either a header says so, or the real store's recovery may have made new files.
    """
    files = [content for path, content in opened.files.items() if path.startswith("index/")]
    is_first = offset in {int.from_bytes(content[16:24]) for content in files}
    return is_first or ("abort" in opened.files and offset >= recovery_start(opened))


def recovery_start(opened: OpenedDirectory) -> int:
    """Return the log offset where the real store's recovery begins after an unclean exit.

    It is the last file whose first record is not newer than the checkpoint less three seconds, else the first file.
    Source: RocketMQ CommitLog.recoverAbnormally, StoreCheckpoint.getMinTimestamp.
    """
    checkpoint = opened.files.get("checkpoint", b"").ljust(16, b"\0")
    until_ms = min(_CHECKPOINT.unpack_from(checkpoint)) - _MARGIN_MS
    size, ours = opened.config.mapped_file_size_commit_log, opened.ours
    bases = [base for base in range(ours.min_offset, ours.max_offset, size) if base in ours.records]
    old = [base for base in bases if 0 < ours.records[base].store_timestamp <= until_ms]
    return max(old, default=ours.min_offset)
