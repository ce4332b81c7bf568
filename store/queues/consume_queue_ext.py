"""Extension of one consume queue: units of variable size in a row of files, addressed by the queue's entries.

It is a help, never the truth: an entry whose unit is missing or not its record's own is written again with its plain
tagsCode by recovery, and whoever meets a missing unit treats the tags as unknown. An address is never used twice for
as long as an entry may hold it. The queue's one writer writes here too; any task reads.
Source: RocketMQ ConsumeQueueExt.
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
    """The files of one extension. None is worth a refusal to start: entries can do without."""

    def is_stray(self, path: str) -> bool:
        """Return True, whatever it is."""
        return True

    def is_expendable(self, base_offset: int) -> bool:
        """Return whether the name is a file's, whatever is in it."""
        status = self._world.files.status(self.path(base_offset))
        return status is None or not status.is_directory


class ConsumeQueueExt:
    """The extension of one queue of one topic. Invariant: no address is given twice, and units fill files in order."""

    def __init__(self, world: World, directory: str, segment_bytes: int, topic: str, queue_id: int) -> None:
        self.queue = ExtSegments(world, directory, segment_bytes, f"consumequeue_ext {topic}/{queue_id}")
        self._first_base_offset = 0
        """Where the first file begins when there is none: behind every address that an entry may still hold."""
        self._unvouched_offset: int | None = None
        """Offset of the first unit, of those that recovery kept, of which nothing says that it is durable."""

    # -- writing -----------------------------------------------------------------------------------

    def put(self, unit: ExtUnit) -> int:
        """Keep a unit; return its address, or NO_ADDRESS if it is too long or no file can be had for it."""
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
        """Return a file and the position in it that has room for a unit and an end mark."""
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
        """Remove the files in front of the first unit that is still needed; any other code says nothing.

        What does not go now goes another time.
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
        """Map what is there, and find where the last file's units end.

        A file of the wrong size or behind a gap is removed with all behind it. Raises CorruptFileError on a name of a
        segment that cannot be one of these.
        """
        self.queue.load()
        last = self.queue.last()
        if last is not None:
            end = _end_of_units(last)
            last.set_positions(end, end)

    def kept(self, address: int, tags_code: int, store_timestamp_ms: int, *, vouched: bool) -> bool:
        """Return whether an address leads to the unit of a record with that code and time, and may stay in its entry.

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
        """Cut what is behind the last unit that an entry leads to; from the first unvouched one on, write it again.

        last_address: the address in the queue's last entry that has one. If no unit is there, all others go too and
        addresses begin anew behind it: a later unit must not be taken for the lost one.
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
        """Return the unit with that address, None if none is there."""
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
    """Return where the units of a file end: the whole file if an end mark closes it, else where none can be read."""
    view, at = segment.file.view(0, segment.size_bytes), 0
    try:
        while size_bytes := unit_bytes_at(view, at, segment.size_bytes, file=segment.file.path):
            at += size_bytes
    except CorruptFileError:
        return at
    return segment.size_bytes if view[at : at + len(END_MARK)] == END_MARK else at
