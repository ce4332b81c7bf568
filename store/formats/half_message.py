"""Half message: builds the records of a transactional message from prepare to outcome.

    prepared   RMQ_SYS_TRANS_HALF_TOPIC / 0, with REAL_TOPIC and REAL_QID, transaction bits 0
    put back   a copy at the end of that queue, with TRANSACTION_CHECK_TIMES, the number of checks sent to the
               producer group, and TRAN_PREPARED_QUEUE_OFFSET, the queue offset of the first record
    committed  topic and queue from REAL_TOPIC and REAL_QID, transaction bits 8, preparedTransactionOffset of the
               half message; REAL_TOPIC, REAL_QID and TRAN_MSG remain, unused
    decided    RMQ_SYS_TRANS_OP_HALF_TOPIC / 0, TAGS=d, the body is the half message's queue offset in decimal digits
    given up   TRANS_CHECK_MAX_TIME_TOPIC / 0, the half message unchanged
    resumed    a copy at the end of the half queue, with TRANSACTION_CHECK_TIMES 0

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
from .redirect import copy_message, message_to_deliver

HALF_TOPIC = "RMQ_SYS_TRANS_HALF_TOPIC"
OP_TOPIC = "RMQ_SYS_TRANS_OP_HALF_TOPIC"
GIVEN_UP_TOPIC = "TRANS_CHECK_MAX_TIME_TOPIC"
QUEUE_ID = 0
DECIDED_TAG = "d"

_WIDEST = {PROPERTY_TRANSACTION_CHECK_TIMES: "9" * 10, PROPERTY_TRAN_PREPARED_QUEUE_OFFSET: "9" * 19}
"""The longest values of the properties that `put_back_message` adds."""


class EndTransaction(NamedTuple):
    """Identifies the half message of a commit or rollback (RocketMQ's END_TRANSACTION)."""

    producer_group: str
    tran_state_table_offset: int
    commit_log_offset: int
    message_ids: tuple[str, ...] = ()
    """The message's ids as the producer knows them: its unique id or its id from the broker. Empty: not given."""


class HalfMessage(NamedTuple):
    """A decoded half message."""

    record: MessageRecord
    properties: dict[str, str]
    first_offset: int
    """Queue offset of the first record of this half message. `record` may be a later copy."""

    @classmethod
    def from_record(cls, record: MessageRecord) -> "HalfMessage":
        """Decode a record. As in Java, property bytes that are not UTF-8 are replaced."""
        text = record.properties.encode(errors="surrogateescape").decode(errors="replace")
        if text != record.properties:
            record = replace(record, properties=text)
        properties = decode_properties(text)
        first = parse_non_negative(properties.get(PROPERTY_TRAN_PREPARED_QUEUE_OFFSET))
        own = record.queue_offset
        # A property above the record's own offset is corrupt or from the producer.
        return cls(record, properties, own if first is None or first > own else first)

    @property
    def offsets(self) -> tuple[int, ...]:
        """The queue offsets by which an op message can refer to this half message."""
        own = self.record.queue_offset
        return (own,) if own == self.first_offset else (own, self.first_offset)

    @property
    def request(self) -> EndTransaction:
        group = self.properties.get(PROPERTY_PGROUP, "")
        return EndTransaction(group, self.record.queue_offset, self.record.physical_offset)

    @property
    def check_times(self) -> int:
        return parse_non_negative(self.properties.get(PROPERTY_TRANSACTION_CHECK_TIMES)) or 0

    @property
    def immunity_ms(self) -> int | None:
        """The minimum time before the first check, set by the producer."""
        seconds = parse_non_negative(self.properties.get(PROPERTY_CHECK_IMMUNITY_TIME_IN_SECONDS))
        return None if seconds is None else seconds * 1000


def parse_non_negative(text: str | None) -> int | None:
    """Parse like `Long.parseLong`. Returns None for a negative number, and if Java throws an exception."""
    number = None if text is None else java_integer(text, 64)
    return number if number is not None and number >= 0 else None


def half_message_of(message: Message) -> Message | None:
    """Return the half message of a transactional message, or None if the topic does not fit into a property.

    Properties of an earlier transaction are removed.
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
        honour_delay=False,  # the delay begins at the commit
    )


def longest_later_forms(message: Message, half: Message) -> tuple[Message, Message]:
    """Return the longest records that can follow: the given-up and the committed message."""
    widened = rebuild_properties(decode_properties(half.properties) | _WIDEST)
    given_up = replace(half, topic=GIVEN_UP_TOPIC, properties=widened)
    committed = replace(half, topic=message.topic, queue_id=message.queue_id, properties=widened)
    return given_up, replace(committed, sys_flag=half.sys_flag | TRANSACTION_COMMIT, honour_delay=True)


def committed_message_of(half: HalfMessage) -> Message | None:
    """Return the committed message, or None if the half message has no valid target."""
    message = message_to_deliver(half.record)
    if message is None:
        return None
    return replace(
        message,
        properties=_rebuilt_properties(half, {}),
        sys_flag=half.record.sys_flag & ~TRANSACTION_MASK | TRANSACTION_COMMIT,
        prepared_transaction_offset=half.record.physical_offset,
        wait_store_ok=half.properties.get(PROPERTY_WAIT, "true").lower() == "true",
        honour_delay=True,
    )


def op_message(half_offset: int, born_timestamp_ms: int, store_host: Host) -> Message:
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


def put_back_message(half: HalfMessage, *, asked: bool) -> Message:
    """Return a copy of an undecided half message. `asked` means that the producer group gets a check."""
    added = {PROPERTY_TRAN_PREPARED_QUEUE_OFFSET: str(half.first_offset)}
    if asked:
        added[PROPERTY_TRANSACTION_CHECK_TIMES] = str(half.check_times + 1)
    return copy_half_message(half, HALF_TOPIC, added)


def resumed_message(given_up: MessageRecord) -> Message:
    """Return the message that restarts the checks of a transaction."""
    half = HalfMessage.from_record(given_up)
    return copy_half_message(half, HALF_TOPIC, {PROPERTY_TRANSACTION_CHECK_TIMES: "0"})


def first_offset_of(given_up: MessageRecord) -> int | None:
    """Return the first offset of a half message, or None if it was never put back."""
    properties = HalfMessage.from_record(given_up).properties
    return parse_non_negative(properties.get(PROPERTY_TRAN_PREPARED_QUEUE_OFFSET))


def copy_half_message(half: HalfMessage, topic: str, added: dict[str, str]) -> Message:
    """Return a copy for a put that does not wait for the disk."""
    return copy_message(half.record, topic, QUEUE_ID, _rebuilt_properties(half, added))


def _rebuilt_properties(half: HalfMessage, added: dict[str, str]) -> str:
    return rebuild_properties(half.properties | added, map_buckets(list(half.properties)))
