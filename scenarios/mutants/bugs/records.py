"""Bugs of records: fields that are not what the producer gave."""

import struct
from collections.abc import Callable
from dataclasses import replace
from functools import wraps
from typing import Any

from ....store.errors import CorruptFileError, InvalidMessageError
from ....store.formats.batch import BatchUnit, decode_batch, encode_batch, encode_batch_records, join_properties
from ....store.formats.host import Host
from ....store.formats.message import BLANK_BYTES, MAX_PROPERTIES_BYTES, MAX_TOPIC_BYTES
from ....store.formats.messages import Message, MessageBatch, PutMessageStatus
from ....store.formats.redirect import DELAY_MARK
from ....store.log import put_encoder
from ....store.log.put_encoder import EncodedPut, PutEncoder, _encode_one
from ...claims.ranges import Ranges
from ..mutant import Mutant, Patch, bit


# batch-shares-first-flag: the records of a batch all have the flag of its first message.
@wraps(encode_batch_records)
def _encode_batch_with_first_flag(units: bytes, **given: Any) -> tuple[bytearray, tuple[int, ...]]:
    first, *others = decode_batch(units)
    alike = [first, *(BatchUnit(first.flag, unit.body, unit.properties) for unit in others)]
    bit(alike != [first, *others])
    return encode_batch_records(encode_batch(alike), **given)


BATCH_SHARES_FIRST_FLAG = Mutant(
    "batch-shares-first-flag",
    "every record of a batch has the flag of the batch's first message",
    (Patch(put_encoder, "encode_batch_records", _encode_batch_with_first_flag),),
    ("DUR", "PREFIX"),
    Ranges(messages={"batch_chance": (0.2,)}),
)


# The other bugs are of records of single messages: one argument of their encoder is not what the producer gave.
def _bug_of_one_record(id_: str, summary: str, change: Callable[[Message], Message], flags: int = -1) -> Mutant:
    """Return a mutant that encodes another message in place of the one put; flags: a mask over the user's flag."""

    def encode(head: Message, sys_flag: int, flag: int, body: bytes, properties: bytes) -> bytearray:
        changed = change(head), flag & flags
        bit(changed != (head, flag))
        return _encode_one(changed[0], sys_flag, changed[1], body, properties)

    return Mutant(id_, summary, (Patch(put_encoder, "_encode_one", encode),), ("DUR", "PREFIX", "STATUS"))


def _with_hosts_swapped(head: Message) -> Message:
    if head.born_host.is_ipv6 != head.store_host.is_ipv6:
        return head
    return replace(head, born_host=head.store_host, store_host=head.born_host)


def _with_short_address(head: Message) -> Message:
    """Keep the first eight bytes of an IPv6 address, the network."""
    if not head.born_host.is_ipv6:
        return head
    return replace(head, born_host=Host(head.born_host.address[:8] + bytes(8), head.born_host.port))


BORN_TIME_IN_SECONDS = _bug_of_one_record(
    "born-time-in-seconds",
    "every record says that its message was born at the beginning of a second",
    lambda head: replace(head, born_timestamp_ms=head.born_timestamp_ms // 1_000 * 1_000),
)
HOSTS_SWAPPED = _bug_of_one_record(
    "hosts-swapped", "bornHost and storeHost change places where both are of one family", _with_hosts_swapped
)
IPV6_HOST_CUT_SHORT = _bug_of_one_record(
    "ipv6-host-cut-short", "the second half of every IPv6 bornHost is zeros", _with_short_address
)
RECONSUME_TIMES_ZEROED = _bug_of_one_record(
    "reconsume-times-zeroed",
    "every record of a single message says that it was never consumed in vain",
    lambda head: replace(head, reconsume_times=0),
)
RECORD_FLAG_DROPPED = _bug_of_one_record(
    "record-flag-dropped",
    "every record of a single message has a flag of 0, whatever its producer set",
    lambda head: head,
    flags=0,
)


# longest-body-refused: the longest body that the settings admit is taken for one that is too long.
_original_encode_single = PutEncoder._encode_single


def _encode_shorter(self: PutEncoder, message: Message) -> EncodedPut | PutMessageStatus:
    if bit(len(message.body) == self._config.max_message_size):
        return PutMessageStatus.MESSAGE_ILLEGAL
    return _original_encode_single(self, message)


LONGEST_BODY_REFUSED = Mutant(
    "longest-body-refused",
    "a message whose body is as long as the settings admit is refused",
    (Patch(PutEncoder, "_encode_single", _encode_shorter),),
    ("STATUS",),
    Ranges(messages={"limit_bytes": (200,), "body_bytes_max": (300,), "equal_sizes": (False,)}),
)


# longest-topic-refused: the longest topic that a record can hold is taken for one that is too long.
_original_topic_bytes = put_encoder._topic_bytes


def _bytes_of_shorter_topic(topic: str) -> bytes | None:
    raw = _original_topic_bytes(topic)
    return None if bit(raw is not None and len(raw) == MAX_TOPIC_BYTES) else raw


LONGEST_TOPIC_REFUSED = Mutant(
    "longest-topic-refused",
    "a message whose topic is as long as a record can hold is refused",
    (Patch(put_encoder, "_topic_bytes", _bytes_of_shorter_topic),),
    ("STATUS",),
    Ranges(messages={"illegal_chance": (0.1,), "equal_sizes": (False,)}),
)


# number-that-does-not-fit-raises: a number that has no room in its field of the record ends the put with an exception
# of the encoder, which no caller of a put expects.
def _encode_or_raise(self: PutEncoder, message: Message | MessageBatch) -> EncodedPut | PutMessageStatus:
    try:
        if isinstance(message, MessageBatch):
            return self._encode_batch(message)
        if DELAY_MARK in message.properties:
            return self._encode_delayed(message)
        return self._encode_single(message)
    except (CorruptFileError, InvalidMessageError):
        return PutMessageStatus.MESSAGE_ILLEGAL
    except struct.error:
        bit()
        raise


NUMBER_THAT_DOES_NOT_FIT_RAISES = Mutant(
    "number-that-does-not-fit-raises",
    "a put of a message with a number that does not fit its field raises, where it has to refuse the message",
    (Patch(PutEncoder, "encode", _encode_or_raise),),
    ("LIVE",),
    Ranges(messages={"illegal_chance": (0.1,)}),
)


_WITH_LONGEST = Ranges(
    commit_log_bytes=(131_072,),
    messages_each=(5,),
    messages={"longest_chance": (0.5,), "batch_chance": (0.4,), "body_bytes_max": (40,), "equal_sizes": (False,)},
)


# longest-properties-refused: the longest properties that a record can hold are taken for some that are too long.
def _encode_shorter_properties(self: PutEncoder, message: Message) -> EncodedPut | PutMessageStatus:
    if bit(len(message.properties.encode()) == MAX_PROPERTIES_BYTES):
        return PutMessageStatus.PROPERTIES_SIZE_EXCEEDED
    return _original_encode_single(self, message)


LONGEST_PROPERTIES_REFUSED = Mutant(
    "longest-properties-refused",
    "a message whose properties are as long as a record can hold is refused",
    (Patch(PutEncoder, "_encode_single", _encode_shorter_properties),),
    ("STATUS",),
    _WITH_LONGEST,
)


# properties-length-overflows: only characters are counted, and a length of too many bytes is written into its two bytes
# as it comes, where whoever reads it takes it for less than nothing.
def _encode_uncounted(self: PutEncoder, message: Message) -> EncodedPut | PutMessageStatus:
    properties = message.properties.encode()
    size_bytes = len(properties)
    if size_bytes <= MAX_PROPERTIES_BYTES:
        return _original_encode_single(self, message)
    encoded = _original_encode_single(self, replace(message, properties="p" * MAX_PROPERTIES_BYTES))
    more_bytes = size_bytes - MAX_PROPERTIES_BYTES
    if isinstance(encoded, PutMessageStatus):
        return encoded
    if len(encoded.buffer) + more_bytes + BLANK_BYTES > self._config.mapped_file_size_commit_log:
        return PutMessageStatus.MESSAGE_ILLEGAL
    bit(True)
    encoded.buffer[-MAX_PROPERTIES_BYTES - 2 :] = (size_bytes & 0xFFFF).to_bytes(2, "big") + properties
    encoded.buffer[:4] = len(encoded.buffer).to_bytes(4, "big")
    return encoded


PROPERTIES_LENGTH_OVERFLOWS = Mutant(
    "properties-length-overflows",
    "the bytes of properties are not counted, and their length is cut to the two bytes that a record has for it",
    (Patch(PutEncoder, "_encode_single", _encode_uncounted),),
    ("STATUS",),
    _WITH_LONGEST,
)


# unit-too-long-taken: a batch's own properties are left out of records that have no room for them beside their own.
@wraps(encode_batch_records)
def _encode_batch_as_it_fits(
    units: bytes, *, shared_properties: bytes, **given: Any
) -> tuple[bytearray, tuple[int, ...]]:
    joined = [
        unit._replace(properties=join_properties(unit.properties, shared_properties)) for unit in decode_batch(units)
    ]
    fitting = [unit._replace(properties=unit.properties[:MAX_PROPERTIES_BYTES]) for unit in joined]
    bit(fitting != joined)
    return encode_batch_records(encode_batch(fitting), shared_properties=b"", **given)


UNIT_TOO_LONG_TAKEN = Mutant(
    "unit-too-long-taken",
    "a message of a batch that has too many properties with those of its batch is stored with as many as fit",
    (Patch(put_encoder, "encode_batch_records", _encode_batch_as_it_fits),),
    ("STATUS",),
    _WITH_LONGEST,
)
