"""Half message: the stored form of a transactional message before its decision, and what becomes of it.

    prepared   RMQ_SYS_TRANS_HALF_TOPIC / 0, the message with REAL_TOPIC and REAL_QID, its transaction bits cleared
    put back   the same once more at the end of that queue, with TRANSACTION_CHECK_TIMES, how often the producer group
               was asked, and TRAN_PREPARED_QUEUE_OFFSET, the queue offset of the first of these records
    committed  topic and queue as REAL_TOPIC and REAL_QID say, transaction bits 8, preparedTransactionOffset of the
               half message; REAL_TOPIC, REAL_QID and TRAN_MSG stay, where they mean nothing any more
    decided    RMQ_SYS_TRANS_OP_HALF_TOPIC / 0, TAGS=d, the body is the half message's queue offset in decimal digits
    given up   TRANS_CHECK_MAX_TIME_TOPIC / 0, the half message as it was
    resumed    once more at the end of the half queue, with TRANSACTION_CHECK_TIMES 0

Source: RocketMQ TransactionalMessageBridge, EndTransactionProcessor, DefaultTransactionalMessageCheckListener.
"""

from dataclasses import replace
from typing import NamedTuple

from .host import Host
from .java_text import java_integer
from .message import TRANSACTION_COMMIT, TRANSACTION_MASK, MessageRecord
from .messages import Message
from .properties import (
    ENTRY_SEPARATOR,
    PROPERTY_CHECK_IMMUNITY_TIME_IN_SECONDS,
    PROPERTY_PGROUP,
    PROPERTY_REAL_QID,
    PROPERTY_REAL_TOPIC,
    PROPERTY_TAGS,
    PROPERTY_TRAN_PREPARED_QUEUE_OFFSET,
    PROPERTY_TRANSACTION_CHECK_TIMES,
    PROPERTY_WAIT,
    decode_properties,
    map_buckets,
    rebuild_properties,
)
from .redirect import copy_of, delivered

HALF_TOPIC = "RMQ_SYS_TRANS_HALF_TOPIC"
OP_TOPIC = "RMQ_SYS_TRANS_OP_HALF_TOPIC"
GIVEN_UP_TOPIC = "TRANS_CHECK_MAX_TIME_TOPIC"
QUEUE_ID = 0
"""The one queue that each of the three topics has."""
DECIDED_TAG = "d"

_WIDEST = {PROPERTY_TRANSACTION_CHECK_TIMES: "9" * 10, PROPERTY_TRAN_PREPARED_QUEUE_OFFSET: "9" * 19}
"""What being put back adds, at its longest."""


class EndTransaction(NamedTuple):
    """Which half message a decision is about, as RocketMQ's END_TRANSACTION names it."""

    producer_group: str
    tran_state_table_offset: int
    """Its queue offset."""
    commit_log_offset: int


class HalfMessage(NamedTuple):
    """A record of the half topic, taken apart."""

    record: MessageRecord
    properties: dict[str, str]
    first_offset: int
    """Queue offset of the first record of this half message: its own, unless it was put back."""

    @classmethod
    def of(cls, record: MessageRecord) -> "HalfMessage":
        """Take a record apart. Bytes in its properties that are not UTF-8 are replaced, as Java does."""
        text = record.properties.encode(errors="surrogateescape").decode(errors="replace")
        if text != record.properties:
            record = replace(record, properties=text)
        properties = decode_properties(text)
        first = whole_number(properties.get(PROPERTY_TRAN_PREPARED_QUEUE_OFFSET))
        own = record.queue_offset
        # The first record cannot come later than this one: such a property is damaged, or a producer set it.
        return cls(record, properties, own if first is None or first > own else first)

    @property
    def offsets(self) -> tuple[int, ...]:
        """Return the queue offsets a decision may be noted under: its own, and the first one if that is another."""
        own = self.record.queue_offset
        return (own,) if own == self.first_offset else (own, self.first_offset)

    @property
    def request(self) -> EndTransaction:
        """Return what names this record in a decision."""
        group = self.properties.get(PROPERTY_PGROUP, "")
        return EndTransaction(group, self.record.queue_offset, self.record.physical_offset)

    @property
    def check_times(self) -> int:
        """Return how often the producer group was asked."""
        return whole_number(self.properties.get(PROPERTY_TRANSACTION_CHECK_TIMES)) or 0

    @property
    def immunity_ms(self) -> int | None:
        """Return how long the producer wants not to be asked, None if it does not say."""
        seconds = whole_number(self.properties.get(PROPERTY_CHECK_IMMUNITY_TIME_IN_SECONDS))
        return None if seconds is None else seconds * 1000


def whole_number(text: str | None) -> int | None:
    """Read what `Long.parseLong` would, None where it would throw or the number is below 0."""
    number = None if text is None else java_integer(text, 64)
    return number if number is not None and number >= 0 else None


def prepared(message: Message) -> Message | None:
    """Return what is stored of a message until its transaction is decided, None if no property can hold its topic.

    What an earlier transaction left in the properties does not count for this one.
    """
    if ENTRY_SEPARATOR in message.topic:
        return None
    given = decode_properties(message.properties)
    properties = {name: value for name, value in given.items() if name not in _WIDEST}
    if not message.wait_store_ok:
        properties.setdefault(PROPERTY_WAIT, "false")
    properties |= {PROPERTY_REAL_TOPIC: message.topic, PROPERTY_REAL_QID: str(message.queue_id)}
    return replace(
        message,
        topic=HALF_TOPIC,
        queue_id=QUEUE_ID,
        properties=rebuild_properties(properties, map_buckets(list(given))),
        sys_flag=message.sys_flag & ~TRANSACTION_MASK,
        honour_delay=False,  # it counts from the commit on
    )


def widest_forms(message: Message, half: Message) -> tuple[Message, Message]:
    """Return the longest records a prepared message can ever need: given up, and committed."""
    widened = rebuild_properties(decode_properties(half.properties) | _WIDEST)
    given_up = replace(half, topic=GIVEN_UP_TOPIC, properties=widened)
    committed = replace(half, topic=message.topic, queue_id=message.queue_id, properties=widened)
    return given_up, replace(committed, sys_flag=half.sys_flag | TRANSACTION_COMMIT, honour_delay=True)


def committed(half: HalfMessage) -> Message | None:
    """Return the message that a commit makes visible, None if the half message does not say where to."""
    message = delivered(half.record)
    if message is None:
        return None
    return replace(
        message,
        properties=_rebuilt(half, {}),
        sys_flag=half.record.sys_flag & ~TRANSACTION_MASK | TRANSACTION_COMMIT,
        prepared_transaction_offset=half.record.physical_offset,
        wait_store_ok=half.properties.get(PROPERTY_WAIT, "true").lower() == "true",
        honour_delay=True,
    )


def decision(half_offset: int, born_timestamp_ms: int, store_host: Host) -> Message:
    """Return the op message that ends the half message at a queue offset."""
    return Message(
        OP_TOPIC,
        b"%d" % half_offset,
        QUEUE_ID,
        rebuild_properties({PROPERTY_TAGS: DECIDED_TAG, PROPERTY_WAIT: "true"}),
        born_timestamp_ms=born_timestamp_ms,
        born_host=store_host,
        store_host=store_host,
        wait_store_ok=False,
    )


def put_back(half: HalfMessage, *, asked: bool) -> Message:
    """Return the record that keeps a half message undecided; asked: whether the producer group is asked now."""
    added = {PROPERTY_TRAN_PREPARED_QUEUE_OFFSET: str(half.first_offset)}
    if asked:
        added[PROPERTY_TRANSACTION_CHECK_TIMES] = str(half.check_times + 1)
    return again(half, HALF_TOPIC, added)


def resumed(given_up: MessageRecord) -> Message:
    """Return the record that has a given-up half message asked about again."""
    half = HalfMessage.of(given_up)
    return again(half, HALF_TOPIC, {PROPERTY_TRANSACTION_CHECK_TIMES: "0"})


def first_offset_of(given_up: MessageRecord) -> int | None:
    """Return the queue offset that a given-up half message first had, None if it had not been put back before."""
    properties = HalfMessage.of(given_up).properties
    return whole_number(properties.get(PROPERTY_TRAN_PREPARED_QUEUE_OFFSET))


def again(half: HalfMessage, topic: str, added: dict[str, str]) -> Message:
    """Return a half message once more, for a topic and with properties added; its put does not wait for the disk."""
    return copy_of(half.record, topic, QUEUE_ID, _rebuilt(half, added))


def _rebuilt(half: HalfMessage, added: dict[str, str]) -> str:
    return rebuild_properties(half.properties | added, map_buckets(list(half.properties)))
