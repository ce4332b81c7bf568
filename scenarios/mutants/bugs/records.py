"""Bugs of records: fields that are not what the producer gave."""

from collections.abc import Callable
from dataclasses import replace

from ....store.formats.batch import BatchUnit, decode_batch, encode_batch, encode_batch_records
from ....store.formats.host import Host
from ....store.log import commit_log
from ....store.log.commit_log import _encode_one
from ....store.message import Message
from ...claims.ranges import Ranges
from ..mutant import Mutant, Patch


# batch-shares-first-flag: the records of a batch all have the flag of its first message.
def _encode_batch_with_first_flag(
    units: bytes,
    *,
    topic: bytes,
    shared_properties: bytes,
    queue_id: int,
    sys_flag: int,
    born_timestamp_ms: int,
    born_host: Host,
    store_host: Host,
    reconsume_times: int,
    clean: Callable[[bytes], bytes] | None,
) -> tuple[bytearray, tuple[int, ...]]:
    first, *others = decode_batch(units)
    alike = [first, *(BatchUnit(first.flag, unit.body, unit.properties) for unit in others)]
    return encode_batch_records(
        encode_batch(alike),
        topic=topic,
        shared_properties=shared_properties,
        queue_id=queue_id,
        sys_flag=sys_flag,
        born_timestamp_ms=born_timestamp_ms,
        born_host=born_host,
        store_host=store_host,
        reconsume_times=reconsume_times,
        clean=clean,
    )


def _with_batches(ranges: Ranges) -> Ranges:
    return ranges.replace(messages={"batch_chance": (0.2,)})


BATCH_SHARES_FIRST_FLAG = Mutant(
    "batch-shares-first-flag",
    "record format",
    "every record of a batch has the flag of the batch's first message",
    (Patch(commit_log, "encode_batch_records", _encode_batch_with_first_flag),),
    _with_batches,
    ("DUR", "PREFIX"),
)


# born-time-in-seconds: the time a message was born loses its milliseconds.
def _encode_with_seconds(
    head: Message, sys_flag: int, flag: int, body: bytes, properties: bytes
) -> bytearray:
    born_ms = head.born_timestamp_ms // 1_000 * 1_000
    return _encode_one(replace(head, born_timestamp_ms=born_ms), sys_flag, flag, body, properties)


BORN_TIME_IN_SECONDS = Mutant(
    "born-time-in-seconds",
    "record format",
    "every record says that its message was born at the beginning of a second",
    (Patch(commit_log, "_encode_one", _encode_with_seconds),),
    None,
    ("DUR", "PREFIX"),
)


# hosts-swapped: a record has the host that stores where the host should be where its message was born.
def _encode_with_hosts_swapped(
    head: Message, sys_flag: int, flag: int, body: bytes, properties: bytes
) -> bytearray:
    if head.born_host.is_ipv6 == head.store_host.is_ipv6:
        head = replace(head, born_host=head.store_host, store_host=head.born_host)
    return _encode_one(head, sys_flag, flag, body, properties)


HOSTS_SWAPPED = Mutant(
    "hosts-swapped",
    "record format",
    "bornHost and storeHost change places where both are of one family",
    (Patch(commit_log, "_encode_one", _encode_with_hosts_swapped),),
    None,
    ("DUR", "PREFIX"),
)


# ipv6-host-cut-short: of an IPv6 address only the first eight bytes are kept, the network.
def _encode_with_short_address(
    head: Message, sys_flag: int, flag: int, body: bytes, properties: bytes
) -> bytearray:
    if head.born_host.is_ipv6:
        address = head.born_host.address[:8] + bytes(8)
        head = replace(head, born_host=Host(address, head.born_host.port))
    return _encode_one(head, sys_flag, flag, body, properties)


IPV6_HOST_CUT_SHORT = Mutant(
    "ipv6-host-cut-short",
    "record format",
    "the second half of every IPv6 bornHost is zeros",
    (Patch(commit_log, "_encode_one", _encode_with_short_address),),
    None,
    ("DUR", "PREFIX"),
)


# reconsume-times-zeroed: how often a message was consumed in vain begins anew in its record.
def _encode_never_reconsumed(
    head: Message, sys_flag: int, flag: int, body: bytes, properties: bytes
) -> bytearray:
    return _encode_one(replace(head, reconsume_times=0), sys_flag, flag, body, properties)


RECONSUME_TIMES_ZEROED = Mutant(
    "reconsume-times-zeroed",
    "record format",
    "every record of a single message says that it was never consumed in vain",
    (Patch(commit_log, "_encode_one", _encode_never_reconsumed),),
    None,
    ("DUR", "PREFIX"),
)


# record-flag-dropped: the user's flag of a message is not in its record.
def _encode_without_flag(
    head: Message, sys_flag: int, flag: int, body: bytes, properties: bytes
) -> bytearray:
    return _encode_one(head, sys_flag, 0, body, properties)


RECORD_FLAG_DROPPED = Mutant(
    "record-flag-dropped",
    "record format",
    "every record of a single message has a flag of 0, whatever its producer set",
    (Patch(commit_log, "_encode_one", _encode_without_flag),),
    None,
    ("DUR", "PREFIX"),
)
