"""Bugs of delivery: delayed messages and transactions."""

from collections.abc import Callable, Iterator
from dataclasses import replace

from ....store.delivery import delivered_copies, schedule
from ....store.delivery.schedule import ScheduleMessageService, encoded_offsets
from ....store.formats import half_message
from ....store.formats.consume_queue import QueueEntry
from ....store.formats.half_message import HALF_TOPIC, OP_TOPIC, QUEUE_ID, HalfMessage, copy_half_message
from ....store.formats.light_queues import LIGHT_MARK
from ....store.formats.message import MessageRecord
from ....store.formats.messages import Message, PutMessageStatus
from ....store.formats.properties import PROPERTY_INNER_MULTI_DISPATCH, PROPERTY_WAIT, decode_properties
from ....store.formats.redirect import message_to_deliver
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
from ....store.services.transaction_queues import OpQueue, PulledMessage, TransactionDecisions, pull_from
from ...claims.catalogue import SCENARIOS
from ...claims.catalogue.delivery import SHORT_TIMEOUTS
from ...claims.catalogue.directory import SMALL_LIMIT
from ...claims.ranges import Ranges
from ..mutant import bit, bug, needs

LOST_PROGRESS = Ranges(
    delay={"chance": (1.0,)},
    producers=(1,),
    messages_each=(1, 3),
    messages={"body_bytes_max": (0, 40), "property_bytes_max": (0,), "batch_chance": (0.0,)},
    endings=("stop and damage",),
    lives=(2, 3),
)
"""Delayed messages are lost, but not the progress of their delivery."""


# Delivery of the level waits until the queue has grown past the saved offset, and so skips messages.
@bug(
    "delay-offset-not-clamped",
    ScheduleMessageService,
    "_limit_offset_to_queue",
    found_by=("META", "SCHED", "LIVE", "QUIET"),
)
@needs(LOST_PROGRESS)
def load_offset_unlimited(self: ScheduleMessageService, level: int, offset: int) -> int:
    """A saved delivery offset after the end of its delay queue is not corrected."""
    bit(load_offset_unlimited.original(self, level, offset) != offset)
    return offset


@bug("delay-retry-skips-message", ScheduleMessageService, "_deliver_entry", found_by=("SCHED",))
@needs(
    delay={"chance": (0.8,)},
    faults={"failed_creation_chance": (0.3, 0.5)},
    commit_log_bytes=(2048,),
    endings=("crash at rest", "stop"),
)
def deliver_once(self: ScheduleMessageService, level: int, entry: QueueEntry) -> int:
    """A failed delivery of a delayed message has no retry."""
    self.last_answer = PutMessageStatus.PUT_OK
    wait_ms = deliver_once.original(self, level, entry)
    if wait_ms and bit(self.last_answer is not PutMessageStatus.PUT_OK):
        self._advance_level(level, self.offsets.get(level, 0) + 1)
    return wait_ms


# Found in this store: after skipped queue offsets, a pull can return messages put during the pass. A decision during
# the pass is then forgotten.
@bug("check-repeats-put-back-copies", transaction_check, "pull_from", found_by=("LIVE", "TX"))
@needs(SCENARIOS["half-message-offset-gap"].ranges)
def pull_to_the_end_of_answers(store: MessageStore, topic: str, begin: int, end: int) -> Iterator[PulledMessage]:
    """A pass of the transaction check checks half messages that the same pass has put back."""
    at = begin - 1
    for at, record in pull_from(store, topic, begin, end):
        yield PulledMessage(at, record)
    pulled = store.get_message(topic, QUEUE_ID, begin, max(end - begin, 1))
    if bit(at == end - 1 and pulled.next_begin_offset > end):
        yield from pull_from(store, topic, end, pulled.next_begin_offset)


_RETRY_MS = 100


# Found in this store: the copy of the message is too large for a record, but its put is retried forever.
@bug("corrupt-topic-blocks-level", ScheduleMessageService, "_skip_or_retry_refused", found_by=("QUIET", "SCHED"))
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
def retry_refused_put_forever(self: ScheduleMessageService, message: Message) -> int:
    """A delayed message with a corrupt topic blocks all later messages of its level."""
    wait_ms = retry_refused_put_forever.original(self, message)
    bit(wait_ms == 0)
    return _RETRY_MS


@bug("resumed-is-given-up-again", transaction_service, "resumed_message", found_by=("TX",))
@needs(SCENARIOS["transaction-check-resumed"].ranges)
def resume_with_old_check_count(given_up: MessageRecord) -> Message:
    """After an operator resumes the checks of a half message, the broker abandons the message at once."""
    bit()
    return copy_half_message(HalfMessage.from_record(given_up), HALF_TOPIC, {})


# Found in this store: delivery waits until a restart restores a zero entry. On a failing disk no restart restores the
# entry.
@bug("delay-hole-blocks-level", ScheduleMessageService, "_skip_or_retry_hole", found_by=("QUIET", "SCHED", "LIVE"))
@needs(SCENARIOS["delayed-entry-corrupted"].ranges)
def wait_for_lost_entry(self: ScheduleMessageService, queue: ConsumeQueue, offset: int) -> int:
    """A lost entry of a delay queue blocks all later messages of its level."""
    bit(queue.queue.sync_error is None)
    return _RETRY_MS


# Found in this store: if the disk is full at the last delivery, a restart repeats all deliveries since the last write.
@bug("delay-persist-not-retried", ScheduleMessageService, "persist", found_by=("QUIET",))
@needs(
    delay={"chance": (0.5,)},
    faults={"failed_creation_chance": (0.5,)},
    pauses={"chance": (0.5,), "ms_max": (3000,)},
    heals=(True,),
    endings=("stop", "crash at rest"),
)
def persist_once(self: ScheduleMessageService) -> bool:
    """A failed write of the progress of delayed delivery has no retry."""
    try:
        return persist_once.original(self)
    except OSError:
        bit(not self._is_persisted)
        raise
    finally:
        self._is_persisted = True


@bug("delayed-copy-has-store-host", schedule, "message_to_deliver", found_by=("PREFIX", "READ"))
@needs(delay={"chance": (0.5,)}, topics=(1,), messages_each=(8,))
def delivered_from_store(record: MessageRecord) -> Message | None:
    """The delivered copy of a delayed message has the store's host instead of the client's host."""
    message = message_to_deliver(record)
    if message is None:
        return None
    bit(message.born_host != message.store_host)
    return replace(message, born_host=message.store_host)


_HELD_UP_MS = 20


# The check reads the clock twice. Virtual time does not pass while a task runs, so the mutant sleeps between the reads,
# like a thread during garbage collection.
@bug(
    "half-msg-immunity-double-clock", TransactionalMessageCheckService, "_check_half_message", found_by=("TX", "QUIET")
)
@needs(transactions={"chance": (1.0,)}, messages_each=(8, 16))
def check_with_two_clock_reads(self: TransactionalMessageCheckService, half: HalfMessage, ops: OpQueue) -> bool:
    """The check skips a half message if its immunity ends during the check."""
    immunity_ms = half.immunity_ms
    if immunity_ms is None or ops.is_decided(half) or _age_ms(self, half) >= immunity_ms:
        return check_with_two_clock_reads.original(self, half, ops)
    self.world.tasks.sleep(_HELD_UP_MS)
    if bit(_age_ms(self, half) >= immunity_ms):
        return True
    return check_with_two_clock_reads.original(self, half, ops)


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


# Retention removes the half message and its op message after the check has read the half message.
@bug("expired-half-put-back", TransactionalMessageCheckService, "_has_expired", found_by=("TX", "CLEAN"))
@needs(_EVERYBODY_PAUSED, disturbances={"paused_task_ms_max": (1_000,)})
def never_expires(self: TransactionalMessageCheckService, half: HalfMessage) -> bool:
    """The check puts back a half message although the message and its decision have expired."""
    bit(half.record.physical_offset < self._store.min_phy_offset)
    return False


# The check treats the end of the half queue as the last put. The mutant also replaces `forget`, which would keep
# decisions after the check's position.
@bug("decision-lost-before-dispatch", TransactionalMessageCheckService, "_is_settled", found_by=("TX",))
@needs(_EVERYBODY_PAUSED)
def settled_by_dispatch(self: TransactionalMessageCheckService, half_offset: int) -> bool:
    """The broker forgets a decision that precedes the dispatch of its half message, and accepts a second decision."""
    is_settled = settled_by_dispatch.original(self, half_offset)
    return is_settled or bool(bit(half_offset >= max(self._half_queue_end(), self._half_offset)))


@settled_by_dispatch.also(TransactionDecisions, "forget_settled")
def _forget_settled(self: TransactionDecisions, is_settled: Callable[[int], bool], passed: range) -> None:
    self._passed = passed
    self._decided = {first for first in self._decided if not is_settled(first)}


# A buffered record is readable only after its commit. After fifteen checks the broker abandons the message.
@bug("question-before-commit", TransactionalMessageCheckService, "_is_readable", found_by=("TX",))
@needs(sync_flush=(False,), memory={"transient_pool": (True,)}, transactions={"chance": (1.0,)})
def is_asked_about_at_once(self: TransactionalMessageCheckService, record: MessageRecord) -> bool:
    """The broker checks a half message that is still in a buffer, and then finds no record for the producer's reply."""
    bit(not is_asked_about_at_once.original(self, record))
    return True


# A look-up finds durable records only. After fifteen checks the broker abandons the message.
@bug("question-before-sync", TransactionalMessageCheckService, "_is_readable", found_by=("TX",))
@needs(Ranges(**SHORT_TIMEOUTS), transactions={"chance": (1.0,)})
def is_asked_about_after_timeout(self: TransactionalMessageCheckService, record: MessageRecord) -> bool:
    """If the sync of a copy takes longer than syncFlushTimeout, the check asks before the producer's reply is valid."""
    is_in_file = self._store.max_phy_offset >= record.physical_offset + record.size_bytes
    bit(is_in_file and not is_asked_about_after_timeout.original(self, record))
    return is_in_file


# The mutant treats an empty read of the op queue as a wrong offset, and restarts the reader at this offset.
@bug("op-queue-overflow-one", OpQueue, "read", found_by=("TX",))
@needs(transactions={"chance": (1.0,)}, messages_each=(8, 16), pauses={"ms_max": (1, 30)})
def read_or_forget(self: OpQueue) -> None:
    """A check without new decisions forgets all earlier decisions."""
    if self._read_to == self._store.get_max_offset_in_queue(OP_TOPIC, QUEUE_ID):
        bit(bool(self._ops or self._decided))
        self._ops.clear()
        self._decided.clear()
        return
    read_or_forget.original(self)


@bug("put-back-forgets-reconsume-times", half_message, "copy_half_message", found_by=("PREFIX",))
@needs(transactions={"chance": (0.5,)}, commit_log_bytes=(8192, 16_384), sync_flush=(True,))
def put_back_without_reconsume_times(half: HalfMessage, topic: str, added: dict[str, str]) -> Message:
    """A half message loses its reconsumeTimes when the check puts it back."""
    message = copy_half_message(half, topic, added)
    bit(message.reconsume_times > 0)
    return replace(message, reconsume_times=0)


# A crash can lose the half messages that a pass put back. The next start then continues after the original messages.
@bug("tx-progress-outlives-log", TransactionalMessageCheckService, "_publish_progress", found_by=("TX",))
@needs(transactions={"chance": (1.0,)}, sync_flush=(False,), messages_each=(8,), pauses={"ms_max": (300,)})
def publish_at_once(self: TransactionalMessageCheckService) -> None:
    """After a crash the transaction check continues at a saved offset after half messages with lost copies."""
    done = self._unpublished
    if done is None:
        return
    bit(self._store.log.flushed_where.get() < done.log_offset)
    self._unpublished = None
    for topic, offset in ((HALF_TOPIC, done.half_offset), (OP_TOPIC, done.op_offset)):
        if self._read_progress_of(topic) != offset:
            self._offsets.commit_offset(CHECK_GROUP, topic, QUEUE_ID, offset)


@bug("check-maximum-plus-one", transaction_check, "verdict_on", found_by=("TX",))
@needs(transactions={"chance": (1.0,)}, messages_each=(5,))
def verdict_beyond_limit(
    half: HalfMessage, now_ms: int, config: TransactionConfig, reserved_ms: int
) -> HalfMessageVerdict:
    """The broker checks a half message transactionCheckMax + 1 times."""
    bit(half.check_times == config.transaction_check_max)
    return verdict_beyond_limit.original(
        half, now_ms, replace(config, transaction_check_max=_one_more(config)), reserved_ms
    )


def _one_more(config: TransactionConfig) -> int:
    return config.transaction_check_max + 1


@bug("given-up-twice", TransactionalMessageCheckService, "_give_up", found_by=("TX",))
@needs(transactions={"chance": (1.0,)}, messages_each=(5, 16), heals=(True,), lives=(1,))
def give_up_two_times(self: TransactionalMessageCheckService, half: HalfMessage) -> bool:
    """The broker stores a half message twice when it gives it up."""
    bit()
    return give_up_two_times.original(self, half) and give_up_two_times.original(self, half)


@bug("decided-again-once-passed", TransactionDecisions, "forget_settled", found_by=("TX",))
@needs(transactions={"chance": (1.0,)}, messages_each=(8,))
def forget_earlier_lives(self: TransactionDecisions, is_settled: Callable[[int], bool], passed: range) -> None:
    """After a restart, a transaction that the check has passed can be decided twice."""
    forget_earlier_lives.original(self, is_settled, passed)
    before, self._decided = self._decided, {first for first in self._decided if not is_settled(first)}
    bit(len(self._decided) < len(before))


@bug("delay-progress-before-copies", ScheduleMessageService, "persist", found_by=("SCHED",))
@needs(delay={"chance": (0.8,)}, sync_flush=(False,), messages_each=(8,), pauses={"chance": (0.5,), "ms_max": (3000,)})
def persist_undurable(self: ScheduleMessageService) -> bool:
    """A crash loses delayed messages that count as delivered."""
    flushed_where = self._commit_log.queue.flushed_where.get()
    bit(any(end > flushed_where for end, _, _ in self._undurable))
    self._undurable.clear()
    self._durable = dict(self.offsets)
    stored = self.file.store(encoded_offsets(self._durable))
    self._is_persisted = True
    return stored


@bug("light-copy-proves-no-delivery", delivered_copies, "_copy_key", found_by=("REDEL",))
@needs(
    delay={"chance": (0.8,)},
    light_queues={"chance": (0.9,)},
    sync_flush=(True,),
    messages_each=(8,),
    endings=("stop and damaged progress",),
    lives=(2,),
)
def copy_key_with_wait(message: Message | MessageRecord) -> bytes:
    """If the delivery progress is lost, a copy in light queues counts for no message with WAIT, which it has lost."""
    properties = decode_properties(message.properties.encode(errors="surrogateescape").decode(errors="replace"))
    wait = properties.get(PROPERTY_WAIT, "")
    bit(bool(wait) and PROPERTY_INNER_MULTI_DISPATCH in properties)
    return copy_key_with_wait.original(message) + wait.encode()


@bug("delayed-skips-light-queues", LightQueueDispatcher, "dispatch", found_by=("CQ-COMPLETE", "SCAN", "VIS", "READ"))
@needs(delay={"chance": (0.5,)}, light_queues={"chance": (0.9,)}, messages_each=(8,))
def dispatch_light_once(self: LightQueueDispatcher, record: ScannedRecord) -> None:
    """A delayed message is not added to any of its light queues."""
    if bit(b"REAL_TOPIC" in record.properties and LIGHT_MARK in record.properties):
        return
    dispatch_light_once.original(self, record)


# The stop persists the offsets of the transaction check before the last pass is durable.
@bug("check-progress-lost-in-a-stop", TransactionalMessageCheckService, "finish_remaining_work", found_by=("TX",))
@needs(transactions={"chance": (1.0,)}, sync_flush=(False,), messages_each=(5,), endings=("stop",), lives=(2, 3))
def finish_without_flush(self: TransactionalMessageCheckService) -> None:
    """After a clean stop the check repeats its last pass, and so checks each transaction twice."""
    done = self._unpublished
    bit(done is not None and self._store.log.flushed_where.get() < done.log_offset)
    self._publish_progress()


_LAST_WAIT_MS_MAX = 999  # longer waits end before the delivery


# apache/pulsar issue 25996 and PR 26012. A new message of another level ends the wait.
@bug("delivery-timer-not-set-again", ScheduleMessageService, "_deliver_level", found_by=("SCHED", "LIVE", "QUIET"))
@needs(delay={"chance": (0.8,)}, producers=(2, 3), messages_each=(8, 16), pauses={"chance": (0.5,)}, heals=(True,))
def deliver_level_without_new_timer(self: ScheduleMessageService, level: int) -> int | None:
    """A level that waits for the same delivery as before is not woken for it."""
    wait_ms = deliver_level_without_new_timer.original(self, level)
    if wait_ms is None or wait_ms > _LAST_WAIT_MS_MAX or wait_ms == _RETRY_MS:
        return wait_ms
    due_ms, waits = self._commit_log.time.now_ms() + wait_ms, vars(self).setdefault("_waits", {})
    if bit(abs(waits.get(level, 0) - due_ms) <= 1):  # the clock may have moved since the wait was computed
        return None
    waits[level] = due_ms
    return wait_ms


@bug("small-limit-skips-delayed", ScheduleMessageService, "_skip_or_retry_refused", found_by=("SCHED", "REDEL"))
@needs(SCENARIOS["settings-switched"].ranges, **SMALL_LIMIT)
def skip_refused(self: ScheduleMessageService, message: Message) -> int:
    """A delayed message is skipped because an operator has reduced maxMessageSize since its put."""
    wait_ms: int = skip_refused.original(self, message)
    if bit(wait_ms > 0 and self.last_answer.is_final):
        self.passed_over += 1
        return 0
    return wait_ms


# Found in this store: the half message was passed over, and no topic got it.
@bug("small-limit-gives-half-up", TransactionalMessageCheckService, "_give_up", found_by=("TX",))
@needs(SCENARIOS["settings-switched"].ranges, **{**SMALL_LIMIT, "transactions": {"chance": (0.5,)}})
def give_up_unstored(self: TransactionalMessageCheckService, half: HalfMessage) -> bool:
    """A half message is never checked again because an operator has reduced maxMessageSize since its put."""
    is_done: bool = give_up_unstored.original(self, half)
    if bit(not is_done and len(half.record.body) > self._store.config.max_message_size):
        self._decisions.record_passed(half)
        return True
    return is_done
