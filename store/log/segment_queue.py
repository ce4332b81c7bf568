"""Segment queue: one offset space over equally long files in some directories.

RocketMQ's MappedFileQueue. File names are base offsets. A gap between two names is damage: `load` reports the gap, and
keeps the files before and after it. With p directories (MultiPathMappedFileQueue), segment n is created in number (n
mod p) of the sorted directories that accept new segments. No file stores this choice, so `load` searches all
directories for each segment.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence

from ..config import StoreConfig
from ..directories import directory_of
from ..errors import CorruptFileError
from ..marks import count_mark
from ..world import DiskSpace, Files, World
from .segment import Segment, first_nonzero, is_segment_name, segment_name

_GAP = "base offset"


class SegmentDirectories:
    """The directories of one queue's segment files."""

    def __init__(
        self, files: Files, writable: Sequence[str], read_only: Sequence[str] = (), *, used_ratio_max: float = 1.0
    ) -> None:
        assert writable, "a queue needs a writable directory"
        self.writable = tuple(sorted(writable))
        self.all = tuple(sorted({*writable, *read_only}))
        self.found: list[str] = []
        """The directories that existed at the last call of `paths`."""
        self._files = files
        self._used_ratio_max = used_ratio_max

    @classmethod
    def of_commit_log(cls, files: Files, config: StoreConfig) -> "SegmentDirectories":
        return cls(
            files,
            config.writable_commit_log_directories,
            config.read_only_commit_log_directories,
            used_ratio_max=config.disk_space_clean_forcibly_ratio,
        )

    def existing_directories(self) -> list[str]:
        return [directory for directory in self.all if self._files.status(directory) is not None]

    def paths(self) -> list[str]:
        files = self._files
        self.found = self.existing_directories()
        paths = [f"{at}/{name}" for at in self.found for name in files.list_directory(at)]
        return sorted(paths, key=file_name_of)

    def path(self, base_offset: int, segment_bytes: int) -> str:
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
            return True  # the store will create it
        ratio = try_used_ratio(self._files, directory)
        # Like RocketMQ, count a directory as full only if its usage is known.
        return ratio is None or ratio <= self._used_ratio_max


def used_ratio(space: DiskSpace) -> float:
    """Return the used part of the space for ordinary users: 0 to 1, rounded up to whole percents.

    Source: RocketMQ UtilAll.getDiskPartitionSpaceUsedPercent.
    """
    all_bytes = space.used_bytes + space.usable_bytes
    return -(-100 * space.used_bytes // all_bytes) / 100 if all_bytes else 1.0


def try_used_ratio(files: Files, path: str) -> float | None:
    """Return the used ratio of a directory's disk; None if the directory is missing or its usage is unknown."""
    try:
        return used_ratio(files.space(path))
    except OSError:
        return None


def file_name_of(path: str) -> str:
    return path.rpartition("/")[2]


def segment_index(segments: Sequence[Segment], offset: int, segment_bytes: int) -> int:
    """Return the index of the last segment that begins at or before `offset`, else 0."""
    number = (offset - segments[0].base_offset) // segment_bytes
    number = 0 if number < 0 else number if number < len(segments) else len(segments) - 1  # `min` would take longer
    if segments[number].base_offset > offset:  # a gap precedes this segment, so its index is lower
        number = max(bisect_right(segments, offset, key=lambda segment: segment.base_offset) - 1, 0)
    return number


class SegmentQueue:
    """The segments of one queue. One task appends, one task removes the oldest segments, any task may read or flush.

    Invariant: each segment is segment_bytes long. Its base offset is a multiple of segment_bytes, and equals the end of
    the previous segment, except at the `gaps` that `load` found. All bytes before flushed_where are durable; only a
    truncation lowers flushed_where.
    """

    def __init__(
        self,
        world: World,
        directory: str,
        segment_bytes: int,
        label: str,
        directories: SegmentDirectories | None = None,
    ) -> None:
        """Without `directories`, all files are in `directory`."""
        self.directory = directory
        self._directories = directories or SegmentDirectories(world.files, (directory,))
        self.segment_bytes = segment_bytes
        self.segments: tuple[Segment, ...] = ()
        """Each change creates a new tuple, so that a reader can keep the old one."""
        self.flushed_where = world.tasks.cell(f"{label}.flushed_where")
        self.flushed_store_timestamp_ms = 0
        """Store time of a record that the last flush made durable. Newer records may be durable too."""
        self.sync_error: OSError | None = None
        """Error of the last failed sync since the start. After a failed sync, reads may return older bytes."""
        self.unknown_entries: list[CorruptFileError] = []
        """Ignored directory entries without a segment name, found by the last `load`."""
        self.gaps: list[CorruptFileError] = []
        self.lost_data = False
        """Whether the last `load` removed files with data or extended short files."""
        self.extended: list[CorruptFileError] = []
        self._segments_lock = world.tasks.lock(f"{label} row")
        self.directory_is_durable = False
        self._segments_to_remove: tuple[Segment, ...] = ()
        """Segments that have left the queue. The removal of their files may not be durable yet."""
        self._world = world
        self._label = label

    # -- reading -----------------------------------------------------------------------------------

    def find(self, offset: int) -> Segment | None:
        segments = self.segments
        if not segments or offset < segments[0].base_offset:
            return None
        segment = segments[segment_index(segments, offset, self.segment_bytes)]
        return segment if offset < segment.end_offset else None

    def segment_index_of(self, offset: int) -> int:
        segments = self.segments
        return segment_index(segments, offset, self.segment_bytes) if segments else 0

    def segment_at_or_after(self, offset: int) -> Segment | None:
        segments = self.segments
        if not segments:
            return None
        number = segment_index(segments, offset, self.segment_bytes)
        for one in segments[number : number + 2]:
            if offset < one.end_offset:
                return one
        return None

    def last_segment(self) -> Segment | None:
        segments = self.segments
        return segments[-1] if segments else None

    @property
    def min_offset(self) -> int:
        """First offset; -1 without a segment."""
        segments = self.segments
        return segments[0].base_offset if segments else -1

    @property
    def max_offset(self) -> int:
        """End of the readable bytes; 0 without a segment."""
        segments = self.segments
        if not segments:
            return 0
        return segments[-1].base_offset + segments[-1].readable.get()

    @property
    def put_offset(self) -> int:
        last = self.last_segment()
        return 0 if last is None else last.base_offset + last.wrote.get()

    # -- growing -----------------------------------------------------------------------------------

    def path(self, base_offset: int) -> str:
        return self._directories.path(base_offset, self.segment_bytes)

    def create(self, base_offset: int) -> Segment:
        """Add a segment. The name of the new file is not durable yet."""
        path = self.path(base_offset)
        self._world.files.make_directories(self.directory)  # a later sync makes it durable
        file = self._world.files.map(path, self.segment_bytes)
        segment = self.add(Segment(self._world.tasks, file, base_offset, self._label))
        self.directory_is_durable = False  # set last, because another task may sync during the creation
        return segment

    def add(self, segment: Segment) -> Segment:
        assert segment.size_bytes == self.segment_bytes, (segment.size_bytes, self.segment_bytes)
        assert segment.base_offset % self.segment_bytes == 0, (segment.base_offset, self.segment_bytes)
        with self._segments_lock:
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
        segments = self.segments
        return len(segments) > 1 and self.flushed_where.get() >= segments[0].end_offset

    def remove_first(self) -> bool:
        """Durably remove the first segment. Returns False if it is not removable.

        Tasks that read the segment can continue: its map stays until the last use ends. After an OSError the segment
        stays in the queue, and the next call retries the removal.
        """
        if not self.first_is_removable:
            return False
        self._remove_first_segment()
        return True

    def make_second_durable(self) -> None:
        assert len(self.segments) > 1, "the queue needs a second segment"
        path = self.segments[1].file.path
        try:
            self._world.files.sync(path)
        except OSError as error:
            self.sync_error = error
            raise
        self._world.files.sync_directory(directory_of(path))

    def remove_in_use(self) -> None:
        """Durably remove all segments. Other tasks may read them, but no task may append or flush any more.

        The last segment leaves the queue when its file is unlinked, even if the unlink is not durable. Otherwise later
        data could go to a file without a name.
        """
        while len(self.segments) > 1:
            self._remove_first_segment()
        for segment in self.segments:
            self._world.files.unlink(segment.file.path)
            with self._segments_lock:
                self.segments = ()
            self._world.files.sync_directory(directory_of(segment.file.path))

    def _remove_first_segment(self) -> None:
        path = self.segments[0].file.path
        self._remove(path)
        with self._segments_lock:
            assert self.segments[0].file.path == path, (self.segments[0].file.path, path)
            self.segments = self.segments[1:]

    # -- flushing ----------------------------------------------------------------------------------

    def flush(self, least_pages: int = 0) -> bool:
        """Flush the segment at flushed_where, or the next segment after a gap. Returns whether flushed_where advanced.

        No segment is flushed before all earlier segments are completely durable.
        """
        where = self.flushed_where.get()
        segment = self.segment_at_or_after(where)
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
        while self.flush(least_pages):
            pass

    def sync_page(self, offset: int) -> None:
        """Sync the page at `offset`, unless retention has removed the segment.

        Raises OSError if the write-back of this page failed, or an earlier failed write-back was not reported yet.
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
        """Sync the segments from index `first` on, their directories, and those that `load` found.

        After a process kill, files may exist only in the page cache. A power cut could remove them together with new
        data. A killed truncation may have removed the last segment of a directory, which a power cut could restore.
        """
        self.flush_all()
        for segment in self.segments[first:]:
            self._world.files.sync(segment.file.path)
        own = (directory_of(segment.file.path) for segment in self.segments)
        for directory in sorted({*self._directories.found, *own}):
            self._world.files.sync_directory(directory)

    # -- opening and cutting -----------------------------------------------------------------------

    def load(self, *, before_loss: Callable[[], None] | None = None) -> None:
        """Map all segment files. A segment counts as full until recovery sets its positions.

        Removes an incomplete file and all files after it if `is_expendable` is true for all of them. Otherwise adds a
        gap to `gaps` and keeps the files on both sides, because retention may have removed the missing files. Ignores
        directory entries for which `is_ignored` is true. Raises CorruptFileError for any other name, for a file of the
        wrong size if that file or a later one contains data, and for a name with data in two directories. before_loss
        is called before files with data are removed or short files are extended.
        """
        files = self._world.files
        self.unknown_entries, self.gaps = [], []
        bases = self._find_base_offsets()
        for index, error in self._find_irregular_files(bases):
            if all(self.is_expendable(base) for base in bases[index:]):
                count_mark("incomplete files removed")
                self.lost_data = not all(self._is_file_all_zero(self.path(base)) for base in bases[index:])
                if self.lost_data and before_loss is not None:
                    before_loss()
                for base in reversed(bases[index:]):
                    self.remove_file(base)
                del bases[index:]
                break
            if error.field != _GAP:
                raise error
            count_mark("gap between segments")
            self.gaps.append(error)
        self.extended = [
            CorruptFileError(self.path(base), 0, "file size", self.segment_bytes, size_bytes)
            for base in bases
            if (size_bytes := self._file_bytes(base)) < self.segment_bytes
        ]
        if self.extended:
            count_mark("short queue file extended")
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

    def _find_base_offsets(self) -> list[int]:
        paths: dict[int, str] = {}
        for path in self._directories.paths():
            name = file_name_of(path)
            if not is_segment_name(name) and self.is_ignored(path):
                self.unknown_entries.append(CorruptFileError(path, 0, "file name", "20 digits", name))
                continue
            if not is_segment_name(name) or int(name) % self.segment_bytes:
                expected = f"20 digits, a multiple of {self.segment_bytes}"
                raise CorruptFileError(path, 0, "file name", expected, name)
            base = int(name)
            duplicate = paths.get(base)
            paths[base] = path if duplicate is None else self._keep_file_with_data(duplicate, path)
        return list(paths)

    def _keep_file_with_data(self, first: str, second: str) -> str:
        """Of two files with one name, remove the file without data and return the path of the other.

        Both exist if a crash interrupted a creation and a later process repeated it in another directory.
        """
        for empty, other in ((second, first), (first, second)):
            if self._is_file_all_zero(empty):
                self._remove(empty)
                return other
        raise CorruptFileError(second, 0, "file name", "a unique name", f"the same name as {first}")

    def _find_irregular_files(self, bases: list[int]) -> Iterator[tuple[int, CorruptFileError]]:
        for index, base in enumerate(bases):
            path = self.path(base)
            if index and base != bases[index - 1] + self.segment_bytes:
                expected = f"the next segment, {segment_name(bases[index - 1] + self.segment_bytes)}"
                yield index, CorruptFileError(path, 0, _GAP, expected, segment_name(base))
            status = self._world.files.status(path)
            if status is None:  # the name is a dangling symbolic link
                yield index, CorruptFileError(path, 0, "file", "a file", "a dangling symbolic link")
            elif status.is_directory or (status.size_bytes != self.segment_bytes and not self.can_extend(base)):
                found = "a directory" if status.is_directory else status.size_bytes
                yield index, CorruptFileError(path, 0, "file size", self.segment_bytes, found)

    def is_ignored(self, path: str) -> bool:
        """Return whether `load` may ignore a name: True for directories, for example `lost+found`."""
        status = self._world.files.status(path)
        return status is not None and status.is_directory

    def is_expendable(self, base_offset: int) -> bool:
        """Return whether a file may be removed: it has at most segment_bytes, all zero."""
        return self._is_file_all_zero(self.path(base_offset))

    def expendable_files_before(self, base_offset: int) -> list[int]:
        """Return the base offsets, in order, of the files before base_offset that may be removed."""
        names = map(file_name_of, self._directories.paths())
        bases = [int(name) for name in names if is_segment_name(name)]
        return [base for base in bases if base < base_offset and self.is_expendable(base)]

    def can_extend(self, base_offset: int) -> bool:
        """Return whether `load` may extend a short file with zeros. Recovery must write the missing part."""
        return False

    def _file_bytes(self, base_offset: int) -> int:
        status = self._world.files.status(self.path(base_offset))
        return 0 if status is None else status.size_bytes

    def _is_file_all_zero(self, path: str) -> bool:
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
        """Durably remove one file. Callers remove the newest file first, so a crash leaves no gap."""
        self._remove(self.path(base_offset))

    def _remove(self, path: str) -> None:
        if self._world.files.status(path) is not None:  # missing if only the sync failed in an earlier call
            self._world.files.unlink(path)
        self._world.files.sync_directory(directory_of(path))

    def truncate(self, offset: int, *, syncs_zeros: bool = False) -> bool:
        """Durably remove all bytes from `offset` on. Returns whether any removed byte was not zero.

        Removes later segments, newest first. syncs_zeros: see `Segment.zero_from`.
        """
        assert offset >= 0, offset
        dirty = False
        while self.segments and self.segments[-1].base_offset > offset:
            dirty |= self._remove_last()
        segment = self.find(offset)
        if segment is not None:
            position = offset - segment.base_offset
            dirty |= segment.zero_from(position, syncs_zeros=syncs_zeros)
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
        while self.segments:
            self._remove_last()
        self.flushed_where.set(0)

    def remove_unused(self) -> None:
        """Durably remove the segments of an empty queue, so that it can begin at any offset.

        After an OSError the next call retries, but `segments` is empty, so that later data never goes to a file without
        a name.
        """
        self._segments_to_remove += self.segments
        self.segments = ()  # cleared first, because other tasks read `segments` during the removal
        for segment in reversed(self._segments_to_remove):
            self._remove(segment.file.path)
        self.flushed_where.set(0)
        for segment in self._segments_to_remove:
            segment.file.close()
        self._segments_to_remove = ()

    def close(self) -> None:
        for segment in (*self._segments_to_remove, *self.segments):
            segment.file.close()
