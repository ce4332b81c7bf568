"""Bugs of logs in several directories, each possibly on a disk of its own."""

from ....store.config import StoreConfig
from ....store.directories import directory_of
from ....store.log.segment import segment_name
from ....store.log.segment_queue import SegmentDirectories, SegmentQueue, try_used_ratio
from ....store.retention.cleaning import DiskWatermark, RemovalPressure
from ....store.running_flags import RunningFlags
from ....store.world import Files
from ...claims.catalogue import SCENARIOS
from ..mutant import bit, bug, needs

_FULL = SCENARIOS["log-directory-full"].ranges
_READ_ONLY = SCENARIOS["log-directory-read-only"].ranges.replace(log_directories={"read_only_from": (1,)}, lives=(2,))
_EXPIRING = _READ_ONLY.replace(retention={"deletes_segments": (True,)}, commit_log_bytes=(1024,))


# RocketMQ's tryCreateMappedFile leaves read-only paths out even then.
@bug("full-disks-use-read-only", SegmentDirectories, "path", found_by=("POS",))
@needs(
    _FULL,
    directories={"log_directories": (2,)},
    log_directories={"full_directory": (2,), "full_at_segments": (1,), "read_only_from": (1,)},
    lives=(2,),
)
def fall_back_to_all(self: SegmentDirectories, base_offset: int, segment_bytes: int) -> str:
    """If all writable directories are full, a new segment goes to a read-only one."""
    found, name = fall_back_to_all.original(self, base_offset, segment_bytes), segment_name(base_offset)
    is_new = len(self.all) > len(self.writable) and self._files.status(found) is None
    if not is_new or any(self._has_room(directory) for directory in self.writable):
        return found
    bit()
    return f"{self.all[base_offset // segment_bytes % len(self.all)]}/{name}"


# RocketMQ updates the set of full paths only with each look at the disks.
@bug("full-disks-known-once", SegmentDirectories, "_has_room", found_by=("POS",))
@needs(_FULL)
def has_room_once(self: SegmentDirectories, directory: str) -> bool:
    """A store learns only once whether a log directory is full."""
    now, known = has_room_once.original(self, directory), vars(self).setdefault("_rooms", {})
    found: bool = known.setdefault(directory, now)
    bit(found != now)
    return found


@bug("first-log-disk-measured-only", DiskWatermark, "__init__", found_by=("STATUS", "CLEAN"))
@needs(_FULL, log_directories={"full_directory": (1,), "full_at_segments": (1,)})
def measure_first(self: DiskWatermark, files: Files, config: StoreConfig, flags: RunningFlags) -> None:
    """Only the disk of the first log directory counts for the limits of disk usage."""
    measure_first.original(self, files, config, flags)
    bit(len(self._log_directories) > 1)
    self._log_directories = self._log_directories[:1]


@bug("fullest-log-disk-counts", DiskWatermark, "measure_pressure", found_by=("STATUS", "CLEAN"))
@needs(_FULL, log_directories={"full_at_segments": (1,)})
def measure_fullest(self: DiskWatermark) -> RemovalPressure:
    """The fullest of several log disks counts, so puts are refused although another disk has room."""
    all_ = self._log_directories
    ratios = {path: try_used_ratio(self._files, path) or 0.0 for path in all_}
    bit(len(set(ratios.values())) > 1)
    self._log_directories = (max(all_, key=lambda path: ratios[path]),)
    pressure = measure_fullest.original(self)
    self._log_directories = all_
    return pressure


# The next start finds the files, and expired messages are there again.
@bug("expired-stay-in-read-only", SegmentQueue, "_remove_first_segment", found_by=("STATUS", "CLEAN", "READ", "FILES"))
@needs(_EXPIRING)
def leave_read_only(self: SegmentQueue) -> None:
    """Retention leaves the file of an expired segment if its directory is read-only."""
    first = self.segments[0]
    if not bit(directory_of(first.file.path) not in self._directories.writable):
        leave_read_only.original(self)
        return
    with self._segments_lock:
        self.segments = self.segments[1:]
    first.file.close()


@bug("read-only-never-expires", SegmentQueue, "remove_first", found_by=("CLEAN",))
@needs(_EXPIRING)
def stop_at_read_only(self: SegmentQueue) -> bool:
    """Retention stops at the first segment in a read-only directory, so no later one expires."""
    first = self.segments[0] if self.first_is_removable else None
    if bit(first is not None and directory_of(first.file.path) not in self._directories.writable):
        return False
    return stop_at_read_only.original(self)


# RocketMQ sorts File objects by name, not by path, for this reason.
@bug("load-sorts-by-path", SegmentDirectories, "paths", found_by=("PREFIX", "START", "DUR"))
@needs(directories={"log_directories": (2, 3)}, commit_log_bytes=(1024, 2048), messages_each=(8, 16))
def list_by_path(self: SegmentDirectories) -> list[str]:
    """A load of several log directories reads one directory after the other."""
    paths = list_by_path.original(self)
    bit(sorted(paths) != paths)
    return sorted(paths)


# After a power cut, the removed segment is there again.
@bug("removal-synced-in-first-directory", SegmentQueue, "_remove", found_by=("DUR", "PREFIX", "CLEAN", "FILES", "SCAN"))
@needs(_FULL, disk=("strict-posix",), retention={"deletes_segments": (True,)}, endings=("crash at rest",))
def sync_first_after_removal(self: SegmentQueue, path: str) -> None:
    """With several log directories, the removal of a segment is synced in the first one."""
    own, directories = directory_of(path), self._directories.all
    if not bit(len(directories) > 1 and own != directories[0]):
        sync_first_after_removal.original(self, path)
        return
    if self._world.files.status(path) is not None:
        self._world.files.unlink(path)
    self._world.files.sync_directory(directories[0])


@bug("read-only-segment-not-found", SegmentDirectories, "path", found_by=("START", "PREFIX", "DUR", "POS"))
@needs(_READ_ONLY)
def path_in_writable(self: SegmentDirectories, base_offset: int, segment_bytes: int) -> str:
    """A segment in a directory that became read-only is not found there."""
    found = path_in_writable.original(self, base_offset, segment_bytes)
    if not bit(directory_of(found) not in self.writable):
        return found
    number = base_offset // segment_bytes % len(self.writable)
    return f"{self.writable[number]}/{segment_name(base_offset)}"


# apache/rocketmq issue 8859.
@bug("first-directory-copy-kept", SegmentQueue, "_keep_file_with_data", found_by=("DUR", "PREFIX", "START"))
@needs(SCENARIOS["foreign-and-damaged-files"].ranges, directories={"log_directories": (2,)}, lives=(2, 3))
def keep_first_file(self: SegmentQueue, first: str, second: str) -> str:
    """Of two segments with one name, a load keeps the one in the first log directory, even if it is empty."""
    bit(not self._is_file_all_zero(second))
    self._remove(second)
    return first
