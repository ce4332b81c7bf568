"""Transaction check: asks producer groups for the decisions they owe. RocketMQ's TransactionalMessageCheckService.

Each pass goes through the half queue from where the last one ended. A half message that an op decided is done with; one
whose time has come is put back at the end of the queue and asked about; one too young ends the pass, for those behind
it are younger. A half message is only passed once it is decided, put back or given up, so none is forgotten.

How far both queues are done with is kept as offsets of a consumer group, but only what is in the durable part of the
log counts: progress that outlived the record that was put back would be a transaction that is never asked about again.

The clock is read once for each judgement, by the caller: an age that grows while it is judged passes between two rules.
Source: RocketMQ TransactionalMessageServiceImpl.check, isNeedDiscard, isNeedSkip, getImmunityTime.
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
    again,
    decision,
    put_back,
)
from ..formats.host import Host
from ..formats.message import MessageRecord
from ..formats.messages import LOOPBACK_BROKER, AppendMessageResult, Message, PutMessageResult
from ..marks import hit
from ..message_store import MessageStore
from ..service import Service, do_nothing
from ..world import World
from .consumer_offsets import ConsumerOffsetManager
from .transaction_queues import Decisions, OpQueue, pull_from

CHECK_GROUP = "CID_RMQ_SYS_TRANS"
"""The consumer group whose offsets are the progress of the check."""

_PASS_MS_MAX = 60_000  # RocketMQ TransactionalMessageServiceImpl.MAX_PROCESS_TIME_LIMIT
_COMMIT_MS_MAX = 5_000
"""How long a pass waits for what is in a buffer to be committed before it asks about it."""
_LOOK_MS = 20
_HOUR_MS = 3_600_000


class _Progress(NamedTuple):
    """How far both queues are done with, and how much of the log that rests upon."""

    half_offset: int
    op_offset: int
    log_offset: int


@dataclass(frozen=True, slots=True)
class TransactionConfig:
    """Settings of transactions, with RocketMQ's defaults."""

    transaction_timeout_ms: int = 6_000
    """How old a half message is before its producer group is asked (transactionTimeOut)."""
    transaction_check_max: int = 15
    """How often it is asked before the half message is given up (transactionCheckMax)."""
    transaction_check_interval_ms: int = 60_000
    """How long after a pass the next one begins (transactionCheckInterval)."""
    store_host: Host = LOOPBACK_BROKER
    """The broker's address, which its own op messages come from."""


class TransactionalMessageCheckService(Service):
    """One task that makes a pass every so often."""

    name = "transaction check"

    def __init__(
        self,
        world: World,
        store: MessageStore,
        offsets: ConsumerOffsetManager,
        config: TransactionConfig,
        decisions: Decisions,
    ) -> None:
        super().__init__(world)
        self.on_check: Callable[[MessageRecord], None] = do_nothing
        """Called with each half message whose producer group is to be asked, as it was put back."""
        self.last_error: Exception | None = None
        """What ended a pass early, or what `on_check` raised, last."""
        self.config = config
        self._store = store
        self._offsets = offsets
        self._decisions = decisions
        self._ops: OpQueue | None = None
        self._half_offset = 0
        """The first half message that is not done with."""
        self._own_from = -1
        """Half messages from here on were put in this life, so all of them that were put back are known."""
        self._unpublished: _Progress | None = None
        self._questions: list[MessageRecord] = []
        """What this pass has put back to be asked about, and no look-up can find yet: it is in a buffer of the pool."""
        self._put_end = 0
        """Log offset behind what was put last; with a transient pool further than readers may see."""

    # -- life --------------------------------------------------------------------------------------

    def use(self, config: TransactionConfig) -> None:
        """Go on with other settings."""
        self.config = config

    def start(self) -> None:
        """Begin to make passes. What is put from now on is of this life."""
        self._own_from = self._half_end()
        super().start()

    def _half_end(self) -> int:
        return self._store.get_max_offset_in_queue(HALF_TOPIC, QUEUE_ID)

    def step(self) -> None:
        """Wait one interval, then make a pass; survive what the disk does to it."""
        self.signal.wait(self.config.transaction_check_interval_ms)
        if self.is_stopping:
            return
        try:
            self.check()
        except (StoreError, OSError) as error:
            self.last_error = error

    def finish(self) -> None:
        """Publish the progress of the last pass, after the log that it rests upon has become durable.

        The offsets are persisted before the store stops: without the flush here a clean stop would lose this progress,
        and the next life would ask the same questions again.
        """
        done = self._unpublished
        if done is not None:
            self._wait_committed(done.log_offset)
            self._store.flush.flush_to(done.log_offset)
        self._publish()

    # -- one pass ----------------------------------------------------------------------------------

    def check(self) -> None:
        """Make one pass. One task at a time calls it. A slave makes none: its master does.

        Raises StoreError or OSError if the store cannot be read; what was done until then stays done.
        """
        if self._store.config.broker_role is BrokerRole.SLAVE:
            return
        self._publish()  # the log may have become durable since the last pass
        ops = self._ops
        if ops is None:
            ops = self._ops = self._begin()
        self._pay_owed()
        end = self._half_end()
        if end < self._half_offset:  # it was removed with what it led to, and has begun anew
            self._half_offset, self._own_from = end, min(self._own_from, end)
            self._decisions.clear()
        clock = self.world.clock
        begin_ns = clock.monotonic_ns()
        ops.read()
        try:
            for at, record in pull_from(self._store, HALF_TOPIC, self._half_offset, end):
                assert at < end, (at, end)  # behind it is what this pass has put back itself
                if record is not None and not self._deal_with(HalfMessage.of(record), ops):
                    break
                self._half_offset = at + 1
                if self.is_stopping or clock.monotonic_ns() - begin_ns > _PASS_MS_MAX * 1_000_000:
                    break
        except (StoreError, OSError):
            self._ask_the_rest()
            self._note_progress(ops)  # otherwise the next life repeats the questions before the error
            raise
        self._ask_the_rest()
        if self._half_offset >= self._own_from:
            with self._decisions.lock:
                ops.forget(self._is_settled)
                self._decisions.forget(self._is_settled, range(self._own_from, self._half_offset))
        self._note_progress(ops)

    def _note_progress(self, ops: OpQueue) -> None:
        """Note how far the pass has come, and publish that if the log that it rests upon is durable."""
        rests_on = max(self._store.max_phy_offset, self._put_end)
        self._unpublished = _Progress(self._half_offset, ops.needed_from, rests_on)
        self._publish()

    def _begin(self) -> OpQueue:
        """Take up the progress of earlier lives."""
        self._half_offset = self._progress_in(HALF_TOPIC)
        if self._own_from < 0:
            self._own_from = self._half_end()
        return OpQueue(self._store, self._progress_in(OP_TOPIC))

    def _progress_in(self, topic: str) -> int:
        offset = self._offsets.query_offset(CHECK_GROUP, topic, QUEUE_ID)
        return offset if offset >= 0 else max(self._store.get_min_offset_in_queue(topic, QUEUE_ID), 0)

    def _is_settled(self, half_offset: int) -> bool:
        """Return whether the check cannot come upon the half message that was once at an offset, if any was."""
        if half_offset < self._half_offset:
            return not self._decisions.is_put_back(half_offset)
        # Behind the end of what was put, not of what is dispatched: who was answered may decide before dispatch.
        return half_offset >= self._store.commit_log.topic_queue_table.get((HALF_TOPIC, QUEUE_ID), 0)

    def _publish(self) -> None:
        """Keep the progress of the last pass for later lives, if what it rests upon is durable."""
        done = self._unpublished
        if done is None or self._store.log.flushed_where.get() < done.log_offset:
            return
        self._unpublished = None
        # In this order: whoever reads between the two finds more ops than it needs, not fewer.
        for topic, offset in ((HALF_TOPIC, done.half_offset), (OP_TOPIC, done.op_offset)):
            if self._progress_in(topic) != offset:
                self._offsets.commit_offset(CHECK_GROUP, topic, QUEUE_ID, offset)

    def _pay_owed(self) -> None:
        for half_offset in self._decisions.owed():
            hit("op owed")
            message = decision(half_offset, self.world.clock.now_ms(), self.config.store_host)
            append = self._store.put_message(message).append
            if append is not None:
                self._decisions.op_stored(half_offset, append.queue_offset)

    # -- one half message --------------------------------------------------------------------------

    def _deal_with(self, half: HalfMessage, ops: OpQueue) -> bool:
        """Do what a half message needs; return whether the pass may go on behind it."""
        asked: MessageRecord | None = None
        decisions = self._decisions
        with decisions.lock:
            if decisions.is_hidden(half, self._store.get_max_offset_in_queue(OP_TOPIC, QUEUE_ID)):
                return False
            if not ops.is_decided(half):
                ops.read()  # a decision may have come since the pass began; the lock keeps out further ones
            if ops.is_decided(half) or self._has_expired(half):
                decisions.was_passed(half)
                return True
            reserved_ms = self._store.config.file_reserved_time_hours * _HOUR_MS
            judged = verdict(half, self.world.clock.now_ms(), self.config, reserved_ms)
            if judged is HalfMessageVerdict.TOO_YOUNG:
                return False
            if judged is HalfMessageVerdict.HOPELESS:
                return self._give_up(half)
            message = put_back(half, asked=judged is HalfMessageVerdict.DUE)
            result = self._put_again(message, again(half, HALF_TOPIC, {}))
            if result.status.is_final:
                return self._give_up(half)
            append = result.append
            if append is None:
                return False
            hit("half message put back")
            decisions.was_put_back(half, append.queue_offset)
            if judged is HalfMessageVerdict.DUE:
                asked = _placed(half.record, message, append)
        if asked is not None:
            self._ask(asked)
        return True

    def _has_expired(self, half: HalfMessage) -> bool:
        """Return whether a half message has left the log since it was read: the op behind it may have left it, too."""
        return half.record.physical_offset < self._store.min_phy_offset

    def _give_up(self, half: HalfMessage) -> bool:
        """Move a half message out of the way; False if that has to be tried again."""
        result = self._put(again(half, GIVEN_UP_TOPIC, {}))
        if not result.is_stored and not result.status.is_final:
            return False
        hit("half message given up")
        self._decisions.was_passed(half)
        self._decisions.was_given_up(half)
        return True

    def _put_again(self, message: Message, as_it_was: Message) -> PutMessageResult:
        """Put a message, or if it has become too long, another in its place.

        Neither fits any more if the limits have shrunk since, or a disk has made bytes of it no UTF-8, which then take
        more room.
        """
        result = self._put(message)
        return self._put(as_it_was) if result.status.is_final else result

    def _put(self, message: Message) -> PutMessageResult:
        result = self._store.put_message(message)
        if result.append is not None:
            self._put_end = result.append.wrote_offset + result.append.wrote_bytes
        return result

    def _ask(self, record: MessageRecord) -> None:
        """Ask about a record once a look-up finds it: an answer may come at once.

        Under SYNC_FLUSH that is when it is durable. Behind a pool it is when its buffer was committed, for which all
        questions of a pass wait together.
        """
        self._store.flush.wait_durable(_end_of(record), wait=True)
        if self._is_in_file(record):
            self._put_question(record)
        else:
            self._questions.append(record)

    def _ask_the_rest(self) -> None:
        clock = self.world.clock
        due_ns = clock.monotonic_ns() + _COMMIT_MS_MAX * 1_000_000
        questions, self._questions = self._questions, []
        for record in questions:
            while not self._is_in_file(record) and not self.is_stopping and clock.monotonic_ns() < due_ns:
                self.signal.wait(_LOOK_MS)
            self._put_question(record)

    def _wait_committed(self, log_offset: int) -> None:
        """Wait until the log is in its files up to an offset, for a while at most."""
        clock = self.world.clock
        due_ns = clock.monotonic_ns() + _COMMIT_MS_MAX * 1_000_000
        while self._store.max_phy_offset < log_offset and clock.monotonic_ns() < due_ns:
            self.signal.wait(_LOOK_MS)

    def _is_in_file(self, record: MessageRecord) -> bool:
        return self._store.commit is None or self._store.max_phy_offset >= _end_of(record)

    def _put_question(self, record: MessageRecord) -> None:
        try:
            self.on_check(record)
        except Exception as error:  # its own matter: the half message comes up again
            self.last_error = error


def _end_of(record: MessageRecord) -> int:
    return record.physical_offset + record.size_bytes


def _placed(record: MessageRecord, message: Message, append: AppendMessageResult) -> MessageRecord:
    return replace(
        record,
        size_bytes=append.wrote_bytes,
        queue_offset=append.queue_offset,
        physical_offset=append.wrote_offset,
        store_timestamp_ms=append.store_timestamp_ms,
        properties=message.properties,
    )


class HalfMessageVerdict(Enum):
    """What is to be done with an undecided half message."""

    TOO_YOUNG = "leave it, and all behind it, to a later pass"
    IMMUNE = "put it back without asking"
    DUE = "put it back and ask"
    HOPELESS = "give it up"


def verdict(half: HalfMessage, now_ms: int, config: TransactionConfig, reserved_ms: int) -> HalfMessageVerdict:
    """Judge an undecided half message at one moment. reserved_ms: how long the store keeps messages."""
    # One age for all rules: with two clock readings a half message could fall between immunity and timeout.
    age_ms = now_ms - half.record.born_timestamp_ms
    if half.check_times >= config.transaction_check_max or age_ms > reserved_ms:
        return HalfMessageVerdict.HOPELESS
    if half.immunity_ms is not None:
        # Nobody waits for a time of birth further ahead than that: a copy of the message would be put with each pass.
        is_immune = -half.immunity_ms <= age_ms < half.immunity_ms
        return HalfMessageVerdict.IMMUNE if is_immune else HalfMessageVerdict.DUE
    is_young = 0 <= age_ms < config.transaction_timeout_ms
    return HalfMessageVerdict.TOO_YOUNG if is_young else HalfMessageVerdict.DUE
