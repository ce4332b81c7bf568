"""Retries: the delay level and the time of each record of a message that a consumer sent back (SCHED).

A request names a level, or 0 for level 3 plus reconsumeTimes. A message is dead after RETRIES_MAX retries, and is not
given again. Source: RocketMQ SendMessageProcessor.asyncConsumerSendMsgBack.
"""

from collections.abc import Iterator

from ....store.formats.delay_level import SCHEDULE_TOPIC
from ...claims.machine import DELAYS_MS
from ..evidence import Violation, record_tried
from ..ledger import Ledger
from ..recovered import FoundRecord
from ..returned import RETURNED

RETRIES_MAX = 16
_FIRST_LEVEL = 3
_RETRY, _DEAD = RETURNED


class ReturnedTimes:
    """Checks the delay level and the time of each record of a returned message (SCHED), in log order."""

    def __init__(self, ledger: Ledger, *, is_whole: bool) -> None:
        """is_whole: whether the log still has its first segment."""
        self._ledger = ledger
        self._levels = ledger.returned.levels
        self._is_whole = is_whole
        self._due_ms: dict[str, list[int]] = {}

    def check_record(self, name: str, found: FoundRecord) -> Iterator[Violation]:
        """Yield a record with another level than requested, or one that is given again before its time."""
        record_tried("SCHED")
        record, times = found.record, found.record.head.reconsume_times - 1
        stored_ms, is_dead = record.store_timestamp_ms, times >= RETRIES_MAX
        if record.topic.startswith(_DEAD):
            if not is_dead:
                yield _violation(found, f"{name} is dead after {times} retries", "topic", _RETRY, record.topic)
        elif record.topic == SCHEDULE_TOPIC:
            levels = {min(level or _FIRST_LEVEL + times, len(DELAYS_MS)) for level in self._levels.get(name, ())}
            level = record.queue_id + 1
            if is_dead or level not in levels:
                wanted = _DEAD if is_dead else f"one of {sorted(levels)}"
                yield _violation(found, f"{name} was sent back with another level", "level", wanted, str(level))
            self._due_ms.setdefault(name, []).append(stored_ms + DELAYS_MS.get(level, 0))
        elif name in self._due_ms or self._is_whole:
            due_ms = min(self._due_ms.get(name, ()), default=None)
            if due_ms is None or (stored_ms < due_ms and not self._ledger.has_clock_read(due_ms)):
                expected = "after its delay" if due_ms is None else f">= {due_ms} ms"
                yield _violation(found, f"{name} is given again early", "storeTimestamp", expected, f"{stored_ms} ms")


def _violation(found: FoundRecord, summary: str, field_name: str, expected: str, seen: str) -> Violation:
    return Violation("SCHED", summary, found.file, found.position, field_name, expected, seen)
