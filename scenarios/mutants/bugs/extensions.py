"""Bugs of queue extensions: units and their addresses."""

from collections.abc import Callable

from ....store.formats.consume_queue import END_BYTES, END_MARK, NO_ADDRESS, ExtUnit, ext_offset_of, is_ext_address
from ....store.log.segment import Segment
from ....store.log.segment_queue import SegmentQueue
from ....store.queues import consume_queue_ext
from ....store.queues.consume_queue import ConsumeQueue
from ....store.queues.consume_queue_ext import ConsumeQueueExt, ExtSegments
from ...claims.catalogue import SCENARIOS
from ...claims.ranges import Ranges
from ..mutant import bit, bug, needs

_EXTENDED = Ranges(settings={"enable_consume_queue_ext": (True,)}, endings=("stop",), messages_each=(8, 16))


# Filters then decide by the tag only. The units of earlier starts stay in use.
@bug("units-unwritten", ConsumeQueueExt, "put", found_by=("CQ-VALID",))
@needs(_EXTENDED)
def put_nothing(self: ConsumeQueueExt, unit: ExtUnit) -> int:
    """No units are written although `enableConsumeQueueExt` is on."""
    bit()
    return NO_ADDRESS


# The next start takes each such unit for that of another record.
@bug("units-without-store-time", consume_queue_ext, "encode_unit", found_by=("CQ-VALID",))
@needs(_EXTENDED)
def encode_without_time(unit: ExtUnit) -> bytes:
    """Units have no store time."""
    bit(unit.store_timestamp_ms > 0)
    return encode_without_time.original(unit._replace(store_timestamp_ms=0))


# A power cut then leaves entries that lead to no unit, and the checkpoint covers them.
@bug("units-unsynced", ConsumeQueue, "flush", found_by=("CKPT",))
@needs(_EXTENDED, pauses={"chance": (0.5,), "ms_max": (3000,)})
def flush_entries_only(self: ConsumeQueue, least_pages: int) -> None:
    """Only the entries of an extended queue are flushed."""
    bit(self.ext is not None and self.ext.queue.max_offset > self.ext.queue.flushed_where.get())
    self.queue.flush_all(least_pages)


# RocketMQ walks the units of a file from its start, so it takes zeros for the end of all units.
@bug("full-extension-without-mark", ConsumeQueueExt, "_segment_with_room", found_by=("CQ-VALID",))
@needs(_EXTENDED)
def go_on_without_mark(self: ConsumeQueueExt, size_bytes: int) -> tuple[Segment, int]:
    """A full file of an extension does not end with the end mark."""
    last = self.queue.last_segment()
    end = None if last is None else last.wrote.get()
    found = go_on_without_mark.original(self, size_bytes)
    if last is not None and end is not None and bit(found[0] is not last and end < last.size_bytes):
        last.file.store(end, bytes(len(END_MARK)))
    return found


# RocketMQ cuts an extension in truncateByMaxAddress.
@bug("units-kept-after-cut", SegmentQueue, "truncate", found_by=("CQ-VALID", "IDEMPOTENT"))
@needs(_EXTENDED.replace(lives=(2, 3), endings=("crash in traffic", "crash at rest", "stop")))
def keep_units(self: SegmentQueue, offset: int, *, syncs_zeros: bool = False) -> bool:
    """A recovery removes queue entries, but not their units."""
    if not isinstance(self, ExtSegments):
        return keep_units.original(self, offset, syncs_zeros=syncs_zeros)
    bit(self.max_offset > offset)
    return False


@bug("exactly-full-extension-without-mark", ConsumeQueueExt, "_segment_with_room", found_by=("CQ-VALID", "FILES"))
@needs(_EXTENDED.replace(settings={"enable_consume_queue_ext": (True,), "mapped_file_size_consume_queue_ext": (404,)}))
def go_on_without_room_for_mark(self: ConsumeQueueExt, size_bytes: int) -> tuple[Segment, int]:
    """A file of an extension does not end with the end mark if exactly its bytes are left."""
    last = self.queue.last_segment()
    is_exact = last is not None and last.size_bytes - last.wrote.get() == END_BYTES
    found = go_on_without_room_for_mark.original(self, size_bytes)
    if last is not None and bit(is_exact):
        last.file.store(last.size_bytes - END_BYTES, bytes(END_BYTES))
    return found


# Pulls by tag then also return messages with other tags.
@bug("expiry-removes-units-in-use", ConsumeQueueExt, "remove_before", found_by=("CQ-VALID",))
@needs(
    SCENARIOS["retention-oldest-first"].ranges,
    settings={"enable_consume_queue_ext": (True,), "mapped_file_size_consume_queue_ext": (104,)},
    retention={"deletes_segments": (True,)},
    endings=("stop",),
)
def remove_up_to(self: ConsumeQueueExt, address: int) -> None:
    """An expiry also removes the file of an extension that contains the first unit in use."""
    remove_up_to.original(self, address)
    if is_ext_address(address):
        is_inside = self.queue.min_offset < ext_offset_of(address)
        if bit(is_inside and len(self.queue.segments) > 1):
            self.queue.remove_first()


# An entry that points into damage keeps its address. If this unit is lost, the units of earlier entries are removed.
@bug("addresses-outlive-their-units", ConsumeQueue, "replace_addresses", found_by=("IDEMPOTENT",))
@needs(
    SCENARIOS["recovery-on-lying-disk"].ranges,
    settings={"enable_consume_queue_ext": (True,), "mapped_file_size_consume_queue_ext": (104,)},
    faults={"lying_sync_chance": (1.0,), "failed_sync_chance": (0.0,)},
    commit_log_bytes=(2048,),
    messages={"body_bytes_max": (700,), "batch_chance": (0.0,)},
    recover_whole_log=(True,),
    sync_flush=(True,),
    topics=(1,),
    queues_per_topic=(1,),
    consume_queue_bytes=(100,),
    messages_each=(16,),
    endings=("crash in traffic", "crash at rest"),
    lives=(2, 3),
)
def keep_addresses(self: ConsumeQueue, end: int, log_begin: int, before_change: Callable[[], None]) -> list[int]:
    """A recovery that removes all units of an extension keeps the addresses in the queue entries."""
    last = None if self.ext is None else self._last_ext_address_before(end)
    bit(self.ext is not None and last is not None and self.ext.get(last) is None and self.ext.queue.max_offset > 0)
    return []
