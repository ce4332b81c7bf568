"""Transaction check: asks producer groups for the state of undecided half messages.

Each pass reads the half queue from the end of the last pass. A half message with an op message is decided, so the pass
skips it. If an undecided half message is old enough, the check appends a copy to the half queue ("puts it back") and
asks the producer group. If a half message is too young, the pass ends, because all later messages are younger. The
check moves past a half message only after the message is decided, put back or given up.

The check stores its progress as consumer offsets of the half queue and the op queue, after the log is durable up to the
last copy. If it stored the progress earlier, a crash could lose the copy but keep the progress. The check would then
never ask about the transaction again.
Source: RocketMQ TransactionalMessageCheckService, TransactionalMessageServiceImpl.check, isNeedDiscard, isNeedSkip,
getImmunityTime.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum
from typing import NamedTuple

from ..config import BrokerRole
from ..errors import StoreError
from ..formats.half_message import (
    GIVEN_UP_TOPIC,
    HALF_TOPIC,
    OP_TOPIC,
    QUEUE_ID,
    HalfMessage,
    copy_half_message,
    op_message,
    put_back_message,
)
from ..formats.host import Host
from ..formats.message import MessageRecord
from ..formats.messages import LOOPBACK_BROKER, AppendMessageResult, Message, PutMessageResult
from ..marks import count_mark
from ..message_store import MessageStore
from ..service import Service, do_nothing
from ..world import World
from .consumer_offsets import ConsumerOffsetManager
from .transaction_queues import OpQueue, TransactionDecisions, pull_from

CHECK_GROUP = "CID_RMQ_SYS_TRANS"
"""The offsets of this consumer group store the progress of the check."""

_PASS_MS_MAX = 60_000  # RocketMQ TransactionalMessageServiceImpl.MAX_PROCESS_TIME_LIMIT
_COMMIT_MS_MAX = 5_000
"""Maximum time that a pass waits for the commit of buffered records, and for syncs."""
_POLL_MS = 20
_HOUR_MS = 3_600_000


class _CheckProgress(NamedTuple):
    """Offsets to store for the half queue and the op queue after the log is durable up to `log_offset`."""

    half_offset: int
    op_offset: int
    log_offset: int


@dataclass(frozen=True, slots=True)
class TransactionConfig:
    """Transaction settings with RocketMQ's defaults."""

    transaction_timeout_ms: int = 6_000
    """Age of a half message at its first check (transactionTimeOut)."""
    transaction_check_max: int = 15
    """Maximum number of checks of one half message (transactionCheckMax)."""
    transaction_check_interval_ms: int = 60_000
    """Time between two passes (transactionCheckInterval)."""
    store_host: Host = LOOPBACK_BROKER
    """The broker's address, stored in op messages."""


class TransactionalMessageCheckService(Service):
    """Makes one pass over the half queue per interval."""

    name = "transaction check"

    def __init__(
        self,
        world: World,
        store: MessageStore,
        offsets: ConsumerOffsetManager,
        config: TransactionConfig,
        decisions: TransactionDecisions,
    ) -> None:
        super().__init__(world)
        self.on_check: Callable[[MessageRecord], None] = do_nothing
        """Asks a producer group about the new copy of a half message."""
        self.last_error: Exception | None = None
        self.config = config
        self._store = store
        self._offsets = offsets
        self._decisions = decisions
        self._ops: OpQueue | None = None
        self._half_offset = 0
        """Queue offset of the first half message that the check has not passed."""
        self._own_from = -1
        """End offset of the half queue at the start. `_decisions` contains every later copy."""
        self._unpublished: _CheckProgress | None = None
        self._questions: list[MessageRecord] = []
        """Copies of this pass that a look-up cannot find yet."""
        self._put_end = 0
        """Log offset after the last put. With a transient pool, it can be after the end of the readable log."""

    def set_config(self, config: TransactionConfig) -> None:
        self.config = config

    def start(self) -> None:
        """Record the end of the half queue. Later half messages belong to this process run."""
        self._own_from = self._half_queue_end()
        super().start()

    def _half_queue_end(self) -> int:
        return self._store.get_max_offset_in_queue(HALF_TOPIC, QUEUE_ID)

    def run_once(self) -> None:
        """A disk error ends the pass but not the task."""
        self.signal.wait(self.config.transaction_check_interval_ms)
        if self.is_stopping:
            return
        try:
            self.check_half_messages()
        except (StoreError, OSError) as error:
            self.last_error = error

    def finish_remaining_work(self) -> None:
        """Make the log durable, then store the progress of the last pass as consumer offsets.

        The broker writes consumer offsets before the store stops. Without this flush a clean stop would lose the
        progress, and the next process run would ask the producers again.
        """
        done = self._unpublished
        if done is not None:
            self._wait_committed(done.log_offset)
            self._store.flush.flush_to(done.log_offset)
        self._publish_progress()

    def check_half_messages(self) -> None:
        """Make one pass, but not on a slave, because its master checks. Not thread-safe.

        Raises StoreError or OSError if the store is not readable. The check keeps the progress made before the error.
        """
        if self._store.config.broker_role is BrokerRole.SLAVE:
            return
        self._publish_progress()  # the log may have become durable since the last pass
        ops = self._ops
        if ops is None:
            ops = self._ops = self._continue_from_progress()
        self._store_missing_ops()
        end = self._half_queue_end()
        if end < self._half_offset:  # the half queue was removed and created again
            self._half_offset, self._own_from = end, min(self._own_from, end)
            self._decisions.clear()
        clock = self.world.clock
        begin_ns = clock.monotonic_ns()
        ops.read()
        try:
            for at, record in pull_from(self._store, HALF_TOPIC, self._half_offset, end):
                assert at < end, (at, end)  # records after `end` were put back by this pass
                if record is not None and not self._check_half_message(HalfMessage.from_record(record), ops):
                    break
                self._half_offset = at + 1
                if self.is_stopping or clock.monotonic_ns() - begin_ns > _PASS_MS_MAX * 1_000_000:
                    break
        except (StoreError, OSError):
            self._ask_late_questions()
            self._record_progress(ops)  # otherwise the next process run would ask these producers again
            raise
        self._ask_late_questions()
        if self._half_offset >= self._own_from:
            with self._decisions.lock:
                ops.forget_settled(self._is_settled)
                self._decisions.forget_settled(self._is_settled, range(self._own_from, self._half_offset))
        self._record_progress(ops)

    def _record_progress(self, ops: OpQueue) -> None:
        required_log_offset = max(self._store.max_phy_offset, self._put_end)
        self._unpublished = _CheckProgress(self._half_offset, ops.first_needed_offset, required_log_offset)
        self._publish_progress()

    def _continue_from_progress(self) -> OpQueue:
        self._half_offset = self._read_progress_of(HALF_TOPIC)
        if self._own_from < 0:
            self._own_from = self._half_queue_end()
        return OpQueue(self._store, self._read_progress_of(OP_TOPIC))

    def _read_progress_of(self, topic: str) -> int:
        offset = self._offsets.query_offset(CHECK_GROUP, topic, QUEUE_ID)
        return offset if offset >= 0 else max(self._store.get_min_offset_in_queue(topic, QUEUE_ID), 0)

    def _is_settled(self, half_offset: int) -> bool:
        """Return whether the check can no longer find the half message first stored at this offset."""
        if half_offset < self._half_offset:
            return not self._decisions.is_put_back(half_offset)
        # The queue table includes undispatched half messages, which a producer can already decide.
        return half_offset >= self._store.commit_log.topic_queue_table.get((HALF_TOPIC, QUEUE_ID), 0)

    def _publish_progress(self) -> None:
        done = self._unpublished
        if done is None or self._store.log.flushed_where.get() < done.log_offset:
            return
        self._unpublished = None
        # Commit the half offset first, so that a reader between the two commits reads too many ops, not too few.
        for topic, offset in ((HALF_TOPIC, done.half_offset), (OP_TOPIC, done.op_offset)):
            if self._read_progress_of(topic) != offset:
                self._offsets.commit_offset(CHECK_GROUP, topic, QUEUE_ID, offset)

    def _store_missing_ops(self) -> None:
        for half_offset in self._decisions.decisions_without_op():
            count_mark("op message stored late")
            message = op_message(half_offset, self.world.clock.now_ms(), self.config.store_host)
            append = self._store.put_message(message).append
            if append is not None:
                self._decisions.record_op_stored(half_offset, append.queue_offset)

    def _check_half_message(self, half: HalfMessage, ops: OpQueue) -> bool:
        """Return whether the pass may continue."""
        asked: MessageRecord | None = None
        decisions = self._decisions
        with decisions.lock:
            if decisions.is_hidden(half, self._store.get_max_offset_in_queue(OP_TOPIC, QUEUE_ID)):
                return False
            if not ops.is_decided(half):
                ops.read()  # a decision may have arrived since the pass began; the lock prevents later decisions
            if ops.is_decided(half) or self._has_expired(half):
                decisions.record_passed(half)
                return True
            reserved_ms = self._store.config.file_reserved_time_hours * _HOUR_MS
            judged = verdict_on(half, self.world.clock.now_ms(), self.config, reserved_ms)
            if judged is HalfMessageVerdict.TOO_YOUNG:
                return False
            if judged is HalfMessageVerdict.GIVE_UP:
                return self._give_up(half)
            message = put_back_message(half, asked=judged is HalfMessageVerdict.DUE)
            result = self._put_or_unchanged(message, copy_half_message(half, HALF_TOPIC, {}))
            if result.status.is_final:
                return self._give_up(half)
            append = result.append
            if append is None:
                return False
            count_mark("half message put back")
            decisions.record_put_back(half, append.queue_offset)
            if judged is HalfMessageVerdict.DUE:
                asked = _record_as_stored(half.record, message, append)
        if asked is not None:
            self._ask_producer(asked)
        return True

    def _has_expired(self, half: HalfMessage) -> bool:
        """Return whether retention has deleted the half message since the check read it."""
        return half.record.physical_offset < self._store.min_phy_offset

    def _give_up(self, half: HalfMessage) -> bool:
        """Move a half message to the given-up topic. Return False if a later pass must retry.

        A too long body is retried, because a later start may raise a reduced size limit again. Any other final refusal
        is due to corruption on the disk.
        """
        result = self._put_and_track_end(copy_half_message(half, GIVEN_UP_TOPIC, {}))
        may_fit_later = len(half.record.body) > self._store.config.max_message_size
        if not result.is_stored and (may_fit_later or not result.status.is_final):
            return False
        count_mark("half message given up")
        self._decisions.record_passed(half)
        self._decisions.record_given_up(half)
        return True

    def _put_or_unchanged(self, message: Message, unchanged: Message) -> PutMessageResult:
        """Put a message, or the unchanged half message if the first message is too long.

        A message can become too long after an operator reduces a limit, or if replacement characters for invalid UTF-8
        need more space.
        """
        result = self._put_and_track_end(message)
        return self._put_and_track_end(unchanged) if result.status.is_final else result

    def _put_and_track_end(self, message: Message) -> PutMessageResult:
        result = self._store.put_message(message)
        if result.append is not None:
            self._put_end = result.append.wrote_offset + result.append.wrote_bytes
        return result

    def _ask_producer(self, record: MessageRecord) -> None:
        """Ask the producer about a record that a look-up can find, because the producer may answer at once.

        Under SYNC_FLUSH only durable records can be found. If the record is still in a buffer of the pool, or its sync
        takes longer than syncFlushTimeout, the check asks at the end of the pass.
        """
        self._store.flush.wait_durable(_record_end(record), wait=True)
        if self._is_readable(record):
            self._put_question(record)
        else:
            self._questions.append(record)

    def _ask_late_questions(self) -> None:
        clock = self.world.clock
        due_ns = clock.monotonic_ns() + _COMMIT_MS_MAX * 1_000_000
        questions, self._questions = self._questions, []
        for record in questions:
            while not self._is_readable(record) and not self.is_stopping and clock.monotonic_ns() < due_ns:
                self.signal.wait(_POLL_MS)
            self._put_question(record)

    def _wait_committed(self, log_offset: int) -> None:
        clock = self.world.clock
        due_ns = clock.monotonic_ns() + _COMMIT_MS_MAX * 1_000_000
        while self._store.max_phy_offset < log_offset and clock.monotonic_ns() < due_ns:
            self.signal.wait(_POLL_MS)

    def _is_readable(self, record: MessageRecord) -> bool:
        return self._store.dispatch.readable_limit() >= _record_end(record)

    def _put_question(self, record: MessageRecord) -> None:
        try:
            self.on_check(record)
        except Exception as error:  # a later pass reads the copy and asks again
            self.last_error = error


def _record_end(record: MessageRecord) -> int:
    return record.physical_offset + record.size_bytes


def _record_as_stored(record: MessageRecord, message: Message, append: AppendMessageResult) -> MessageRecord:
    return replace(
        record,
        size_bytes=append.wrote_bytes,
        queue_offset=append.queue_offset,
        physical_offset=append.wrote_offset,
        store_timestamp_ms=append.store_timestamp_ms,
        properties=message.properties,
    )


class HalfMessageVerdict(Enum):
    """The action of a pass for an undecided half message."""

    TOO_YOUNG = "leave it and all later half messages to a later pass"
    IMMUNE = "put it back without asking"
    DUE = "put it back and ask"
    GIVE_UP = "give it up"


def verdict_on(half: HalfMessage, now_ms: int, config: TransactionConfig, reserved_ms: int) -> HalfMessageVerdict:
    """Return the action for a half message. The store deletes messages older than `reserved_ms`."""
    # Read the clock once: with two readings a half message could be past its immunity but before its timeout.
    age_ms = now_ms - half.record.born_timestamp_ms
    if half.check_times >= config.transaction_check_max or age_ms > reserved_ms:
        return HalfMessageVerdict.GIVE_UP
    if half.immunity_ms is not None:
        # A born time far in the future gives no immunity. With immunity, each pass would put back one more copy.
        is_immune = -half.immunity_ms <= age_ms < half.immunity_ms
        return HalfMessageVerdict.IMMUNE if is_immune else HalfMessageVerdict.DUE
    is_young = 0 <= age_ms < config.transaction_timeout_ms
    return HalfMessageVerdict.TOO_YOUNG if is_young else HalfMessageVerdict.DUE
