"""#24 lmq-offset-lock-split: places in light queues are taken under a lock of the message's own queue.

Two producers with different queues of their own and one light queue in common both take the place they find there.
"""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import replace

from ...store.log.commit_log import CommitLog, EncodedPut
from ...store.put_result import AppendMessageResult, PutMessageStatus
from ...store.queues.light_queues import LightPut
from ..claims.plan import Ranges
from .mutant import Mutant, Patch

append = CommitLog.append


def _append(self: CommitLog, encoded: EncodedPut) -> AppendMessageResult | PutMessageStatus:
    light = encoded.light
    if light is None:
        return append(self, encoded)
    with _lock_of(self, (encoded.topic, encoded.queue_id)):
        light.offsets = tuple(self.topic_queue_table.get(key, 0) for key in light.keys)
        return append(self, encoded)


def _lock_of(log: CommitLog, queue: tuple[str, int]) -> AbstractContextManager[None]:
    locks: dict[tuple[str, int], AbstractContextManager[None]] = vars(log).setdefault("_locks_of_queues", {})
    return locks.setdefault(queue, log._world.tasks.lock("queue"))


def _take_places(self: LightPut, table: Mapping[tuple[str, int], int]) -> bytearray:
    return self.encode(self._properties_with(self.offsets))


def _narrow(ranges: Ranges) -> Ranges:
    return replace(
        ranges, light_chance=(0.9,), producers=(3,), topics=(2,), queues_per_topic=(2,), batch_chance=(0.0,)
    )


MUTANT = Mutant(
    "lmq-offset-lock-split",
    "append path / multi-dispatch",
    "two messages take the same place in a light queue",
    (Patch(CommitLog, "append", _append), Patch(LightPut, "take_places", _take_places)),
    _narrow,
    ("QOFF", "CQ-COMPLETE", "READ", "VIS"),
)
