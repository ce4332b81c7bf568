"""What the measured stores are given: messages of one topic, alike but for their keys."""

from ...store.formats.batch import BatchUnit, encode_batch
from ...store.formats.properties import PROPERTY_KEYS, encode_properties
from ...store.message import Message, MessageBatch

TOPIC = "Bench"
QUEUES = 4
BATCH_MESSAGES = 32
"""In a batch, and at most in an answer to a pull."""


def message(body_bytes: int, queue_id: int = 0) -> Message:
    """Return a message with a tag."""
    return Message.of(TOPIC, b"x" * body_bytes, queue_id=queue_id, tags="TagA")


def batch(body_bytes: int, number: int = 0, *, keyed: bool = False) -> MessageBatch:
    """Return the batch of that number; keyed: each message has a key of its own, across all batches."""
    first = number * BATCH_MESSAGES
    units = [
        BatchUnit(
            0, b"x" * body_bytes, encode_properties({PROPERTY_KEYS: key(each)}).encode() if keyed else b""
        )
        for each in range(first, first + BATCH_MESSAGES)
    ]
    return MessageBatch(message(0, number % QUEUES), encode_batch(units))


def key(number: int) -> str:
    """Return the key of a message, by its number among all."""
    return f"order-{number}"
