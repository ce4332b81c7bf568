"""Bugs of delivery: delayed messages and transactions."""

from collections.abc import Callable, Iterator
from dataclasses import replace

from ....store.delivery import schedule
from ....store.delivery.schedule import ScheduleMessageService, encoded_offsets
from ....store.formats import half_message
from ....store.formats.consume_queue import QueueEntry
from ....store.formats.half_message import HALF_TOPIC, OP_TOPIC, QUEUE_ID, HalfMessage, again
from ....store.formats.light_queues import LIGHT_MARK
from ....store.formats.message import MessageRecord
from ....store.formats.messages import Message, PutMessageStatus
from ....store.formats.redirect import delivered
from ....store.formats.scan import ScannedRecord
from ....store.message_store import MessageStore
from ....store.queues.consume_queue import ConsumeQueue
from ....store.queues.dispatch import LightQueueDispatcher
from ....store.services import transaction_check, transaction_service
from ....store.services.transaction_check import (
    CHECK_GROUP,
    HalfMessageVerdict,
    TransactionalMessageCheckService,
    TransactionConfig,
)
from ....store.services.transaction_queues import Decisions, OpQueue, PulledPlace, pull_from
from ...claims.catalogue import SCENARIOS
from ...claims.ranges import Ranges
from ..mutant import bit, bug, needs


# Progress of delayed delivery is used as it was persisted, even beyond its queue's end. After the queue lost its tail
# nothing of that level is delivered until as many messages were put as were lost, and those are passed over.
@bug("delay-offset-not-clamped", ScheduleMessageService, "_within_queue", found_by=("META", "SCHED", "LIVE", "QUIET"))
@needs(
    delay={"chance": (1.0,)},
    producers=(1,),
    messages_each=(1, 3),
    messages={"body_bytes_max": (0, 40), "property_bytes_max": (0,), "batch_chance": (0.0,)},
    endings=("stop and damage",),
    lives=(2, 3),
)
def as_persisted(self: ScheduleMessageService, level: int, offset: int) -> int:
    """Progress that leads beyond the end of its delay level's queue is taken for what it is not."""
    bit(as_persisted.original(self, level, offset) != offset)
    return offset


# After a delivery that failed, the next attempt begins behind the message.
@bug("delay-retry-skips-message", ScheduleMessageService, "_deliver_entry", found_by=("SCHED",))
@needs(
    delay={"chance": (0.8,)},
    faults={"failed_creation_chance": (0.3, 0.5)},
    commit_log_bytes=(2048,),
    endings=("crash at rest", "stop"),
)
def deliver_once(self: ScheduleMessageService, level: int, entry: QueueEntry) -> int:
    """A delayed message whose delivery failed is not tried again."""
    self.last_answer = PutMessageStatus.PUT_OK
    wait_ms = deliver_once.original(self, level, entry)
    if wait_ms and bit(self.last_answer is not PutMessageStatus.PUT_OK):
        self._move_to(level, self.offsets.get(level, 0) + 1)
    return wait_ms


# A pass of the check reads on to where an answer ends, behind the end of the queue as the pass has found it. Numbers
# that the queue skips make answers longer. Found in this store: a decision that was made meanwhile is forgotten with
# that pass, and another one counts.
@bug("check-meets-what-it-put-back", transaction_check, "pull_from", found_by=("LIVE", "TX"))
@needs(SCENARIOS["a-gap-in-the-numbers-hides-no-transaction"].ranges)
def pull_to_the_end_of_answers(store: MessageStore, topic: str, begin: int, end: int) -> Iterator[PulledPlace]:
    """A pass of the transaction check comes upon half messages that it has put back itself."""
    at = begin - 1
    for at, record in pull_from(store, topic, begin, end):
        yield PulledPlace(at, record)
    pulled = store.get_message(topic, QUEUE_ID, begin, max(end - begin, 1))
    if bit(at == end - 1 and pulled.next_begin_offset > end):
        yield from pull_from(store, topic, end, pulled.next_begin_offset)


# A copy that no record can hold, for the disk has changed what it was meant for, is put
# again and again. Found in this store: one flipped bit of REAL_TOPIC keeps all that is behind it.
_RETRY_MS = 100


@bug("delay-rotten-copy-blocks-level", ScheduleMessageService, "_after_refusal", found_by=("QUIET", "SCHED"))
@needs(
    delay={"chance": (0.8,)},
    disk=("dying-disk",),
    faults={"stopped_file_system_chance": (0.0,)},
    rot={"bit_rot_chance": (1.0,), "latent_sector_error_chance": (0.0,)},
    messages={"body_bytes_max": (0,), "property_bytes_max": (0,), "illegal_chance": (0.5,), "batch_chance": (0.0,)},
    messages_each=(8, 16),
    lives=(3, 4),
    endings=("stop", "crash at rest"),
    heals=(True,),
)
def put_for_ever(self: ScheduleMessageService, message: Message) -> int:
    """A delayed message whose topic has rotted away holds back all that are behind it."""
    wait_ms = put_for_ever.original(self, message)
    bit(wait_ms == 0)
    return _RETRY_MS


# An operator has a half message that was given up asked about again, and it still counts as often asked as it was.
@bug("resumed-is-given-up-again", transaction_service, "resumed", found_by=("TX",))
@needs(SCENARIOS["what-was-given-up-can-be-decided-after-all"].ranges)
def as_often_as_it_was(given_up: MessageRecord) -> Message:
    """A half message that an operator has asked about again is given up at once."""
    bit()
    return again(HalfMessage.of(given_up), HALF_TOPIC, {})


# A place of zeros in a delay queue counts as an entry that a failed sync took back, which a restart is to find again.
# Found in this store: where a dying disk has lost the entry no restart does.
@bug("delay-hole-blocks-level", ScheduleMessageService, "_pass_over_hole", found_by=("QUIET", "SCHED", "LIVE"))
@needs(SCENARIOS["what-rots-while-it-waits-holds-up-nothing-else"].ranges)
def hold_back(self: ScheduleMessageService, queue: ConsumeQueue, offset: int) -> int:
    """A place in a delay queue where the disk has lost the entry holds back all that are behind it."""
    bit(queue.queue.sync_error is None)
    return _RETRY_MS


# Progress that could not be written is tried again only when there is more of it. Found in this store: after the last
# delivery nobody comes back to a disk that was full for a moment, and a crash then has all of it delivered again.
@bug("delay-persist-failure-forgotten", ScheduleMessageService, "persist", found_by=("QUIET",))
@needs(
    delay={"chance": (0.5,)},
    faults={"failed_creation_chance": (0.5,)},
    pauses={"chance": (0.5,), "ms_max": (3000,)},
    heals=(True,),
    endings=("stop", "crash at rest"),
)
def persist_once(self: ScheduleMessageService) -> bool:
    """Progress of delayed delivery that could not be persisted once is not tried again."""
    try:
        return persist_once.original(self)
    except OSError:
        bit(not self._is_persisted)
        raise
    finally:
        self._is_persisted = True


# A delayed message is delivered as if the store itself had sent it just now.
@bug("delayed-copy-born-anew", schedule, "delivered", found_by=("PREFIX",))
@needs(delay={"chance": (0.5,)}, topics=(1,), messages_each=(8,))
def delivered_from_store(record: MessageRecord) -> Message | None:
    """The copy of a delayed message has the store's host where its client's should be."""
    message = delivered(record)
    if message is None:
        return None
    bit(message.born_host != message.store_host)
    return replace(message, born_host=message.store_host)


# The age of a half message is compared with its immunity twice. The clock is read
# each time. Who is young enough at first, and not when the helper looks again, is reported as dealt with although it
# was neither put back nor asked about. Virtual time stands still while a task runs, so the mutant is held up between
# the two readings, as any thread can be by a collection or another's turn on the processor.
_HELD_UP_MS = 20


@bug("half-msg-immunity-double-clock", TransactionalMessageCheckService, "_deal_with", found_by=("TX", "QUIET"))
@needs(transactions={"chance": (1.0,)}, messages_each=(8, 16))
def deal_with_two_clocks(self: TransactionalMessageCheckService, half: HalfMessage, ops: OpQueue) -> bool:
    """A half message whose immunity ends while it is looked at is passed over."""
    immunity_ms = half.immunity_ms
    if immunity_ms is None or ops.is_decided(half) or _age_ms(self, half) >= immunity_ms:
        return deal_with_two_clocks.original(self, half, ops)
    self.world.tasks.sleep(_HELD_UP_MS)
    if bit(_age_ms(self, half) >= immunity_ms):
        return True
    return deal_with_two_clocks.original(self, half, ops)


def _age_ms(self: TransactionalMessageCheckService, half: HalfMessage) -> int:
    return self.world.clock.now_ms() - half.record.born_timestamp_ms


_EVERYBODY_PAUSED = Ranges(
    transactions={"chance": (0.3,)},
    retention={"deletes_segments": (True,), "deletes_queues": (True,)},
    disturbances={"paused_task_chance": (1.0,)},
    attribute_points=(True,),
    commit_log_bytes=(1024,),
    consume_queue_bytes=(100,),
    messages={"body_bytes_max": (300,), "property_bytes_max": (0,)},
    messages_each=(24,),
    pauses={"chance": (0.5,), "ms_max": (300,)},
    topics=(1,),
    queues_per_topic=(1,),
    disk=("nothing-lost",),
    endings=("crash at rest",),
    lives=(2,),
)


# A pass has read a half message and stands still while retention takes it out of the log, and the op behind it: nobody
# finds that op any more, and the message seems undecided. It is put back and asked about again.
@bug("expired-half-put-back", TransactionalMessageCheckService, "_has_expired", found_by=("TX", "CLEAN"))
@needs(_EVERYBODY_PAUSED)
def never_expires(self: TransactionalMessageCheckService, half: HalfMessage) -> bool:
    """A half message that has expired together with its decision is put back and asked about again."""
    bit(half.record.physical_offset < self._store.min_phy_offset)
    return False


# A producer was answered and decides while dispatch has not come to its half message yet. The check takes the half
# queue's end for the end of what was put, and the decision for one about a queue that was removed: it forgets it, and
# another decision counts. What it has not passed yet would be kept without that.
@bug("decision-forgotten-before-dispatch", TransactionalMessageCheckService, "_is_settled", found_by=("TX", "ONCE"))
@needs(_EVERYBODY_PAUSED)
def settled_by_dispatch(self: TransactionalMessageCheckService, half_offset: int) -> bool:
    """A decision about a half message that is not dispatched yet is forgotten, and another one counts."""
    is_settled = settled_by_dispatch.original(self, half_offset)
    return is_settled or bool(bit(half_offset >= max(self._half_end(), self._half_offset)))


@settled_by_dispatch.also(Decisions, "forget")
def _forget_settled(self: Decisions, is_settled: Callable[[int], bool], passed: range) -> None:
    self._passed = passed
    self._decided = {first for first in self._decided if not is_settled(first)}


# A half message was put back into a buffer of the pool, and its producer group is asked at once. An answer that is back
# before the buffer is committed finds no record, and is turned away: the same fifteen times, and then it is given up.
@bug("question-before-commit", TransactionalMessageCheckService, "_is_in_file", found_by=("TX",))
@needs(sync_flush=(False,), memory={"transient_pool": (True,)}, transactions={"chance": (1.0,)})
def is_asked_about_at_once(self: TransactionalMessageCheckService, record: MessageRecord) -> bool:
    """A producer group is asked about a half message that is in a buffer, where its answer does not find it."""
    bit(not is_asked_about_at_once.original(self, record))
    return True


# To find nothing new at the end of the op queue is taken for an offset that is wrong. The check then begins anew at the
# place the answer points to, which is that same end, and what it had read of decisions that its half messages still
# need is forgotten.
@bug("op-queue-overflow-one", OpQueue, "read", found_by=("TX",))
@needs(transactions={"chance": (1.0,)}, messages_each=(8, 16), pauses={"ms_max": (1, 30)})
def read_or_forget(self: OpQueue) -> None:
    """A check that finds no new decisions forgets those that it has read."""
    if self._read_to == self._store.get_max_offset_in_queue(OP_TOPIC, QUEUE_ID):
        bit(bool(self._ops or self._decided))
        self._ops.clear()
        self._decided.clear()
        return
    read_or_forget.original(self)


# A half message that is put again after a question has lost a field on the way.
@bug("put-back-forgets-reconsume-times", half_message, "again", found_by=("PREFIX",))
@needs(transactions={"chance": (0.5,)}, commit_log_bytes=(8192, 16384), sync_flush=(True,))
def again_never_reconsumed(half: HalfMessage, topic: str, added: dict[str, str]) -> Message:
    """A half message that is put back says that it was never consumed in vain."""
    message = again(half, topic, added)
    bit(message.reconsume_times > 0)
    return replace(message, reconsume_times=0)


# The progress of the check is kept as soon as a pass is over. A crash may take what that pass has put back, and the
# half messages that were behind it are in front of where the next life begins.
@bug("tx-progress-outlives-log", TransactionalMessageCheckService, "_publish", found_by=("TX",))
@needs(transactions={"chance": (1.0,)}, sync_flush=(False,), messages_each=(8,), pauses={"ms_max": (300,)})
def publish_at_once(self: TransactionalMessageCheckService) -> None:
    """The check of transactions goes on behind what a crash has taken from it."""
    done = self._unpublished
    if done is None:
        return
    bit(self._store.log.flushed_where.get() < done.log_offset)
    self._unpublished = None
    for topic, offset in ((HALF_TOPIC, done.half_offset), (OP_TOPIC, done.op_offset)):
        if self._progress_in(topic) != offset:
            self._offsets.commit_offset(CHECK_GROUP, topic, QUEUE_ID, offset)


# The limit of questions is one that may be reached.
@bug("asked-once-too-often", transaction_check, "verdict", found_by=("TX",))
@needs(transactions={"chance": (1.0,)}, messages_each=(5,))
def verdict_beyond_limit(
    half: HalfMessage, now_ms: int, config: TransactionConfig, reserved_ms: int
) -> HalfMessageVerdict:
    """A half message is asked about once more than transactionCheckMax."""
    bit(half.check_times == config.transaction_check_max)
    return verdict_beyond_limit.original(
        half, now_ms, replace(config, transaction_check_max=_one_more(config)), reserved_ms
    )


def _one_more(config: TransactionConfig) -> int:
    return config.transaction_check_max + 1


# What the check has passed is forgotten, whichever life has put it.
@bug("decided-again-once-passed", Decisions, "forget", found_by=("TX",))
@needs(transactions={"chance": (1.0,)}, messages_each=(8,))
def forget_earlier_lives(self: Decisions, is_settled: Callable[[int], bool], passed: range) -> None:
    """A transaction of an earlier life can be decided twice, once the check has passed it."""
    forget_earlier_lives.original(self, is_settled, passed)
    before, self._decided = self._decided, {first for first in self._decided if not is_settled(first)}
    bit(len(self._decided) < len(before))


# Progress of delivery is persisted as it is, whether or not what it has put is durable.
@bug("delay-progress-outlives-copies", ScheduleMessageService, "persist", found_by=("SCHED",))
@needs(delay={"chance": (0.8,)}, sync_flush=(False,), messages_each=(8,), pauses={"chance": (0.5,), "ms_max": (3000,)})
def persist_undurable(self: ScheduleMessageService) -> bool:
    """A crash takes delivered messages that progress says are delivered."""
    flushed_where = self._commit_log.queue.flushed_where.get()
    bit(any(end > flushed_where for end, _, _ in self._undurable))
    self._undurable.clear()
    self._durable = dict(self.offsets)
    stored = self.file.store(encoded_offsets(self._durable))
    self._is_persisted = True
    return stored


# What has waited was dispatched once already, when it was put to wait.
@bug("delayed-skips-light-queues", LightQueueDispatcher, "dispatch", found_by=("CQ-COMPLETE", "SCAN", "VIS", "READ"))
@needs(delay={"chance": (0.5,)}, light_queues={"chance": (0.9,)}, messages_each=(8,))
def dispatch_light_once(self: LightQueueDispatcher, record: ScannedRecord) -> None:
    """A message that was delayed is in none of its light queues."""
    if bit(b"REAL_TOPIC" in record.properties and LIGHT_MARK in record.properties):
        return
    dispatch_light_once.original(self, record)


# In its last step the check keeps only progress that happens to be durable. A clean stop makes the rest durable later,
# when the offsets of the check are persisted already.
@bug("check-progress-lost-in-a-stop", TransactionalMessageCheckService, "finish", found_by=("TX",))
@needs(transactions={"chance": (1.0,)}, sync_flush=(False,), messages_each=(5,), endings=("stop",), lives=(2, 3))
def finish_without_flush(self: TransactionalMessageCheckService) -> None:
    """After a clean stop the check begins before its last pass, and asks twice about each transaction in it."""
    done = self._unpublished
    bit(done is not None and self._store.log.flushed_where.get() < done.log_offset)
    self._publish()
