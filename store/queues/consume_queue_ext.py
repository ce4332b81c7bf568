"""Queue extension: stores units of variable size for the entries of one queue.

If a unit is missing or belongs to another record, recovery replaces its address in the entry by the plain tagsCode, and
a reader treats the tags as unknown. An address is not reused while an entry may contain it. Only the task that writes
the queue writes units. Any task may read them. Source: RocketMQ ConsumeQueueExt.
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
    decode_unit,
    encode_unit,
    ext_address_of,
    ext_offset_of,
    is_ext_address,
    unit_bytes_at,
)
from ..log.segment import Segment
from ..log.segment_queue import SegmentQueue
from ..world import World


class ExtSegments(SegmentQueue):
    """The files of one extension. Damaged files never prevent a start, because entries do not need units."""

    def is_ignored(self, path: str) -> bool:
        return True

    def is_expendable(self, base_offset: int) -> bool:
        """Return True for any content."""
        status = self._world.files.status(self.path(base_offset))
        return status is None or not status.is_directory


class ConsumeQueueExt:
    """The extension of one queue.

    Invariant: each address belongs to one unit, and units are stored in order of addresses.
    """

    def __init__(self, world: World, directory: str, segment_bytes: int, topic: str, queue_id: int) -> None:
        self.queue = ExtSegments(world, directory, segment_bytes, f"consumequeue_ext {topic}/{queue_id}")
        self._first_base_offset = 0
        """Base offset for the first file of an empty extension, after all addresses that entries may contain."""
        self._undurable_offset: int | None = None
        """Offset of the first recovered unit that may not be durable, so it is written again."""

    # -- writing -----------------------------------------------------------------------------------

    def put(self, unit: ExtUnit) -> int:
        """Store a unit. Returns its address, or NO_ADDRESS if the unit is too long or no file can be created."""
        size_bytes = UNIT_BYTES_MIN + len(unit.bit_map)
        if size_bytes > min(UNIT_BYTES_MAX, self.queue.segment_bytes - END_BYTES):
            return NO_ADDRESS
        try:
            segment, position = self._segment_with_room(size_bytes)
        except OSError:
            return NO_ADDRESS
        offset = segment.base_offset + position
        if offset > OFFSET_MAX:
            return NO_ADDRESS
        segment.append(position, encode_unit(unit))
        return ext_address_of(offset)

    def _segment_with_room(self, size_bytes: int) -> tuple[Segment, int]:
        segment = self.queue.last_segment()
        if segment is None:
            return self.queue.create(self._first_base_offset), 0
        position = segment.wrote.get()
        room = segment.size_bytes - position
        if size_bytes + END_BYTES <= room:
            return segment, position
        if room:
            segment.close_with_blank(position, END_MARK)
        return self.queue.create(segment.end_offset), 0

    def remove_before(self, address: int) -> None:
        """Remove the files before the unit at `address`. No effect for a tags code that is not an address.

        After an OSError, a later call removes the remaining files.
        """
        if not is_ext_address(address):
            return
        offset = ext_offset_of(address)
        try:
            while self.queue.min_offset + self.queue.segment_bytes < offset and self.queue.remove_first():
                pass
        except OSError:
            return

    # -- recovering --------------------------------------------------------------------------------

    def load(self) -> None:
        """Map the files, and find the end of the units in the last file.

        Removes a file that has the wrong size or comes after a gap, and all later files. Raises CorruptFileError if a
        file's name is a number but no multiple of the segment size.
        """
        self.queue.load()
        last = self.queue.last_segment()
        if last is not None:
            end = _end_of_units(last)
            last.set_positions(end, end)

    def may_keep_address(self, address: int, tags_code: int, store_timestamp_ms: int, *, is_durable: bool) -> bool:
        """Return whether an entry may keep its address, because the unit has the record's tags code and store time.

        is_durable: whether unit and entry are known to be durable.
        """
        unit = self.get(address)
        if unit is None or (unit.tags_code, unit.store_timestamp_ms) != (tags_code, store_timestamp_ms):
            return False
        if not is_durable:
            offset, first = ext_offset_of(address), self._undurable_offset
            self._undurable_offset = offset if first is None else min(offset, first)
        return True

    def truncate_to_last_used(self, last_address: int | None) -> None:
        """Truncate after the last unit that an entry refers to, and rewrite the units that may not be durable.

        last_address is the last address in an entry. If the unit at last_address is missing, all units are removed, and
        new addresses start after last_address. So no entry refers to the unit of another record.
        """
        unit = None if last_address is None else self.get(last_address)
        if last_address is None or unit is None:
            self.queue.remove_all()
            per_file = self.queue.segment_bytes
            self._first_base_offset = (
                0 if last_address is None else (ext_offset_of(last_address) // per_file + 1) * per_file
            )
            return
        end = ext_offset_of(last_address) + UNIT_BYTES_MIN + len(unit.bit_map)
        assert self.queue.min_offset <= end, (self.queue.min_offset, end)
        self.queue.truncate(end)
        flushed = end if self._undurable_offset is None else self._undurable_offset
        for segment in self.queue.segments:
            wrote = segment.wrote.get()
            start = min(max(flushed - segment.base_offset, 0), wrote)
            segment.set_positions(wrote, start)
            segment.write_again(start, wrote)
        self.queue.flushed_where.set(flushed)

    # -- reading -----------------------------------------------------------------------------------

    def get(self, address: int) -> ExtUnit | None:
        offset = ext_offset_of(address)
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
    """Return the first position without a valid unit. If the units end with an end marker, return the file's length."""
    view, at = segment.file.view(0, segment.size_bytes), 0
    try:
        while size_bytes := unit_bytes_at(view, at, segment.size_bytes, file=segment.file.path):
            at += size_bytes
    except CorruptFileError:
        return at
    return segment.size_bytes if view[at : at + len(END_MARK)] == END_MARK else at
