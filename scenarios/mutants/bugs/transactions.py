"""Bugs of transactions: op messages, the numbers of questions, and the progress of the check."""

from dataclasses import replace

from ....store.errors import StoreError
from ....store.formats import half_message
from ....store.formats.delay_level import delay_level
from ....store.formats.half_message import (
    GIVEN_UP_TOPIC,
    HALF_TOPIC,
    OP_TOPIC,
    QUEUE_ID,
    EndTransaction,
    HalfMessage,
    committed_message_of,
)
from ....store.formats.host import Host
from ....store.formats.messages import Message, PutMessageStatus
from ....store.formats.properties import decode_properties, map_buckets, rebuild_properties
from ....store.services import transaction_check, transaction_service
from ....store.services.transaction_check import (
    HalfMessageVerdict,
    TransactionalMessageCheckService,
    TransactionConfig,
    verdict_on,
)
from ....store.services.transaction_queues import _IN_FLIGHT, OpQueue, TransactionDecisions
from ....store.services.transaction_service import (
    EndTransactionResult,
    EndTransactionStatus,
    TransactionalMessageService,
)
from ...claims.catalogue import SCENARIOS
from ...claims.catalogue.brokers import BROKER
from ...claims.catalogue.delivery import DELAYED_COMMITS, FORWARDED
from ...claims.machine import RESERVED_HOURS
from ...claims.ranges import Ranges
from ...oracle.ledger import CHECK_PROPERTIES
from ..mutant import bit, bug, needs

_HOUR_MS = 3_600_000
_Claim = HalfMessage | EndTransactionStatus
_ASKED = Ranges(
    transactions={"chance": (1.0,)},
    messages_each=(5, 10),
    pauses={"chance": (0.5,), "ms_max": (300,)},
    endings=("stop", "crash at rest"),
    lives=(1, 2),
)


def _put_one_op(self: TransactionalMessageService, half: HalfMessage, half_offset: int) -> bool:
    """Store one op, as if the others were stored."""
    bit(len(half.offsets) > 1)
    stored = self._put_op(half_offset)
    self._decisions.record_decision(half, dict.fromkeys(half.offsets, stored))
    return stored is not None


# If a crash undoes the progress of the check, the next check begins at the first record, and puts it back again.
@bug("op-for-newest-copy-only", TransactionalMessageService, "_put_ops", found_by=("TX",))
@needs(_ASKED)
def put_newest_op(self: TransactionalMessageService, half: HalfMessage) -> bool:
    """A decision about a half message that was put back leaves its first record without an op."""
    return _put_one_op(self, half, half.record.queue_offset)


@bug("op-for-first-record-only", TransactionalMessageService, "_put_ops", found_by=("TX",))
@needs(_ASKED)
def put_first_op(self: TransactionalMessageService, half: HalfMessage) -> bool:
    """A decision about a half message that was put back leaves its newest copy without an op."""
    return _put_one_op(self, half, half.first_offset)


# RocketMQ asks at once about a half message with a born time in the future.
@bug("future-half-stops-check", transaction_check, "verdict_on", found_by=("TX", "QUIET", "LIVE"))
@needs(_ASKED, transactions={"chance": (1.0,), "clock_ahead_ms": (_HOUR_MS,)}, heals=(True,))
def wait_until_born(half: HalfMessage, now_ms: int, config: TransactionConfig, reserved_ms: int) -> HalfMessageVerdict:
    """A half message with a born time in the future is too young for a check, and so are all later ones."""
    verdict = verdict_on(half, now_ms, config, reserved_ms)
    is_from_future = now_ms < half.record.born_timestamp_ms and half.immunity_ms is None
    return HalfMessageVerdict.TOO_YOUNG if bit(is_from_future and verdict is HalfMessageVerdict.DUE) else verdict


@bug("op-born-in-1970", (transaction_check, transaction_service), "op_message", found_by=("PREFIX",))
@needs(_ASKED)
def op_without_time(half_offset: int, born_timestamp_ms: int, store_host: Host) -> Message:
    """Op messages have no born time."""
    bit(born_timestamp_ms > 0)
    return half_message.op_message(half_offset, 0, store_host)


@bug("op-keeps-no-wait", (transaction_check, transaction_service), "op_message", found_by=("PREFIX",))
@needs(_ASKED)
def op_with_other_properties(half_offset: int, born_timestamp_ms: int, store_host: Host) -> Message:
    """The properties of op messages are not those of RocketMQ."""
    bit()
    made = half_message.op_message(half_offset, born_timestamp_ms, store_host)
    return replace(made, properties=made.properties.replace("true", "false"))


# The transaction is given up after fewer questions than its producer group may expect.
@bug("immune-half-counts-as-checked", transaction_check, "put_back_message", found_by=("TX",))
@needs(_ASKED)
def count_every_copy(half: HalfMessage, *, asked: bool) -> Message:
    """A half message that is put back during its immunity counts as asked about."""
    bit(not asked)
    return half_message.put_back_message(half, asked=True)


# After a crash or a stop before the next pass, the message is no longer checked.
@bug("half-progress-one-too-far", TransactionalMessageCheckService, "_record_progress", found_by=("TX",))
@needs(_ASKED)
def record_one_more(self: TransactionalMessageCheckService, ops: OpQueue) -> None:
    """The stored progress of the check covers a half message that is too young to be asked about."""
    passed = self._half_offset
    self._half_offset += bit(passed < self._half_queue_end())
    try:
        record_one_more.original(self, ops)
    finally:
        self._half_offset = passed


@bug("op-progress-too-far", OpQueue, "first_needed_offset", found_by=("TX",))
@needs(_ASKED)
def end_of_reads(self: OpQueue) -> int:
    """The stored progress in the op queue covers ops of half messages that the check has not reached."""
    bit(bool(self._ops))
    return self._read_to


# RocketMQ's EndTransactionProcessor accepts FLUSH_DISK_TIMEOUT and FLUSH_SLAVE_TIMEOUT, too.
@bug("late-commit-undecided", TransactionalMessageService, "commit", found_by=("TX",))
@needs(
    sync_flush=(True,),
    transactions={"chance": (0.5,)},
    messages_each=(5, 10),
    flush={"sync_timeout_ms": (1000,)},
    faults={"slow_sync_chance": (0.3,)},
)
def commit_if_in_time(self: TransactionalMessageService, request: EndTransaction) -> EndTransactionResult:
    """If the sync of a committed message is late, the message is delivered, and again after the next check."""
    half = self._claim_half_message(request)
    if isinstance(half, EndTransactionStatus):
        return EndTransactionResult(half)
    message = committed_message_of(half)
    try:
        put = None if message is None else self._store.put_message(message)
    except StoreError:
        self._decisions.release_claim(half)
        raise
    if put is None or put.status is not PutMessageStatus.PUT_OK:
        bit(put is not None and put.is_stored)
        self._decisions.release_claim(half)
        return EndTransactionResult(EndTransactionStatus.PUT_FAILED, put)
    return EndTransactionResult(EndTransactionStatus.DECIDED, put, self._put_ops(half))


# apache/rocketmq issue 8311.
@bug("given-up-before-ops-are-read", TransactionalMessageCheckService, "_check_half_message", found_by=("TX",))
@needs(SCENARIOS["transaction-expired"].ranges, transactions={"chance": (1.0,)})
def give_up_first(self: TransactionalMessageCheckService, half: HalfMessage, ops: OpQueue) -> bool:
    """The check gives up a half message although an op that arrived during the pass decides it."""
    with self._decisions.lock:
        is_open = not ops.is_decided(half) and not self._has_expired(half)
        is_open = is_open and not self._decisions.is_hidden(
            half, self._store.get_max_offset_in_queue(OP_TOPIC, QUEUE_ID)
        )
        reserved_ms = self._store.config.file_reserved_time_hours * _HOUR_MS
        judged = verdict_on(half, self.world.clock.now_ms(), self.config, reserved_ms)
        if is_open and judged is HalfMessageVerdict.GIVE_UP:
            given_up = self._give_up(half)
            ops.read()
            bit(ops.is_decided(half))
            return given_up
    return give_up_first.original(self, half, ops)


# KAFKA-5351.
@bug("refused-commit-stays-claimed", TransactionalMessageService, "commit", found_by=("TX",))
@needs(
    transactions={"chance": (1.0,)},
    messages_each=(5, 10),
    commit_log_bytes=(1024, 2048),
    pauses={"chance": (0.5,), "ms_max": (300,)},
    faults={"failed_creation_chance": (0.2, 0.5)},
)
def commit_and_keep_claim(self: TransactionalMessageService, request: EndTransaction) -> EndTransactionResult:
    """After a refused commit, a client that repeats it hears that the transaction is decided."""
    half = self._claim_half_message(request)
    if isinstance(half, EndTransactionStatus):
        return EndTransactionResult(half)
    message = committed_message_of(half)
    try:
        put = None if message is None else self._store.put_message(message)
    except Exception:
        self._decisions.release_claim(half)
        raise
    if bit(put is None or not put.is_stored):
        return EndTransactionResult(EndTransactionStatus.PUT_FAILED, put)
    return EndTransactionResult(EndTransactionStatus.DECIDED, put, self._put_ops(half))


# RocketMQ's TransactionalMessageBridge.parseHalfMessageInner keeps all properties.
@bug("half-message-keeps-earlier-checks", transaction_service, "half_message_of", found_by=("TX", "DUR", "PREFIX"))
@needs(SCENARIOS["transaction-outcome"].ranges, **FORWARDED)
def half_message_with_earlier_checks(message: Message) -> Message | None:
    """A half message keeps the number of checks and the first queue offset of an earlier transaction."""
    half: Message | None = half_message_with_earlier_checks.original(message)
    if half is None:
        return None
    given = decode_properties(message.properties)
    earlier = {name: given[name] for name in CHECK_PROPERTIES if name in given}
    if not bit(bool(earlier)):
        return half
    kept = decode_properties(half.properties) | earlier
    return replace(half, properties=rebuild_properties(kept, map_buckets(list(given))))


# apache/pulsar#17548: a delayed message of a transaction is delivered at the commit.
@bug("committed-message-skips-its-delay", transaction_service, "committed_message_of", found_by=("SCHED", "TX"))
@needs(SCENARIOS["transaction-outcome"].ranges, **DELAYED_COMMITS)
def committed_message_without_delay(half: HalfMessage) -> Message | None:
    """The committed message of a transaction ignores the delay level that its producer set."""
    message: Message | None = committed_message_without_delay.original(half)
    if message is None:
        return None
    bit(delay_level(message.properties.encode()) > 0)
    return replace(message, honour_delay=False)


# apache/rocketmq#5574: two equal END_TRANSACTION requests store the message twice.
@bug("decision-is-claimed-after-the-look", TransactionDecisions, "claim_half_message", found_by=("TX",))
@needs(SCENARIOS["transaction-outcome"].ranges, transactions={"chance": (1.0,)}, policy=("pos",), heals=(False,))
def look_then_claim(self: TransactionDecisions, half: HalfMessage, visible_ops: int) -> bool:
    """The look at earlier decisions and the claim are two steps, and another decision fits between them."""
    with self.lock:
        self._drop_visible(visible_ops)
        if self._was_decided_and_passed(half.first_offset) or _is_decided(self, half):
            return False
    with self.lock:
        bit(_is_decided(self, half))
        self._ops |= dict.fromkeys(half.offsets, _IN_FLIGHT)
    return True


def _is_decided(decisions: TransactionDecisions, half: HalfMessage) -> bool:
    return half.first_offset in decisions._decided or any(offset in decisions._ops for offset in half.offsets)


def _named_half(self: TransactionalMessageService, request: EndTransaction) -> HalfMessage | None:
    record = self._store.look_message_by_offset(request.commit_log_offset)
    return None if record is None else HalfMessage.from_record(record)


@bug("log-offset-alone-decides", TransactionalMessageService, "_claim_half_message", found_by=("TX",))
@needs(_ASKED)
def claim_by_log_offset(self: TransactionalMessageService, request: EndTransaction) -> _Claim:
    """A request of another producer group, or with the queue offset of another message, ends a transaction."""
    half = _named_half(self, request)
    bit(half is not None and half.request[:3] != request[:3])
    return claim_by_log_offset.original(self, request if half is None else half.request)


# A power cut loses a half message, and another one gets its offsets. The producer's decision comes after the restart.
@bug("decision-of-lost-message-counts", TransactionalMessageService, "_claim_half_message", found_by=("TX",))
@needs(
    BROKER,
    heals=(True,),
    messages_each=(12,),
    messages={"equal_sizes": (True,), "body_bytes_max": (40,), "property_bytes_max": (0,), "batch_chance": (0.0,)},
    transactions={"chance": (1.0,)},
    sync_flush=(False,),
    settings={"flush_commit_log_least_pages": (4,)},
    broker={"off_ms_max": (1,)},
    disk=("strict-posix",),
    endings=("crash in traffic",),
    lives=(3, 4),
    producers=(3,),
)
def claim_by_offsets(self: TransactionalMessageService, request: EndTransaction) -> _Claim:
    """A decision also ends another half message that has the offsets of a lost one."""
    own = claim_by_offsets.original(self, request)
    if own is not EndTransactionStatus.PREPARED_NOT_FOUND:
        return own
    by_offsets = claim_by_offsets.original(self, request._replace(message_ids=()))
    bit(isinstance(by_offsets, HalfMessage))
    return by_offsets


@bug("committed-message-decides", TransactionalMessageService, "_claim_half_message", found_by=("TX",))
@needs(_ASKED)
def claim_in_any_topic(self: TransactionalMessageService, request: EndTransaction) -> _Claim:
    """A request about a committed message ends the transaction whose half message has the same queue offset."""
    half = _named_half(self, request)
    if half is None or not bit(
        half.record.topic not in (HALF_TOPIC, GIVEN_UP_TOPIC) and half.request[:3] == request[:3]
    ):
        return claim_in_any_topic.original(self, request)
    is_free = self._decisions.claim_half_message(half, self._store.get_max_offset_in_queue(OP_TOPIC, QUEUE_ID))
    return half if is_free else EndTransactionStatus.ALREADY_DECIDED


@bug("old-half-message-checked", transaction_check, "verdict_on", found_by=("TX",))
@needs(_ASKED, transactions={"chance": (1.0,), "clock_ahead_ms": (-RESERVED_HOURS * _HOUR_MS - 10_000,)})
def ask_about_old(half: HalfMessage, now_ms: int, config: TransactionConfig, reserved_ms: int) -> HalfMessageVerdict:
    """The check asks about a half message that is older than fileReservedTime, and may miss its answer."""
    verdict = verdict_on(half, now_ms, config, 1 << 62)
    bit(verdict is not verdict_on(half, now_ms, config, reserved_ms))
    return verdict
