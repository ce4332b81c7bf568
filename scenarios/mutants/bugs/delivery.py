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
from ..mutant import Mutant, Patch, bit

# #32 delay-offset-not-clamped: progress of delayed delivery is used as it was persisted, even beyond its
# queue's end. After the queue lost its tail nothing of that level is delivered until as many messages were
# put as were lost, and those are passed over.
_original_within_queue = ScheduleMessageService._within_queue


def _as_persisted(self: ScheduleMessageService, level: int, offset: int) -> int:
    bit(_original_within_queue(self, level, offset) != offset)
    return offset


DELAY_OFFSET_NOT_CLAMPED = Mutant(
    "delay-offset-not-clamped",
    "progress that leads beyond the end of its delay level's queue is taken for what it is not",
    (Patch(ScheduleMessageService, "_within_queue", _as_persisted),),
    ("META", "SCHED", "LIVE", "QUIET"),
    Ranges(
        delay={"chance": (1.0,)},
        producers=(1,),
        messages_each=(1, 3),
        messages={"body_bytes_max": (0, 40), "property_bytes_max": (0,), "batch_chance": (0.0,)},
        endings=("stop and damage",),
        lives=(2, 3),
    ),
)


# #33 delay-retry-skips-message: after a delivery that failed, the next attempt begins behind the message.
_original_deliver_entry = ScheduleMessageService._deliver_entry


def _deliver_once(self: ScheduleMessageService, level: int, entry: QueueEntry) -> int:
    self.last_answer = PutMessageStatus.PUT_OK
    wait_ms = _original_deliver_entry(self, level, entry)
    if wait_ms and bit(self.last_answer is not PutMessageStatus.PUT_OK):
        self._move_to(level, self.offsets.get(level, 0) + 1)
    return wait_ms


DELAY_RETRY_SKIPS_MESSAGE = Mutant(
    "delay-retry-skips-message",
    "a delayed message whose delivery failed is not tried again",
    (Patch(ScheduleMessageService, "_deliver_entry", _deliver_once),),
    ("SCHED",),
    Ranges(
        delay={"chance": (0.8,)},
        faults={"failed_creation_chance": (0.3, 0.5)},
        commit_log_bytes=(2048,),
        endings=("crash at rest", "stop"),
    ),
)


# check-meets-what-it-put-back: a pass of the check reads on to where an answer ends, behind the end of the queue as the
# pass has found it. Numbers that the queue skips make answers longer. Found in this store: a decision that was made
# meanwhile is forgotten with that pass, and another one counts.
def _pull_to_the_end_of_answers(store: MessageStore, topic: str, begin: int, end: int) -> Iterator[PulledPlace]:
    at = begin - 1
    for at, record in pull_from(store, topic, begin, end):
        yield PulledPlace(at, record)
    pulled = store.get_message(topic, QUEUE_ID, begin, max(end - begin, 1))
    if bit(at == end - 1 and pulled.next_begin_offset > end):
        yield from pull_from(store, topic, end, pulled.next_begin_offset)


CHECK_MEETS_WHAT_IT_PUT_BACK = Mutant(
    "check-meets-what-it-put-back",
    "a pass of the transaction check comes upon half messages that it has put back itself",
    (Patch(transaction_check, "pull_from", _pull_to_the_end_of_answers),),
    ("LIVE", "TX"),
    SCENARIOS["a-gap-in-the-numbers-hides-no-transaction"].ranges,
)


# delay-rotten-copy-blocks-level: a copy that no record can hold, for the disk has changed what it was meant for, is put
# again and again. Found in this store: one flipped bit of REAL_TOPIC keeps all that is behind it.
_RETRY_MS = 100
_original_after_refusal = ScheduleMessageService._after_refusal


def _put_for_ever(self: ScheduleMessageService, message: Message) -> int:
    wait_ms = _original_after_refusal(self, message)
    bit(wait_ms == 0)
    return _RETRY_MS


DELAY_ROTTEN_COPY_BLOCKS_LEVEL = Mutant(
    "delay-rotten-copy-blocks-level",
    "a delayed message whose topic has rotted away holds back all that are behind it",
    (Patch(ScheduleMessageService, "_after_refusal", _put_for_ever),),
    ("QUIET", "SCHED"),
    Ranges(
        delay={"chance": (0.8,)},
        disk=("dying-disk",),
        faults={"stopped_file_system_chance": (0.0,)},
        rot={"bit_rot_chance": (1.0,), "latent_sector_error_chance": (0.0,)},
        messages={"body_bytes_max": (0,), "property_bytes_max": (0,), "illegal_chance": (0.5,), "batch_chance": (0.0,)},
        messages_each=(8, 16),
        lives=(3, 4),
        endings=("stop", "crash at rest"),
        heals=(True,),
    ),
)


# resumed-is-given-up-again: an operator has a half message that was given up asked about again, and it still counts as
# often asked as it was.
def _as_often_as_it_was(given_up: MessageRecord) -> Message:
    bit()
    return again(HalfMessage.of(given_up), HALF_TOPIC, {})


RESUMED_IS_GIVEN_UP_AGAIN = Mutant(
    "resumed-is-given-up-again",
    "a half message that an operator has asked about again is given up at once",
    (Patch(transaction_service, "resumed", _as_often_as_it_was),),
    ("TX",),
    SCENARIOS["what-was-given-up-can-be-decided-after-all"].ranges,
)


# delay-hole-blocks-level: a place of zeros in a delay queue counts as an entry that a failed sync took back, which a
# restart is to find again. Found in this store: where a dying disk has lost the entry no restart does.
def _hold_back(self: ScheduleMessageService, queue: ConsumeQueue, offset: int) -> int:
    bit(queue.queue.sync_error is None)
    return _RETRY_MS


DELAY_HOLE_BLOCKS_LEVEL = Mutant(
    "delay-hole-blocks-level",
    "a place in a delay queue where the disk has lost the entry holds back all that are behind it",
    (Patch(ScheduleMessageService, "_pass_over_hole", _hold_back),),
    ("QUIET", "SCHED", "LIVE"),
    SCENARIOS["what-rots-while-it-waits-holds-up-nothing-else"].ranges,
)


# delay-persist-failure-forgotten: progress that could not be written is tried again only when there is more of it.
# Found in this store: after the last delivery nobody comes back to a disk that was full for a moment, and a crash then
# has all of it delivered again.
_original_persist = ScheduleMessageService.persist


def _persist_once(self: ScheduleMessageService) -> bool:
    try:
        return _original_persist(self)
    except OSError:
        bit(not self._is_persisted)
        raise
    finally:
        self._is_persisted = True


DELAY_PERSIST_FAILURE_FORGOTTEN = Mutant(
    "delay-persist-failure-forgotten",
    "progress of delayed delivery that could not be persisted once is not tried again",
    (Patch(ScheduleMessageService, "persist", _persist_once),),
    ("QUIET",),
    Ranges(
        delay={"chance": (0.5,)},
        faults={"failed_creation_chance": (0.5,)},
        pauses={"chance": (0.5,), "ms_max": (3000,)},
        heals=(True,),
        endings=("stop", "crash at rest"),
    ),
)


# delayed-copy-born-anew: a delayed message is delivered as if the store itself had sent it just now.
def _delivered_from_store(record: MessageRecord) -> Message | None:
    message = delivered(record)
    if message is None:
        return None
    bit(message.born_host != message.store_host)
    return replace(message, born_host=message.store_host)


DELAYED_COPY_BORN_ANEW = Mutant(
    "delayed-copy-born-anew",
    "the copy of a delayed message has the store's host where its client's should be",
    (Patch(schedule, "delivered", _delivered_from_store),),
    ("PREFIX",),
    Ranges(delay={"chance": (0.5,)}, topics=(1,), messages_each=(8,)),
)


# #34 half-msg-immunity-double-clock: the age of a half message is compared with its immunity twice. The clock is read
# each time. Who is young enough at first, and not when the helper looks again, is reported as dealt with although it
# was neither put back nor asked about. Virtual time stands still while a task runs, so the mutant is held up between
# the two readings, as any thread can be by a collection or another's turn on the processor.
_original_deal_with = TransactionalMessageCheckService._deal_with
_HELD_UP_MS = 20


def _deal_with_two_clocks(self: TransactionalMessageCheckService, half: HalfMessage, ops: OpQueue) -> bool:
    immunity_ms = half.immunity_ms
    if immunity_ms is None or ops.is_decided(half) or _age_ms(self, half) >= immunity_ms:
        return _original_deal_with(self, half, ops)
    self.world.tasks.sleep(_HELD_UP_MS)
    if bit(_age_ms(self, half) >= immunity_ms):
        return True
    return _original_deal_with(self, half, ops)


def _age_ms(self: TransactionalMessageCheckService, half: HalfMessage) -> int:
    return self.world.clock.now_ms() - half.record.born_timestamp_ms


HALF_MSG_IMMUNITY_DOUBLE_CLOCK = Mutant(
    "half-msg-immunity-double-clock",
    "a half message whose immunity ends while it is looked at is passed over",
    (Patch(TransactionalMessageCheckService, "_deal_with", _deal_with_two_clocks),),
    ("TX", "QUIET"),
    Ranges(transactions={"chance": (1.0,)}, messages_each=(8, 16)),
)


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
def _never_expires(self: TransactionalMessageCheckService, half: HalfMessage) -> bool:
    bit(half.record.physical_offset < self._store.min_phy_offset)
    return False


EXPIRED_HALF_PUT_BACK = Mutant(
    "expired-half-put-back",
    "a half message that has expired together with its decision is put back and asked about again",
    (Patch(TransactionalMessageCheckService, "_has_expired", _never_expires),),
    ("TX", "CLEAN"),
    _EVERYBODY_PAUSED,
)


# decision-forgotten-before-dispatch: a producer was answered and decides while dispatch has not come to its half
# message yet. The check takes the half queue's end for the end of what was put, and the decision for one about a queue
# that was removed: it forgets it, and another decision counts. What it has not passed yet would be kept without that.
_original_is_settled = TransactionalMessageCheckService._is_settled


def _settled_by_dispatch(self: TransactionalMessageCheckService, half_offset: int) -> bool:
    is_settled = _original_is_settled(self, half_offset)
    return is_settled or bool(bit(half_offset >= max(self._half_end(), self._half_offset)))


def _forget_settled(self: Decisions, is_settled: Callable[[int], bool], passed: range) -> None:
    self._passed = passed
    self._decided = {first for first in self._decided if not is_settled(first)}


DECISION_FORGOTTEN_BEFORE_DISPATCH = Mutant(
    "decision-forgotten-before-dispatch",
    "a decision about a half message that is not dispatched yet is forgotten, and another one counts",
    (
        Patch(TransactionalMessageCheckService, "_is_settled", _settled_by_dispatch),
        Patch(Decisions, "forget", _forget_settled),
    ),
    ("TX", "ONCE"),
    _EVERYBODY_PAUSED,
)


# A half message was put back into a buffer of the pool, and its producer group is asked at once. An answer that is back
# before the buffer is committed finds no record, and is turned away: the same fifteen times, and then it is given up.
_original_is_in_file = TransactionalMessageCheckService._is_in_file


def _is_asked_about_at_once(self: TransactionalMessageCheckService, record: MessageRecord) -> bool:
    bit(not _original_is_in_file(self, record))
    return True


QUESTION_BEFORE_COMMIT = Mutant(
    "question-before-commit",
    "a producer group is asked about a half message that is in a buffer, where its answer does not find it",
    (Patch(TransactionalMessageCheckService, "_is_in_file", _is_asked_about_at_once),),
    ("TX",),
    Ranges(sync_flush=(False,), memory={"transient_pool": (True,)}, transactions={"chance": (1.0,)}),
)


# #35 op-queue-overflow-one: to find nothing new at the end of the op queue is taken for an offset that is
# wrong. The check then begins anew at the place the answer points to, which is that same end, and what it had
# read of decisions that its half messages still need is forgotten.
_original_read = OpQueue.read


def _read_or_forget(self: OpQueue) -> None:
    if self._read_to == self._store.get_max_offset_in_queue(OP_TOPIC, QUEUE_ID):
        bit(bool(self._ops or self._decided))
        self._ops.clear()
        self._decided.clear()
        return
    _original_read(self)


OP_QUEUE_OVERFLOW_ONE = Mutant(
    "op-queue-overflow-one",
    "a check that finds no new decisions forgets those that it has read",
    (Patch(OpQueue, "read", _read_or_forget),),
    ("TX",),
    Ranges(transactions={"chance": (1.0,)}, messages_each=(8, 16), pauses={"ms_max": (1, 30)}),
)


# put-back-forgets-reconsume-times: a half message that is put again after a question has lost a field on the way.
def _again_never_reconsumed(half: HalfMessage, topic: str, added: dict[str, str]) -> Message:
    message = again(half, topic, added)
    bit(message.reconsume_times > 0)
    return replace(message, reconsume_times=0)


PUT_BACK_FORGETS_RECONSUME_TIMES = Mutant(
    "put-back-forgets-reconsume-times",
    "a half message that is put back says that it was never consumed in vain",
    (Patch(half_message, "again", _again_never_reconsumed),),
    ("PREFIX",),
    Ranges(transactions={"chance": (0.5,)}, commit_log_bytes=(8192, 16384), sync_flush=(True,)),
)


# tx-progress-outlives-log: the progress of the check is kept as soon as a pass is over. A crash may take what that pass
# has put back, and the half messages that were behind it are in front of where the next life begins.
def _publish_at_once(self: TransactionalMessageCheckService) -> None:
    done = self._unpublished
    if done is None:
        return
    bit(self._store.log.flushed_where.get() < done.log_offset)
    self._unpublished = None
    for topic, offset in ((HALF_TOPIC, done.half_offset), (OP_TOPIC, done.op_offset)):
        if self._progress_in(topic) != offset:
            self._offsets.commit_offset(CHECK_GROUP, topic, QUEUE_ID, offset)


TX_PROGRESS_OUTLIVES_LOG = Mutant(
    "tx-progress-outlives-log",
    "the check of transactions goes on behind what a crash has taken from it",
    (Patch(TransactionalMessageCheckService, "_publish", _publish_at_once),),
    ("TX",),
    Ranges(transactions={"chance": (1.0,)}, sync_flush=(False,), messages_each=(8,), pauses={"ms_max": (300,)}),
)


# asked-once-too-often: the limit of questions is one that may be reached.
def _verdict_beyond_limit(
    half: HalfMessage, now_ms: int, config: TransactionConfig, reserved_ms: int
) -> HalfMessageVerdict:
    bit(half.check_times == config.transaction_check_max)
    return _original_verdict(half, now_ms, replace(config, transaction_check_max=_one_more(config)), reserved_ms)


def _one_more(config: TransactionConfig) -> int:
    return config.transaction_check_max + 1


_original_verdict = transaction_check.verdict
ASKED_ONCE_TOO_OFTEN = Mutant(
    "asked-once-too-often",
    "a half message is asked about once more than transactionCheckMax",
    (Patch(transaction_check, "verdict", _verdict_beyond_limit),),
    ("TX",),
    Ranges(transactions={"chance": (1.0,)}, messages_each=(5,)),
)


# decided-again-once-passed: what the check has passed is forgotten, whichever life has put it.
_original_forget = Decisions.forget


def _forget_earlier_lives(self: Decisions, is_settled: Callable[[int], bool], passed: range) -> None:
    _original_forget(self, is_settled, passed)
    before, self._decided = self._decided, {first for first in self._decided if not is_settled(first)}
    bit(len(self._decided) < len(before))


DECIDED_AGAIN_ONCE_PASSED = Mutant(
    "decided-again-once-passed",
    "a transaction of an earlier life can be decided twice, once the check has passed it",
    (Patch(Decisions, "forget", _forget_earlier_lives),),
    ("TX",),
    Ranges(transactions={"chance": (1.0,)}, messages_each=(8,)),
)


# delay-progress-outlives-copies: progress of delivery is persisted as it is, whether or not what it has put is durable.
def _persist_undurable(self: ScheduleMessageService) -> bool:
    flushed_where = self._commit_log.queue.flushed_where.get()
    bit(any(end > flushed_where for end, _, _ in self._undurable))
    self._undurable.clear()
    self._durable = dict(self.offsets)
    stored = self.file.store(encoded_offsets(self._durable))
    self._is_persisted = True
    return stored


DELAY_PROGRESS_OUTLIVES_COPIES = Mutant(
    "delay-progress-outlives-copies",
    "a crash takes delivered messages that progress says are delivered",
    (Patch(ScheduleMessageService, "persist", _persist_undurable),),
    ("SCHED",),
    Ranges(
        delay={"chance": (0.8,)}, sync_flush=(False,), messages_each=(8,), pauses={"chance": (0.5,), "ms_max": (3000,)}
    ),
)


# delayed-skips-light-queues: what has waited was dispatched once already, when it was put to wait.
_original_dispatch_light = LightQueueDispatcher.dispatch


def _dispatch_light_once(self: LightQueueDispatcher, record: ScannedRecord) -> None:
    if bit(b"REAL_TOPIC" in record.properties and LIGHT_MARK in record.properties):
        return
    _original_dispatch_light(self, record)


DELAYED_SKIPS_LIGHT_QUEUES = Mutant(
    "delayed-skips-light-queues",
    "a message that was delayed is in none of its light queues",
    (Patch(LightQueueDispatcher, "dispatch", _dispatch_light_once),),
    ("CQ-COMPLETE", "SCAN", "VIS", "READ"),
    Ranges(delay={"chance": (0.5,)}, light_queues={"chance": (0.9,)}, messages_each=(8,)),
)


# check-progress-lost-in-a-stop: in its last step the check keeps only progress that happens to be durable. A clean stop
# makes the rest durable later, when the offsets of the check are persisted already.
def _finish_without_flush(self: TransactionalMessageCheckService) -> None:
    done = self._unpublished
    bit(done is not None and self._store.log.flushed_where.get() < done.log_offset)
    self._publish()


CHECK_PROGRESS_LOST_IN_A_STOP = Mutant(
    "check-progress-lost-in-a-stop",
    "after a clean stop the check begins before its last pass, and asks twice about each transaction in it",
    (Patch(TransactionalMessageCheckService, "finish", _finish_without_flush),),
    ("TX",),
    Ranges(transactions={"chance": (1.0,)}, sync_flush=(False,), messages_each=(5,), endings=("stop",), lives=(2, 3)),
)
