"""Bugs of records: wrong field values, and size limits."""

import re
import struct
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

from ....store.errors import CorruptFileError, InvalidMessageError
from ....store.formats import batch, delay_level, redirect
from ....store.formats.batch import BatchUnit, decode_batch, encode_batch, encode_batch_records, join_properties
from ....store.formats.delay_level import SCHEDULE_TOPIC
from ....store.formats.host import Host
from ....store.formats.index_key import MAYBE_KEYED
from ....store.formats.light_queues import LightPut
from ....store.formats.message import (
    BLANK_BYTES,
    MAX_PROPERTIES_BYTES,
    MAX_TOPIC_BYTES,
    TRANSACTION_MASK,
    TRANSACTION_ROLLBACK,
    MessageRecord,
)
from ....store.formats.messages import Message, MessageBatch, PutMessageStatus
from ....store.formats.redirect import DELAY_MARK
from ....store.formats.scan import ScannedRecord
from ....store.index import index_service
from ....store.log import put_encoder
from ....store.log.put_encoder import EncodedPut, PutEncoder, _encode_record_of_message
from ....store.queues import dispatch
from ....store.recovery import index_recovery, recovery
from ...claims.ranges import Ranges
from ..mutant import Mutant, bit, bug, needs


@bug("batch-shares-first-flag", put_encoder, "encode_batch_records", found_by=("DUR", "PREFIX", "READ"))
@needs(messages={"batch_chance": (0.2,)})
def encode_batch_with_first_flag(units: bytes, **given: Any) -> tuple[bytearray, tuple[int, ...]]:
    """Every record of a batch has the flag of the batch's first message."""
    first, *others = decode_batch(units)
    alike = [first, *(BatchUnit(first.flag, unit.body, unit.properties) for unit in others)]
    bit(alike != [first, *others])
    return encode_batch_records(encode_batch(alike), **given)


_OF_ONE_RECORD = ("DUR", "PREFIX", "STATUS", "READ")


def _one_record(id_: str) -> Callable[[Callable[[Message], Message]], Mutant]:
    """Return a decorator for a function that changes a single message before its record is encoded."""

    def make(change: Callable[[Message], Message]) -> Mutant:
        def encode(head: Message, sys_flag: int, flag: int, body: bytes, properties: bytes) -> bytearray:
            changed = change(head)
            bit(changed != head)
            return _encode_record_of_message(changed, sys_flag, flag, body, properties)

        encode.__doc__ = change.__doc__
        return bug(id_, put_encoder, "_encode_record_of_message", found_by=_OF_ONE_RECORD)(encode)

    return make


@_one_record("born-time-in-seconds")
def born_in_seconds(head: Message) -> Message:
    """The born time of every record is rounded down to a second."""
    return replace(head, born_timestamp_ms=head.born_timestamp_ms // 1_000 * 1_000)


@_one_record("hosts-swapped")
def with_hosts_swapped(head: Message) -> Message:
    """bornHost and storeHost are swapped if both are IPv4 or both are IPv6."""
    if head.born_host.is_ipv6 != head.store_host.is_ipv6:
        return head
    return replace(head, born_host=head.store_host, store_host=head.born_host)


@_one_record("ipv6-host-cut-short")
def with_short_address(head: Message) -> Message:
    """The second half of every IPv6 bornHost is zeros."""
    if not head.born_host.is_ipv6:
        return head
    return replace(head, born_host=Host(head.born_host.address[:8] + bytes(8), head.born_host.port))


@_one_record("reconsume-times-zeroed")
def never_reconsumed(head: Message) -> Message:
    """Every record of a single message has reconsumeTimes 0."""
    return replace(head, reconsume_times=0)


@bug("record-flag-dropped", put_encoder, "_encode_record_of_message", found_by=_OF_ONE_RECORD)
def encode_without_flag(head: Message, sys_flag: int, flag: int, body: bytes, properties: bytes) -> bytearray:
    """Every record of a single message has flag 0."""
    bit(flag != 0)
    return _encode_record_of_message(head, sys_flag, 0, body, properties)


@bug("longest-body-refused", PutEncoder, "_encode_single", found_by=("STATUS",))
@needs(messages={"limit_bytes": (200,), "body_bytes_max": (300,), "equal_sizes": (False,)})
def encode_shorter(self: PutEncoder, message: Message) -> EncodedPut | PutMessageStatus:
    """A put refuses a body of exactly the maximum size."""
    if bit(len(message.body) == self._config.max_message_size):
        return PutMessageStatus.MESSAGE_ILLEGAL
    return encode_shorter.original(self, message)


@bug("longest-topic-refused", put_encoder, "_topic_bytes", found_by=("STATUS",))
@needs(messages={"illegal_chance": (0.1,), "equal_sizes": (False,)})
def bytes_of_shorter_topic(topic: str) -> bytes | None:
    """A put refuses a topic of exactly the maximum size."""
    raw = bytes_of_shorter_topic.original(topic)
    return None if bit(raw is not None and len(raw) == MAX_TOPIC_BYTES) else raw


@bug("number-that-does-not-fit-raises", PutEncoder, "encode", found_by=("LIVE",))
@needs(messages={"illegal_chance": (0.1,)})
def encode_or_raise(self: PutEncoder, message: Message | MessageBatch) -> EncodedPut | PutMessageStatus:
    """A put raises an error instead of refusing a message with a number that does not fit its field."""
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


_WITH_LONGEST = Ranges(
    commit_log_bytes=(131_072,),
    messages_each=(5,),
    messages={"longest_chance": (0.5,), "batch_chance": (0.4,), "body_bytes_max": (40,), "equal_sizes": (False,)},
)


@bug("longest-properties-refused", PutEncoder, "_encode_single", found_by=("STATUS",))
@needs(_WITH_LONGEST)
def encode_shorter_properties(self: PutEncoder, message: Message) -> EncodedPut | PutMessageStatus:
    """A put refuses properties of exactly the maximum size."""
    if bit(len(message.properties.encode()) == MAX_PROPERTIES_BYTES):
        return PutMessageStatus.PROPERTIES_SIZE_EXCEEDED
    return encode_shorter_properties.original(self, message)


# A reader decodes the overflowed length as a negative number.
@bug("properties-length-overflows", PutEncoder, "_encode_single", found_by=("STATUS",))
@needs(_WITH_LONGEST)
def encode_uncounted(self: PutEncoder, message: Message) -> EncodedPut | PutMessageStatus:
    """The length of overlong properties is truncated to its two-byte field."""
    properties = message.properties.encode()
    size_bytes = len(properties)
    if size_bytes <= MAX_PROPERTIES_BYTES:
        return encode_uncounted.original(self, message)
    encoded = encode_uncounted.original(self, replace(message, properties="p" * MAX_PROPERTIES_BYTES))
    more_bytes = size_bytes - MAX_PROPERTIES_BYTES
    if isinstance(encoded, PutMessageStatus):
        return encoded
    if len(encoded.buffer) + more_bytes + BLANK_BYTES > self._config.mapped_file_size_commit_log:
        return PutMessageStatus.MESSAGE_ILLEGAL
    bit(True)
    encoded.buffer[-MAX_PROPERTIES_BYTES - 2 :] = (size_bytes & 0xFFFF).to_bytes(2, "big") + properties
    encoded.buffer[:4] = len(encoded.buffer).to_bytes(4, "big")
    return encoded


@bug("unit-too-long-taken", put_encoder, "encode_batch_records", found_by=("STATUS", "LIVE"))
@needs(_WITH_LONGEST)
def encode_batch_as_it_fits(
    units: bytes, *, shared_properties: bytes, **given: Any
) -> tuple[bytearray, tuple[int, ...]]:
    """A message of a batch loses properties that do not fit."""
    joined = [
        unit._replace(properties=join_properties(unit.properties, shared_properties)) for unit in decode_batch(units)
    ]
    fitting = [unit._replace(properties=unit.properties[:MAX_PROPERTIES_BYTES]) for unit in joined]
    bit(fitting != joined)
    return encode_batch_records(encode_batch(fitting), shared_properties=b"", **given)


# apache/rocketmq issue 6163. Such a message never becomes a dead letter.
@bug("delivered-copy-uncounted", redirect, "copy_message", found_by=("PREFIX", "READ", "REDEL"))
@needs(delay={"chance": (0.5,)}, topics=(1,), messages_each=(8,))
def copy_without_times(record: MessageRecord, topic: str, queue_id: int, properties: str) -> Message:
    """The delivered copy of a delayed message has reconsumeTimes 0."""
    made = copy_without_times.original(record, topic, queue_id, properties)
    bit(made.reconsume_times > 0)
    return replace(made, reconsume_times=0)


# apache/rocketmq#1876: the end of a file needs END_FILE_MIN_BLANK_LENGTH bytes.
@bug("segment-without-room-for-its-end", PutEncoder, "_check_sizes", found_by=("LIVE",))
@needs(commit_log_bytes=(1024,), messages={"body_bytes_max": (900,), "equal_sizes": (False,)}, producers=(1,))
def check_without_blank(
    self: PutEncoder, head: Message, buffer: bytearray, starts: tuple[int, ...], sys_flag: int
) -> EncodedPut | PutMessageStatus:
    """The limit of a put is the size of a segment, without the blank record that must follow at its end."""
    segment_bytes = self._config.mapped_file_size_commit_log
    is_too_long = bit(segment_bytes - BLANK_BYTES < len(buffer) <= segment_bytes)
    checked: EncodedPut | PutMessageStatus = check_without_blank.original(
        self, head, buffer[: segment_bytes - BLANK_BYTES] if is_too_long else buffer, starts, sys_flag
    )
    if isinstance(checked, EncodedPut):
        checked.buffer = buffer
    return checked


_BATCHES = Ranges(messages={"batch_chance": (0.5,), "illegal_chance": (0.3,), "equal_sizes": (False,)})


@bug("broken-batch-stored-in-part", put_encoder, "encode_batch_records", found_by=("STATUS", "LIVE"))
@needs(_BATCHES)
def encode_whole_units(units: bytes, **given: Any) -> tuple[bytearray, tuple[int, ...]]:
    """A put stores the messages of a batch that come before a broken one."""
    at = 0
    with suppress(CorruptFileError):
        while at < len(units):
            *_, at = batch.decode_unit(units, at)
    bit(0 < at < len(units))
    return encode_whole_units.original(units[:at], **given)


@bug("separator-of-batch-doubled", batch, "join_properties", found_by=("DUR", "PREFIX", "READ"))
@needs(_BATCHES)
def join_with_separator(unit: bytes, batch: bytes) -> bytes:
    """Properties of a batch follow an empty property if those of its message end with a separator."""
    joined = unit + b"\2" + batch if batch else unit
    bit(joined != join_with_separator.original(unit, batch))
    return joined


@bug("forwarded-offset-kept", put_encoder, "without_offsets", found_by=("CQ-COMPLETE", "CQ-VALID", "QOFF", "READ"))
@needs(_BATCHES, light_queues={"chance": (0.5,)})
def with_offsets_of_client(properties: bytes) -> bytes:
    """A message in a batch keeps the offsets in light queues that its client has sent."""
    bit(properties != with_offsets_of_client.original(properties))
    return properties


# --------------------------------------------------------------------------------------------------- odd properties


@bug("tag-of-longer-name", (delay_level, dispatch, recovery), "entry_tags_code", found_by=("CQ-COMPLETE", "CQ-VALID"))
@needs(messages={"equal_sizes": (False,)})
def code_of_any_tags(topic: str, properties: bytes, store_timestamp_ms: int, delays: Mapping[int, int]) -> int:
    """A property whose name ends in TAGS counts as the tag."""
    renamed = re.sub(rb"\x02\w+TAGS\x01", b"\2TAGS\1", properties)
    bit(renamed != properties)
    return code_of_any_tags.original(topic, renamed, store_timestamp_ms, delays)


@bug("level-too-high-undelayed", redirect, "delay_level", found_by=("PREFIX", "DUR", "SCHED", "QOFF"))
@needs(delay={"chance": (0.5,)}, messages={"equal_sizes": (False,)})
def level_in_table(properties: bytes) -> int:
    """A message with a level above the highest one is delivered at once."""
    level = level_in_table.original(properties)
    return 0 if bit(level > 3) else level


@bug("bad-light-queue-accepted", put_encoder, "light_put", found_by=("STATUS",))
@needs(light_queues={"chance": (0.5,)}, messages={"equal_sizes": (False,)})
def put_without_bad_queues(*given: Any, **lmq: bool) -> LightPut | None:
    """A message is stored although the name of one of its light queues cannot be that of a directory."""
    try:
        return put_without_bad_queues.original(*given, **lmq)
    except InvalidMessageError:
        bit()
        return None


# ------------------------------------------------------------------------------------------ records outside all queues

_UNQUEUED = Ranges(messages={"unqueued_chance": (0.3,), "illegal_chance": (0.0,)})


@bug("rolled-back-put-counted", PutEncoder, "_check_sizes", found_by=("QOFF", "READ", "CQ-COMPLETE", "CQ-VALID"))
@needs(_UNQUEUED)
def check_as_counted(
    self: PutEncoder, head: Message, buffer: bytearray, starts: tuple[int, ...], sys_flag: int
) -> EncodedPut | PutMessageStatus:
    """A message with the flag of a rollback uses a queue offset, although no queue gets it."""
    checked: EncodedPut | PutMessageStatus = check_as_counted.original(self, head, buffer, starts, sys_flag)
    if isinstance(checked, EncodedPut) and bit(sys_flag & TRANSACTION_MASK == TRANSACTION_ROLLBACK):
        checked.counted = True
    return checked


@bug("rolled-back-keys-indexed", (index_service, index_recovery), "may_have_keys", found_by=("IDX",))
@needs(_UNQUEUED, index={"slots": (5, 40)})
def may_have_any_keys(record: ScannedRecord) -> bool:
    """The index contains the keys of messages with the flag of a rollback."""
    found = MAYBE_KEYED in record.properties
    bit(found != may_have_any_keys.original(record))
    return found


@bug("delay-in-batch-is-a-tag", (delay_level, dispatch, recovery), "entry_tags_code", found_by=("CQ-VALID", "SCAN"))
@needs(_BATCHES)
def code_of_any_delay(topic: str, properties: bytes, store_timestamp_ms: int, delays: Mapping[int, int]) -> int:
    """A message in a batch with a delay level has a due time instead of its tag in the queue."""
    is_in_batch = topic != SCHEDULE_TOPIC and b"DELAY\1" in properties
    found = code_of_any_delay.original(SCHEDULE_TOPIC if is_in_batch else topic, properties, store_timestamp_ms, delays)
    bit(found != code_of_any_delay.original(topic, properties, store_timestamp_ms, delays))
    return found
