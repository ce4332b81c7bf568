"""Where the queues differ that the two stores see, and why. What is here has been compared with the log before."""

from collections.abc import Iterator
from struct import Struct

from ...store.formats.delay_level import SCHEDULE_TOPIC
from .deviations import (
    DANGLING_ENTRY,
    DELAY_LEVELS,
    QUEUE_HEAD_LOST,
    QUEUE_SHIFTED,
    QUEUE_TAIL_LOST,
    TORN_ENTRY,
    ZERO_ENTRY,
    Deviation,
)
from .log_differences import why_longer
from .observed import Entry, QueueKey, SeenQueue
from .opened import OpenedDirectory, StoreDifference
from .truth import BLANK

_ENTRY = Struct(">qiq")


def differences_of_queue(opened: OpenedDirectory, key: QueueKey) -> Iterator[StoreDifference]:
    """Yield each entry of a queue that is not the same; without any, what else consumers are given."""
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
            if is_behind and here == BLANK:  # a blank goes with what it is in front of
                kept = next((one for one in _behind(ours, queue_offset, end) if one != BLANK), here)
            why = _why_entry(opened, key, kept, there, is_behind=is_behind)
            yield StoreDifference(f"{name} {queue_offset}", str(here), str(there), why)
    if not differ and ours.pulled != real.pulled:
        yield StoreDifference(f"{name} pulled", str(ours.pulled), str(real.pulled), None)


def _behind(queue: SeenQueue, queue_offset: int, end: int) -> Iterator[Entry | None]:
    """Yield the entries of a queue behind an index."""
    return (queue.entry(number) for number in range(queue_offset + 1, end))


def _why_entry(
    opened: OpenedDirectory, key: QueueKey, here: Entry | None, there: Entry | None, *, is_behind: bool
) -> Deviation | None:
    """Return why an entry differs. What is here has been compared with the log: it is right, or a blank."""
    ours = opened.ours
    if there is None:
        if here is None or here == BLANK or here[0] not in ours.records:
            return None  # nothing is lost with it
        if is_behind:
            return QUEUE_TAIL_LOST if here[0] < _real_queues_end(opened) else None
        return QUEUE_HEAD_LOST
    offset, size, code = there
    if size <= 0:
        return ZERO_ENTRY
    if there == BLANK:
        return QUEUE_HEAD_LOST
    if offset >= ours.max_offset and offset < opened.real.max_offset:
        return why_longer(opened)
    record = ours.records.get(offset)
    if record is None:
        return DANGLING_ENTRY
    if here is not None and here[:2] == (offset, size):
        is_hash = key[0] == SCHEDULE_TOPIC and code != here[2] and -(1 << 31) <= code < 1 << 31
        return DELAY_LEVELS if is_hash else _torn(opened, key, there)
    is_own = (record.topic, record.queue_id) == key or "INNER_MULTI_DISPATCH" in record.properties
    return QUEUE_SHIFTED if is_own else DANGLING_ENTRY


def _real_queues_end(opened: OpenedDirectory) -> int:
    """Return the log offset up to which the real store has entries of any queue: it dispatches nothing before that."""
    entries = (entry for queue in opened.real.queues.values() for entry in queue.entries)
    return max((offset + size for offset, size, _ in entries if size > 0), default=0)


def _torn(opened: OpenedDirectory, key: QueueKey, there: Entry) -> Deviation | None:
    """Return that an entry was torn by the crash, if it was there before anybody opened the directory."""
    raw = _ENTRY.pack(*there)
    directory = f"consumequeue/{key[0]}/{key[1]}/"
    found = any(path.startswith(directory) and raw in content for path, content in opened.files.items())
    return TORN_ENTRY if found else None


def differences_of_progress(opened: OpenedDirectory) -> Iterator[StoreDifference]:
    """Progress of delayed delivery is brought into its queue at load, so where queues differ it may differ, too."""
    ours, real = opened.ours, opened.real
    if ours.progress is None or real.progress is None:
        return
    for level in sorted(ours.progress.keys() | real.progress.keys()):
        here, there = ours.progress.get(level, 0), real.progress.get(level, 0)
        key = (SCHEDULE_TOPIC, level - 1)
        queues = [store.queues.get(key) for store in (ours, real)]
        ends = [(0, 0) if queue is None else (queue.min_offset, queue.max_offset) for queue in queues]
        if here != there:
            why = QUEUE_TAIL_LOST if ends[0] != ends[1] else None
            yield StoreDifference(f"progress of level {level}", str(here), str(there), why)
