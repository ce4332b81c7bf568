"""Queue extension: variable-size units, addressed by the entries of one queue.

Units are optional. If a unit is missing or belongs to a different record, recovery rewrites its entry with the plain
tagsCode. Readers treat the tags of a missing unit as unknown. An address is not reused while an entry may contain it.
The queue's writer writes units too; any task reads. Source: RocketMQ ConsumeQueueExt.
"""

from ..errors import CorruptFileError
from ..formats.consume_queue import (
    END_BYTES,
    END_MARK,
    NO_ADDRESS,
    OFFSET_MAX,
    UNIT_BYTES_MAX,
    UNIT_BYTES_MIN,
    ExtUnit,
    address_of,
    decode_unit,
    encode_unit,
    is_ext_address,
    offset_of,
    unit_bytes_at,
)
from ..log.segment import Segment
from ..log.segment_queue import SegmentQueue
from ..world import World


class ExtSegments(SegmentQueue):
    """The files of one extension. They never prevent a start, because entries work without units."""

    def is_stray(self, path: str) -> bool:
        return True

    def is_expendable(self, base_offset: int) -> bool:
        """Return whether it is a file, whatever its contents."""
        status = self._world.files.status(self.path(base_offset))
        return status is None or not status.is_directory


class ConsumeQueueExt:
    """The extension of one queue. Invariant: an address is assigned once, and units fill files in order."""

    def __init__(self, world: World, directory: str, segment_bytes: int, topic: str, queue_id: int) -> None:
        self.queue = ExtSegments(world, directory, segment_bytes, f"consumequeue_ext {topic}/{queue_id}")
        self._first_base_offset = 0
        """Start of the first file in an empty extension: after all addresses that an entry may still contain."""
        self._unvouched_offset: int | None = None
        """Offset of the first recovered unit that is not known to be durable."""

    # -- writing -----------------------------------------------------------------------------------

    def put(self, unit: ExtUnit) -> int:
        """Store a unit and return its address, or NO_ADDRESS if it is too long or no file can be created."""
        size_bytes = UNIT_BYTES_MIN + len(unit.bit_map)
        if size_bytes > min(UNIT_BYTES_MAX, self.queue.segment_bytes - END_BYTES):
            return NO_ADDRESS
        try:
            segment, position = self._place_for(size_bytes)
        except OSError:
            return NO_ADDRESS
        offset = segment.base_offset + position
        if offset > OFFSET_MAX:
            return NO_ADDRESS
        segment.append(position, encode_unit(unit))
        return address_of(offset)

    def _place_for(self, size_bytes: int) -> tuple[Segment, int]:
        segment = self.queue.last()
        if segment is None:
            return self.queue.create(self._first_base_offset), 0
        position = segment.wrote.get()
        room = segment.size_bytes - position
        if size_bytes + END_BYTES <= room:
            return segment, position
        if room:
            segment.close_with(position, END_MARK)
        return self.queue.create(segment.end_offset), 0

    def expire(self, address: int) -> None:
        """Remove the files before the first needed unit. Codes that are not addresses are ignored.

        After an error the rest is removed by a later call.
        """
        if not is_ext_address(address):
            return
        offset = offset_of(address)
        try:
            while self.queue.min_offset + self.queue.segment_bytes < offset and self.queue.remove_first():
                pass
        except OSError:
            return

    # -- recovering --------------------------------------------------------------------------------

    def load(self) -> None:
        """Map the files, and find the end of the last one's units.

        A file of the wrong size or after a gap is removed, with all later files. Raises CorruptFileError for a segment
        name that is invalid here.
        """
        self.queue.load()
        last = self.queue.last()
        if last is not None:
            end = _end_of_units(last)
            last.set_positions(end, end)

    def kept(self, address: int, tags_code: int, store_timestamp_ms: int, *, vouched: bool) -> bool:
        """Return whether an address may stay: its unit has the record's code and time.

        vouched: whether unit and entry are known to be durable.
        """
        unit = self.get(address)
        if unit is None or (unit.tags_code, unit.store_timestamp_ms) != (tags_code, store_timestamp_ms):
            return False
        if not vouched:
            offset, first = offset_of(address), self._unvouched_offset
            self._unvouched_offset = offset if first is None else min(offset, first)
        return True

    def recovered(self, last_address: int | None) -> None:
        """Truncate after the last referenced unit, and rewrite units from the first unvouched one on.

        last_address is the last address in the queue's entries. If its unit is missing, all others are removed, and new
        addresses start after it: a later unit must not be taken for the lost one.
        """
        unit = None if last_address is None else self.get(last_address)
        if last_address is None or unit is None:
            self.queue.remove_all()
            per_file = self.queue.segment_bytes
            self._first_base_offset = (
                0 if last_address is None else (offset_of(last_address) // per_file + 1) * per_file
            )
            return
        end = offset_of(last_address) + UNIT_BYTES_MIN + len(unit.bit_map)
        assert self.queue.min_offset <= end, (self.queue.min_offset, end)
        self.queue.truncate(end)
        flushed = end if self._unvouched_offset is None else self._unvouched_offset
        for segment in self.queue.segments:
            wrote = segment.wrote.get()
            start = min(max(flushed - segment.base_offset, 0), wrote)
            segment.set_positions(wrote, start)
            segment.write_again(start, wrote)
        self.queue.flushed_where.set(flushed)

    # -- reading -----------------------------------------------------------------------------------

    def get(self, address: int) -> ExtUnit | None:
        offset = offset_of(address)
        segment = self.queue.find(offset)
        if segment is None:
            return None
        position = offset - segment.base_offset
        try:
            view = segment.file.view(0, segment.wrote.get())
            return decode_unit(view, position, len(view), file=segment.file.path)
        except CorruptFileError:
            return None


def _end_of_units(segment: Segment) -> int:
    """Return the end of a file's units: the whole file if it has an end mark, else the first position without a valid
    unit.
    """
    view, at = segment.file.view(0, segment.size_bytes), 0
    try:
        while size_bytes := unit_bytes_at(view, at, segment.size_bytes, file=segment.file.path):
            at += size_bytes
    except CorruptFileError:
        return at
    return segment.size_bytes if view[at : at + len(END_MARK)] == END_MARK else at
