"""Segment queue: RocketMQ's MappedFileQueue. One offset space over files of one size, in one directory or in several.

Names are offsets, so a listing in name order is the queue, and a gap between two names is damage: a load reports it and
keeps the files on both sides. Of several directories (MultiPathMappedFileQueue), segment number n goes to the
(n mod p)-th of the sorted ones that are open to new segments. Nothing writes down which that was: whatever directory
has a name has that segment.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence

from ..config import StoreConfig
from ..directories import directory_of
from ..errors import CorruptFileError
from ..marks import hit
from ..world import DiskSpace, Files, World
from .segment import Segment, first_nonzero, is_segment_name, segment_name

_GAP = "base offset"
"""The field that is wrong in a segment with a gap before it."""


class SegmentDirectories:
    """The directories of one queue."""

    def __init__(
        self,
        files: Files,
        writable: Sequence[str],
        read_only: Sequence[str] = (),
        *,
        used_ratio_max: float = 1.0,
    ) -> None:
        assert writable, "a queue without a directory for its segments"
        self.writable = tuple(sorted(writable))
        self.all = tuple(sorted({*writable, *read_only}))
        self._files = files
        self._used_ratio_max = used_ratio_max

    @classmethod
    def of_commit_log(cls, files: Files, config: StoreConfig) -> "SegmentDirectories":
        """Return those a store's log has."""
        return cls(
            files,
            config.writable_commit_log_directories,
            config.read_only_commit_log_directories,
            used_ratio_max=config.disk_space_clean_forcibly_ratio,
        )

    def present(self) -> list[str]:
        """Return the directories that exist."""
        return [directory for directory in self.all if self._files.status(directory) is not None]

    def paths(self) -> list[str]:
        """Return the path of everything in the directories that exist, in order of the names."""
        files = self._files
        found = [f"{at}/{name}" for at in self.present() for name in files.list_directory(at)]
        return sorted(found, key=name_of)

    def path(self, base_offset: int, segment_bytes: int) -> str:
        """Return the path of the segment that begins at base_offset: where it is, else where it is to be made."""
        name = segment_name(base_offset)
        if len(self.all) == 1:
            return f"{self.all[0]}/{name}"
        for directory in self.all:
            if self._files.status(f"{directory}/{name}") is not None:
                return f"{directory}/{name}"
        open_to_new = [directory for directory in self.writable if self._has_room(directory)] or self.writable
        return f"{open_to_new[base_offset // segment_bytes % len(open_to_new)]}/{name}"

    def _has_room(self, directory: str) -> bool:
        if self._files.status(directory) is None:
            return True  # it will be made
        return used_ratio(self._files.space(directory)) <= self._used_ratio_max


def used_ratio(space: DiskSpace) -> float:
    """Return the used part of what an ordinary user could use in all, from 0 to 1, rounded up to whole percents.

    Source: RocketMQ UtilAll.getDiskPartitionSpaceUsedPercent.
    """
    all_bytes = space.used_bytes + space.usable_bytes
    return -(-100 * space.used_bytes // all_bytes) / 100 if all_bytes else 1.0


def used_ratio_if_known(files: Files, path: str) -> float | None:
    """Return how full the disk of a directory is, None if the directory is not there or the disk does not say."""
    try:
        return used_ratio(files.space(path))
    except OSError:
        return None


def name_of(path: str) -> str:
    """Return a path's last name."""
    return path.rpartition("/")[2]


def _number_in(segments: Sequence[Segment], offset: int, segment_bytes: int) -> int:
    """Return the number of the last of some segments that begins at or before an offset, 0 if none does."""
    number = min(max(offset - segments[0].base_offset, 0) // segment_bytes, len(segments) - 1)
    if segments[number].base_offset > offset:  # a gap lies before that one, so fewer segments begin before the offset
        number = max(bisect_right(segments, offset, key=lambda segment: segment.base_offset) - 1, 0)
    return number


class SegmentQueue:
    """The segments of one row. One task appends, another removes from the front; any may read or flush.

    Invariant: each segment has segment_bytes and begins at a multiple of that, at the end of the one before it or, in a
    row that was loaded with `gaps`, after that. No gap comes later: a new segment begins at the end of the last one.
    Everything below flushed_where is durable; flushed_where moves back only when the row is cut.
    """

    def __init__(
        self,
        world: World,
        directory: str,
        segment_bytes: int,
        label: str,
        directories: SegmentDirectories | None = None,
    ) -> None:
        """directory is where everything is, unless directories says otherwise."""
        self.directory = directory
        self._directories = directories or SegmentDirectories(world.files, (directory,))
        self.segment_bytes = segment_bytes
        self.segments: tuple[Segment, ...] = ()
        """Replaced, never changed, so that a reader's copy stays whole."""
        self.flushed_where = world.tasks.cell(f"{label}.flushed_where")
        self.flushed_store_timestamp_ms = 0
        """Store time of the newest record that the last flush is known to have covered."""
        self.sync_error: OSError | None = None
        """Why a sync has failed in this life, so that readers may see older bytes again; None if none has."""
        self.strays: list[CorruptFileError] = []
        """What the last load found among the files that is none of them, and left alone."""
        self.gaps: list[CorruptFileError] = []
        """Where the last load found that segments are missing between two others."""
        self.lost_data = False
        """Whether the last load removed files that had something in them, or extended some."""
        self.extended: list[CorruptFileError] = []
        """The files that the last load found too short and extended."""
        self._row_lock = world.tasks.lock(f"{label} row")
        """Held while the row is replaced by one that is longer behind or shorter in front."""
        self.directory_is_durable = False
        """Whether the name of every segment that was created is synced; whoever syncs them says so."""
        self._leaving: tuple[Segment, ...] = ()
        """Segments that were never used, and whose files are not known to be gone for good."""
        self._world = world
        self._label = label

    # -- reading -----------------------------------------------------------------------------------

    def find(self, offset: int) -> Segment | None:
        """Return the segment that holds the byte at offset."""
        segments = self.segments
        if not segments or offset < segments[0].base_offset:
            return None
        segment = segments[_number_in(segments, offset, self.segment_bytes)]
        return segment if offset < segment.end_offset else None

    def number_of(self, offset: int) -> int:
        """Return the number of the segment that holds the byte at offset, else of the last one before it, else 0."""
        segments = self.segments
        return _number_in(segments, offset, self.segment_bytes) if segments else 0

    def at_or_after(self, offset: int) -> Segment | None:
        """Return the segment that holds the byte at offset, else the first one after it."""
        segments = self.segments
        if not segments:
            return None
        number = _number_in(segments, offset, self.segment_bytes)
        return next((one for one in segments[number : number + 2] if offset < one.end_offset), None)

    def last(self) -> Segment | None:
        """Return the segment that is appended to."""
        segments = self.segments
        return segments[-1] if segments else None

    @property
    def min_offset(self) -> int:
        """Return the first offset there is, -1 if there is none."""
        segments = self.segments
        return segments[0].base_offset if segments else -1

    @property
    def max_offset(self) -> int:
        """Return the offset behind the last byte readers may see, 0 if there is none."""
        segments = self.segments
        if not segments:
            return 0
        return segments[-1].base_offset + segments[-1].readable.get()

    @property
    def put_offset(self) -> int:
        """Return the offset behind the last byte that was put, whether readers may see it yet or not."""
        last = self.last()
        return 0 if last is None else last.base_offset + last.wrote.get()

    # -- growing -----------------------------------------------------------------------------------

    def path(self, base_offset: int) -> str:
        """Return the path of the segment that begins at base_offset, or where to make it."""
        return self._directories.path(base_offset, self.segment_bytes)

    def create(self, base_offset: int) -> Segment:
        """Make a segment's file and add it behind the last. Its name is not durable yet."""
        path = self.path(base_offset)
        self._world.files.make_directories(self.directory)  # durable with the segment's name, see directory_is_durable
        file = self._world.files.map(path, self.segment_bytes)
        segment = self.add(Segment(self._world.tasks, file, base_offset, self._label))
        self.directory_is_durable = False  # not before: it may be synced while the file is being made
        return segment

    def add(self, segment: Segment) -> Segment:
        """Add a segment behind the last."""
        assert segment.size_bytes == self.segment_bytes, (segment.size_bytes, self.segment_bytes)
        assert segment.base_offset % self.segment_bytes == 0, (segment.base_offset, self.segment_bytes)
        with self._row_lock:
            if not self.segments:
                self.flushed_where.set(segment.base_offset)
            else:
                end_offset = self.segments[-1].end_offset
                assert segment.base_offset == end_offset, (segment.base_offset, end_offset)
            self.segments = (*self.segments, segment)
        return segment

    # -- expiring ----------------------------------------------------------------------------------

    @property
    def first_is_removable(self) -> bool:
        """Return whether the first segment is not the last one, and durable to its end: no flush will ask for it."""
        segments = self.segments
        return len(segments) > 1 and self.flushed_where.get() >= segments[0].end_offset

    def remove_first(self) -> bool:
        """Remove the first segment, durably, and only then begin behind it; False if it is not removable.

        Whoever reads it may go on: its map goes with the last that knows it. Raises OSError, and the row stays as it
        is, if the file does not go or nobody knows whether it is gone for good; the next call then tries again.
        """
        if not self.first_is_removable:
            return False
        self._remove_front()
        return True

    def make_second_durable(self) -> None:
        """Make name and size of the segment behind the first durable, whatever there is in it."""
        assert len(self.segments) > 1, "there is no second segment"
        path = self.segments[1].file.path
        try:
            self._world.files.sync(path)
        except OSError as error:
            self.sync_error = error
            raise
        self._world.files.sync_directory(directory_of(path))

    def remove_in_use(self) -> None:
        """Remove every segment as `remove_first` does one. Nobody may append or flush any more.

        The last one has left the row as soon as its file is gone, be it for good or not: what comes later must not be
        put into a file that has no name.
        """
        while len(self.segments) > 1:
            self._remove_front()
        for segment in self.segments:
            self._world.files.unlink(segment.file.path)
            with self._row_lock:
                self.segments = ()
            self._world.files.sync_directory(directory_of(segment.file.path))

    def _remove_front(self) -> None:
        path = self.segments[0].file.path
        self._remove(path)
        with self._row_lock:
            assert self.segments[0].file.path == path, (self.segments[0].file.path, path)
            self.segments = self.segments[1:]

    # -- flushing ----------------------------------------------------------------------------------

    def flush(self, least_pages: int = 0) -> bool:
        """Flush the one segment that holds flushed_where, or the next one if that is in a gap; return whether it moved.

        A segment is left behind only when it is durable to its end, so everything below flushed_where is durable.
        """
        where = self.flushed_where.get()
        segment = self.at_or_after(where)
        if segment is None:
            return False
        store_timestamp_ms = segment.readable_store_timestamp_ms
        try:
            flushed = segment.base_offset + segment.flush(least_pages)
        except OSError as error:
            self.sync_error = error
            raise
        if flushed == where:
            return False
        assert where < flushed <= segment.end_offset, (where, flushed, segment.end_offset)
        self.flushed_store_timestamp_ms = store_timestamp_ms
        self.flushed_where.set(flushed)
        return True

    def flush_all(self, least_pages: int = 0) -> None:
        """Flush until no segment has as much left."""
        while self.flush(least_pages):
            pass

    def sync_page(self, offset: int) -> None:
        """Sync the page of the byte at offset. Raises OSError if the file was not written back, now or unnoticed.

        Nothing is left to sync of what retention has removed meanwhile.
        """
        segment = self.find(offset)
        if segment is None:
            return
        position = offset - segment.base_offset
        try:
            segment.file.msync(position, position + 1)
        except OSError as error:
            self.sync_error = error
            raise

    def make_durable(self, first: int) -> None:
        """Make the segments from the one numbered first on durable, sizes and names included.

        A process that was killed may have left files that only the page cache knows: the next power cut must not
        take them from under what is put there now.
        """
        self.flush_all()
        for segment in self.segments[first:]:
            self._world.files.sync(segment.file.path)
        for directory in sorted({directory_of(segment.file.path) for segment in self.segments}):
            self._world.files.sync_directory(directory)

    # -- opening and cutting -----------------------------------------------------------------------

    def load(self, *, before_loss: Callable[[], None] | None = None) -> None:
        """Map what is in the directories; every segment counts as full until recovery says otherwise.

        Files that a crash left half made, and all files after them, are removed if `is_expendable` says that no data is
        lost with them. A gap before data is reported in `gaps`, and the files on both sides stay: only retention knows
        which of them have expired. What `is_stray` is left alone. Raises CorruptFileError on any other name, a wrong
        size with data in the file or after it, or data under one name in two directories. before_loss: called before
        files go that have something in them, or are extended.
        """
        files = self._world.files
        self.strays, self.gaps = [], []
        bases = self._find_bases()
        for index, error in self._irregular(bases):
            if all(self.is_expendable(base) for base in bases[index:]):
                hit("half-made files removed")
                self.lost_data = not all(self._holds_nothing(self.path(base)) for base in bases[index:])
                if self.lost_data and before_loss is not None:
                    before_loss()
                for base in reversed(bases[index:]):
                    self.remove_file(base)
                del bases[index:]
                break
            if error.field != _GAP:
                raise error
            hit("gap between segments")
            self.gaps.append(error)
        self.extended = [
            CorruptFileError(self.path(base), 0, "file size", self.segment_bytes, size_bytes)
            for base in bases
            if (size_bytes := self._size_of(base)) < self.segment_bytes
        ]
        if self.extended:
            hit("short queue file extended")
            self.lost_data = True
            if before_loss is not None:
                before_loss()
        segments = []
        for base in bases:
            file = files.map(self.path(base), self.segment_bytes)
            segment = Segment(self._world.tasks, file, base, self._label)
            segment.set_positions(self.segment_bytes, self.segment_bytes)
            segments.append(segment)
        self.segments = tuple(segments)

    def _find_bases(self) -> list[int]:
        """Return where the segments begin that there are files of, the lowest first."""
        paths: dict[int, str] = {}
        for path in self._directories.paths():
            name = name_of(path)
            if not is_segment_name(name) and self.is_stray(path):
                self.strays.append(CorruptFileError(path, 0, "file name", "20 digits", name))
                continue
            if not is_segment_name(name) or int(name) % self.segment_bytes:
                expected = f"20 digits, a multiple of {self.segment_bytes}"
                raise CorruptFileError(path, 0, "file name", expected, name)
            base = int(name)
            twin = paths.get(base)
            paths[base] = path if twin is None else self._keep_one(twin, path)
        return list(paths)

    def _keep_one(self, first: str, second: str) -> str:
        """Remove that one of two files of one name which holds nothing; return the other.

        The making of a segment that failed or was cut short in one directory may have been repeated in another.
        """
        for empty, other in ((second, first), (first, second)):
            if self._holds_nothing(empty):
                self._remove(empty)
                return other
        raise CorruptFileError(second, 0, "file name", "a name that no other directory has", f"{first} too")

    def _irregular(self, bases: list[int]) -> Iterator[tuple[int, CorruptFileError]]:
        """Yield the number of each file with a wrong size or a gap before it, and the error."""
        for index, base in enumerate(bases):
            path = self.path(base)
            if index and base != bases[index - 1] + self.segment_bytes:
                expected = f"the next segment, {segment_name(bases[index - 1] + self.segment_bytes)}"
                yield index, CorruptFileError(path, 0, _GAP, expected, segment_name(base))
            status = self._world.files.status(path)
            if status is None:  # a symbolic link to nowhere
                yield index, CorruptFileError(path, 0, "file", "a file", "nothing behind the name")
            elif status.is_directory or (status.size_bytes != self.segment_bytes and not self.can_extend(base)):
                found = "a directory" if status.is_directory else status.size_bytes
                yield index, CorruptFileError(path, 0, "file size", self.segment_bytes, found)

    def is_stray(self, path: str) -> bool:
        """Return whether what has no segment's name is none of the row's: a directory, as `lost+found` is one."""
        status = self._world.files.status(path)
        return status is not None and status.is_directory

    def is_expendable(self, base_offset: int) -> bool:
        """Return whether a file holds nothing: it is not too long, and all zero."""
        return self._holds_nothing(self.path(base_offset))

    def can_extend(self, base_offset: int) -> bool:
        """Return whether a file that is too short is extended with zeros: recovery would have to fill in the rest."""
        return False

    def _size_of(self, base_offset: int) -> int:
        status = self._world.files.status(self.path(base_offset))
        return 0 if status is None else status.size_bytes

    def _holds_nothing(self, path: str) -> bool:
        status = self._world.files.status(path)
        if status is None or status.is_directory or status.size_bytes > self.segment_bytes:
            return False
        if not status.size_bytes:
            return True
        file = self._world.files.map(path, status.size_bytes)
        expendable = first_nonzero(file.view(0, status.size_bytes)) is None
        file.close()
        return expendable

    def remove_file(self, base_offset: int) -> None:
        """Remove one segment's file, durably, so that removals from the end backwards never leave a gap."""
        self._remove(self.path(base_offset))

    def _remove(self, path: str) -> None:
        if self._world.files.status(path) is not None:  # else an attempt before could not sync the directory
            self._world.files.unlink(path)
        self._world.files.sync_directory(directory_of(path))

    def truncate(self, offset: int, *, syncs_zeros: bool = False) -> bool:
        """Forget everything from offset on, durably; return whether anything but zeros went.

        Segments behind it are removed, the newest first; the rest of the one that holds it is zeroed. syncs_zeros: as
        `Segment.clear_from` has it.
        """
        assert offset >= 0, offset
        dirty = False
        while self.segments and self.segments[-1].base_offset > offset:
            dirty |= self._remove_last()
        segment = self.find(offset)
        if segment is not None:
            position = offset - segment.base_offset
            dirty |= segment.clear_from(position, syncs_zeros=syncs_zeros)
            segment.set_positions(position, min(position, segment.flushed.get()))
        if self.flushed_where.get() > offset:
            self.flushed_where.set(offset)
        return dirty

    def _remove_last(self) -> bool:
        segment = self.segments[-1]
        dirty = first_nonzero(segment.file.view(0, segment.size_bytes)) is not None
        self.remove_file(segment.base_offset)
        self.segments = self.segments[:-1]
        segment.file.close()
        return dirty

    def remove_all(self) -> None:
        """Forget every segment, durably."""
        while self.segments:
            self._remove_last()
        self.flushed_where.set(0)

    def forget_unused(self) -> None:
        """Forget the segments of a row that holds nothing, durably: the row can then begin anywhere.

        Raises OSError if a file does not go, or nobody knows whether it is gone for good; the next call tries again.
        The row is without segments then, too: what comes later must not be put into a file that has no name.
        """
        self._leaving += self.segments
        self.segments = ()  # first, for others look at the row meanwhile
        for segment in reversed(self._leaving):
            self._remove(segment.file.path)
        self.flushed_where.set(0)
        for segment in self._leaving:
            segment.file.close()
        self._leaving = ()

    def close(self) -> None:
        """Give every mapping back."""
        for segment in (*self._leaving, *self.segments):
            segment.file.close()
