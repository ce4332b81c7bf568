"""Undetected mutants: plausible bugs that no run sees, with the reasons.

Measure them with `tornlog mutants --set tests.undetected`. A mutant that a run finds moves to the catalogue.
"""

from tornlog.scenarios.claims.catalogue import SCENARIOS
from tornlog.scenarios.mutants.mutant import Mutant, bit, bug, needs
from tornlog.store.formats.half_message import OP_TOPIC, QUEUE_ID, HalfMessage
from tornlog.store.log.segment_queue import SegmentQueue
from tornlog.store.replication.ha_client import HAClient
from tornlog.store.services.consumer_offsets import ConsumerOffsetManager, decoded_consumer_offsets
from tornlog.store.services.transaction_check import (
    HalfMessageVerdict,
    TransactionalMessageCheckService,
    verdict_on,
)
from tornlog.store.services.transaction_queues import OpQueue

_HOUR_MS = 3_600_000


# apache/rocketmq issue 8859.
@bug("first-directory-wins-a-name", SegmentQueue, "_keep_file_with_data", found_by=("DUR", "PREFIX", "START"))
@needs(SCENARIOS["log-directory-full"].ranges)
def keep_first_file(self: SegmentQueue, first: str, second: str) -> str:
    """Of two segments with one name, a load keeps the one in the first log directory, even if it is empty."""
    bit(not self._is_file_all_zero(second))
    self._remove(second)
    return first


# apache/rocketmq issue 8311.
@bug("given-up-before-ops-are-read", TransactionalMessageCheckService, "_check_half_message", found_by=("TX",))
@needs(
    transactions={"chance": (1.0,)},
    messages_each=(10,),
    producers=(3,),
    topics=(1,),
    queues_per_topic=(1,),
    pauses={"chance": (0.5,), "ms_max": (300,)},
    endings=("stop",),
    heals=(True,),
    disturbances={"paused_task_chance": (1.0,)},
)
def give_up_first(self: TransactionalMessageCheckService, half: HalfMessage, ops: OpQueue) -> bool:
    """The check gives up a half message although an op that arrived during the pass decides it."""
    with self._decisions.lock:
        is_open = not ops.is_decided(half) and not self._has_expired(half)
        is_open = is_open and not self._decisions.is_hidden(
            half, self._store.get_max_offset_in_queue(OP_TOPIC, QUEUE_ID)
        )
        reserved_ms = self._store.config.file_reserved_time_hours * _HOUR_MS
        judged = verdict_on(half, self.world.clock.now_ms(), self.config, reserved_ms)
        if is_open and judged is HalfMessageVerdict.HOPELESS:
            given_up = self._give_up(half)
            ops.read()
            bit(ops.is_decided(half))
            return given_up
    return give_up_first.original(self, half, ops)


# apache/rocketmq issue 3388.
@bug("divergence-outlives-its-master", HAClient, "update_master_address", found_by=("REP", "QUIET"))
@needs(SCENARIOS["slave-reads"].ranges)
def update_address_only(self: HAClient, address: str) -> None:
    """A slave that stopped because of a different log does not follow the next master either."""
    diverged = self.diverged
    update_address_only.original(self, address)
    if bit(diverged is not None and self.diverged is None):
        self.diverged = diverged


# apache/rocketmq issue 8509.
@bug("slave-copies-no-light-offsets", ConsumerOffsetManager, "replace", found_by=("REP", "REDEL"))
@needs(SCENARIOS["slave-reads"].ranges)
def replace_usual_offsets(self: ConsumerOffsetManager, raw: bytes, sender: str) -> None:
    """A slave does not copy the offsets of light queues from its master."""
    offsets, light_offsets = decoded_consumer_offsets(raw, sender)
    with self._lock:
        bit(light_offsets != self._light_offsets)
        self._offsets = offsets


# RocketMQ's ConsumerOffsetManager.removeOffset tests whether the key contains the name.
@bug("deleted-group-takes-namesakes", ConsumerOffsetManager, "remove_group", found_by=("META", "REDEL", "LIVE"))
@needs(SCENARIOS["operator-changes"].ranges)
def remove_containing(self: ConsumerOffsetManager, group: str) -> None:
    """The removal of a group's offsets also removes those of groups whose names contain its name."""
    with self._lock:
        for table in (self._offsets, self._light_offsets):
            for key in [key for key in table if group in key]:
                bit(not key.endswith(f"@{group}"))
                del table[key]


MUTANTS: dict[str, Mutant] = {each.id: each for each in list(vars().values()) if isinstance(each, Mutant)}

SURVIVORS: dict[str, str] = {
    "deleted-group-takes-namesakes": (
        "never acts: no group that has offsets has a name that contains the name of a deleted group"
    ),
    "divergence-outlives-its-master": (
        "never acts: no run gives another master to a slave that stopped because of a different log"
    ),
    "first-directory-wins-a-name": (
        "never reached: no run repeats an interrupted creation in another log directory, so no name is in two of them"
    ),
    "given-up-before-ops-are-read": (
        "acts unseen: a decision may follow the last question, so TX accepts a transaction that is decided and given up"
    ),
    "slave-copies-no-light-offsets": "never acts: no consumer of a broker reads a light queue or commits its offset",
}
"""Why no run sees the mutant."""
