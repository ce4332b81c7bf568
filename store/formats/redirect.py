"""Redirection: moves a delayed message to the queue of its level, and back when due.

    topic, queue id   SCHEDULE_TOPIC_XXXX, level - 1
    DELAY             the level, at most the highest one
    REAL_TOPIC        the original topic
    REAL_QID          the original queue id

The delivered copy contains these properties, unused. Source: RocketMQ CommitLog.asyncPutMessage,
ScheduleMessageService.messageTimeup.
"""

from dataclasses import replace
from typing import NamedTuple

from ..errors import InvalidMessageError
from .delay_level import SCHEDULE_TOPIC, delay_level
from .java_text import java_integer
from .message import TRANSACTION_COMMIT, TRANSACTION_MASK, TRANSACTION_NONE, MessageRecord
from .messages import Message
from .properties import (
    ENTRY_SEPARATOR,
    NAME_SEPARATOR,
    PROPERTY_DELAY,
    PROPERTY_REAL_QID,
    PROPERTY_REAL_TOPIC,
    PROPERTY_WAIT,
    decode_properties,
    map_buckets,
    rebuild_properties,
)

DELAY_MARK = PROPERTY_DELAY + NAME_SEPARATOR
"""Bytes that occur in the properties of every delayed message and of few other messages."""


class Redirection(NamedTuple):
    """A delayed message as stored, and the message to deliver, which is not larger."""

    waiting: Message
    due: Message


_DELAYABLE = (TRANSACTION_NONE, TRANSACTION_COMMIT)


def redirect_delayed(message: Message, levels: int) -> Redirection | None:
    """Redirect a delayed message. Returns None for a message without delay. `levels` is the number of levels.

    Raises InvalidMessageError if the topic does not fit into the properties or is the schedule topic.
    """
    level = min(delay_level(message.properties.encode()), levels)
    if level <= 0 or not message.honour_delay or message.sys_flag & TRANSACTION_MASK not in _DELAYABLE:
        return None
    if ENTRY_SEPARATOR in message.topic or message.topic == SCHEDULE_TOPIC:
        raise InvalidMessageError(f"topic {message.topic!r}: a delayed message cannot be delivered to this topic")
    given = decode_properties(message.properties)
    properties = given | {PROPERTY_DELAY: str(level)}
    if not message.wait_store_ok:
        properties.setdefault(PROPERTY_WAIT, "false")
    properties |= {PROPERTY_REAL_TOPIC: message.topic, PROPERTY_REAL_QID: str(message.queue_id)}
    text = rebuild_properties(properties, map_buckets(list(given)))
    return Redirection(
        replace(message, topic=SCHEDULE_TOPIC, queue_id=level - 1, properties=text), replace(message, properties=text)
    )


def message_to_deliver(record: MessageRecord) -> Message | None:
    """Return the message to deliver, or None if the record has no valid target."""
    text = record.properties.encode(errors="surrogateescape").decode(errors="replace")  # like Java
    properties = decode_properties(text)
    topic = properties.get(PROPERTY_REAL_TOPIC)
    queue_id = java_integer(properties.get(PROPERTY_REAL_QID, ""), 32)
    if not topic or queue_id is None or queue_id < 0:
        return None
    return copy_message(record, topic, queue_id, rebuild_properties(properties))


def copy_message(record: MessageRecord, topic: str, queue_id: int, properties: str) -> Message:
    """Return a copy for a put that does not wait for the disk and ignores DELAY."""
    return Message(
        topic,
        record.body,
        queue_id,
        properties,
        record.flag,
        record.sys_flag,
        record.born_timestamp_ms,
        record.born_host,
        record.store_host,
        record.reconsume_times,
        wait_store_ok=False,
        honour_delay=False,
    )
