"""batch-shares-first-flag: the records of a batch all have the flag of its first message."""

from collections.abc import Callable
from dataclasses import replace

from ...store.formats.batch import BatchUnit, decode_batch, encode_batch
from ...store.formats.batch_records import encode_batch_records
from ...store.formats.host import Host
from ...store.log import commit_log
from ..claims.plan import Ranges
from .mutant import Mutant, Patch


def _records(
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


def _narrow(ranges: Ranges) -> Ranges:
    return replace(ranges, batch_chance=(0.2,))


MUTANT = Mutant(
    "batch-shares-first-flag",
    "record format",
    "every record of a batch has the flag of the batch's first message",
    (Patch(commit_log, "encode_batch_records", _records),),
    _narrow,
    ("DUR", "PREFIX"),
)
