"""Transaction service: prepares half messages and executes the producers' decisions.

    transactions = TransactionalMessageService(world, store, offsets)
    transactions.on_check = ask_the_producer_group
    transactions.start()
    half = transactions.prepare(message).append
    transactions.commit(EndTransaction("group", half.queue_offset, half.wrote_offset))
    transactions.shutdown()  # before the store

A commit stores the message first, and then the op message that ends the half message. After a crash between the two
writes, the check asks again, and a second commit stores the message again. So consumers can receive a message twice,
but no message is lost.
Source: RocketMQ TransactionalMessageService, EndTransactionProcessor.
"""

from collections.abc import Callable
from dataclasses import replace
from enum import Enum
from typing import NamedTuple

from ..config import BrokerRole
from ..errors import StoreError
from ..formats.half_message import (
    GIVEN_UP_TOPIC,
    HALF_TOPIC,
    OP_TOPIC,
    QUEUE_ID,
    EndTransaction,
    HalfMessage,
    committed_message_of,
    first_offset_of,
    half_message_of,
    longest_later_forms,
    op_message,
    resumed_message,
)
from ..formats.host import encode_message_id
from ..formats.message import MessageRecord
from ..formats.messages import Message, PutMessageResult, PutMessageStatus
from ..formats.properties import PROPERTY_PGROUP, PROPERTY_UNIQ_KEY
from ..log.put_wait import PutWait, wait_for_answer
from ..message_store import MessageStore
from ..world import World
from .consumer_offsets import ConsumerOffsetManager
from .transaction_check import TransactionalMessageCheckService, TransactionConfig
from .transaction_queues import TransactionDecisions


class EndTransactionStatus(Enum):
    """Status of a decision. The value is RocketMQ's remark, if there is one."""

    DECIDED = "decided"
    ALREADY_DECIDED = "the transaction is already decided"
    PREPARED_NOT_FOUND = "Find prepared transaction message failed"
    PRODUCER_GROUP_WRONG = "The producer group wrong"
    TRAN_STATE_TABLE_OFFSET_WRONG = "The transaction state table offset wrong"
    PUT_FAILED = "the message was not stored, so the transaction is still undecided"
    SLAVE_NOT_AVAILABLE = "Message store is slave mode, so end transaction is forbidden."


class EndTransactionResult(NamedTuple):
    """Result of a commit or rollback."""

    status: EndTransactionStatus
    put: PutMessageResult | None = None
    op_is_stored: bool = False
    """Whether the op is in the log. If not, the check retries the put. A crash before the retry undoes the decision."""


class TransactionalMessageService:
    """Prepares, commits and rolls back messages, and asks producers for missing decisions. Thread-safe."""

    def __init__(
        self, world: World, store: MessageStore, offsets: ConsumerOffsetManager, config: TransactionConfig | None = None
    ) -> None:
        self.config = config or TransactionConfig()
        self._world = world
        self._store = store
        self._decisions = TransactionDecisions(world)
        self.checker = TransactionalMessageCheckService(world, store, offsets, self.config, self._decisions)
        self.checker.on_failure = store.flags.service_failed

    @property
    def on_check(self) -> Callable[[MessageRecord], None]:
        """Asks a producer about a half message. `HalfMessage.from_record` parses the record.

        A decision may arrive during the call.
        """
        return self.checker.on_check

    @on_check.setter
    def on_check(self, listener: Callable[[MessageRecord], None]) -> None:
        self.checker.on_check = listener

    def set_config(self, config: TransactionConfig) -> None:
        self.config = config
        self.checker.set_config(config)

    def start(self) -> None:
        """Call this method after the store has started and `clamp_to_queues` has returned."""
        self.checker.start()

    def shutdown(self) -> None:
        """Call this method before the last write of the offsets and before the store stops."""
        self.checker.shutdown()

    def prepare(self, message: Message) -> PutMessageResult:
        """Store a half message, which consumers do not receive before its commit."""
        return wait_for_answer(self.begin_prepare(message))

    def begin_prepare(self, message: Message, on_known: Callable[[], None] | None = None) -> PutMessageResult | PutWait:
        """Begin a `prepare`. Return the result of `MessageStore.begin_put`.

        The result is MESSAGE_ILLEGAL or PROPERTIES_SIZE_EXCEEDED if a later commit or put-back would fail.
        """
        half = half_message_of(message)
        if half is None:
            return PutMessageResult(PutMessageStatus.MESSAGE_ILLEGAL)
        for form in longest_later_forms(message, half):
            encoded = self._store.commit_log.encoder.encode(form)
            if isinstance(encoded, PutMessageStatus):
                return PutMessageResult(encoded)
        return self._store.begin_put(half, on_known)

    def commit(self, request: EndTransaction) -> EndTransactionResult:
        """Store the message of a half message in its topic, then end the half message.

        Raises StoreNotReadableError if the store is not readable, as `rollback` does. After the error the half message
        is undecided.
        """
        half = self._claim_half_message(request)
        if isinstance(half, EndTransactionStatus):
            return EndTransactionResult(half)
        message = committed_message_of(half)
        try:
            put = None if message is None else self._store.put_message(message)
        except Exception:
            self._decisions.release_claim(half)
            raise
        if put is None or not put.is_stored:
            self._decisions.release_claim(half)
            return EndTransactionResult(EndTransactionStatus.PUT_FAILED, put)
        # Store the message first: a crash that kept only the op would end the transaction without delivery.
        return EndTransactionResult(EndTransactionStatus.DECIDED, put, self._put_ops(half))

    def rollback(self, request: EndTransaction) -> EndTransactionResult:
        """Store the op of a half message without a delivery."""
        half = self._claim_half_message(request)
        if isinstance(half, EndTransactionStatus):
            return EndTransactionResult(half)
        return EndTransactionResult(EndTransactionStatus.DECIDED, None, self._put_ops(half))

    def resume(self, log_offset: int) -> str | None:
        """Resume the checks of a given-up half message. Return an error text, or None.

        Raises StoreNotReadableError if the store is not readable.
        """
        record = self._store.look_message_by_offset(log_offset)
        if record is None or record.topic != GIVEN_UP_TOPIC:
            return f"expected a message of {GIVEN_UP_TOPIC}"
        decisions = self._decisions
        with decisions.lock:
            first_offset = first_offset_of(record)
            if first_offset is not None and not decisions.is_given_up(first_offset):
                return "the transaction is decided, or its checks are still active"
            append = self._store.put_message(resumed_message(record)).append
            if append is None:
                return f"the message could not be stored in {HALF_TOPIC}"
            decisions.record_resumed(HalfMessage.from_record(replace(record, queue_offset=append.queue_offset)))
        return None

    def _claim_half_message(self, request: EndTransaction) -> HalfMessage | EndTransactionStatus:
        """Reserve the half message for a decision, or return the reason for a refusal."""
        if self._store.config.broker_role is BrokerRole.SLAVE:
            return EndTransactionStatus.SLAVE_NOT_AVAILABLE
        record = self._store.look_message_by_offset(request.commit_log_offset)
        if record is None or record.topic != HALF_TOPIC or record.queue_id != QUEUE_ID:
            return EndTransactionStatus.PREPARED_NOT_FOUND
        half = HalfMessage.from_record(record)
        if half.properties.get(PROPERTY_PGROUP) != request.producer_group:
            return EndTransactionStatus.PRODUCER_GROUP_WRONG
        if record.queue_offset != request.tran_state_table_offset:
            return EndTransactionStatus.TRAN_STATE_TABLE_OFFSET_WRONG
        # After a power cut, another half message can have the offsets of a lost one. RocketMQ would end that one.
        ids = half.properties.get(PROPERTY_UNIQ_KEY), encode_message_id(record.store_host, record.physical_offset)
        if ids[0] and request.message_ids and not set(ids) & set(request.message_ids):
            return EndTransactionStatus.PREPARED_NOT_FOUND
        visible_ops = self._store.get_max_offset_in_queue(OP_TOPIC, QUEUE_ID)
        return half if self._decisions.claim_half_message(half, visible_ops) else EndTransactionStatus.ALREADY_DECIDED

    def _put_ops(self, half: HalfMessage) -> bool:
        """Return whether all ops are stored."""
        ops = {offset: self._put_op(offset) for offset in half.offsets}
        self._decisions.record_decision(half, ops)
        return None not in ops.values()

    def _put_op(self, half_offset: int) -> int | None:
        message = op_message(half_offset, self._world.clock.now_ms(), self.config.store_host)
        try:
            append = self._store.put_message(message).append
        except (StoreError, OSError):
            return None
        return None if append is None else append.queue_offset
