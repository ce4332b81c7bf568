"""Index service: adds dispatched records to the index, in log order.

Like RocketMQ's IndexService. If no new file can be created, dispatch retries the record. After a few failures the store
stops indexing and refuses puts, but consumers can continue. The next load of the store then builds the missing part.
"""

from bisect import bisect_left
from collections.abc import Callable
from contextlib import suppress
from errno import EOVERFLOW

from ..config import StoreConfig
from ..directories import directory_of, make_directory
from ..errors import CorruptFileError, is_disk_full
from ..formats.columns import PlainRecords
from ..formats.index import LOCAL_MS_MAX, index_file_bytes, index_file_name, index_names_in_order, parse_index_file_name
from ..formats.index_key import key_hash, key_hashes, may_have_keys
from ..formats.scan import ScannedRecord
from ..marks import count_mark
from ..running_flags import RefusalReason, RunningFlags
from ..world import World
from .index_file import IndexFile

_CLOCK_MS_MAX = LOCAL_MS_MAX - 366 * 86_400_000
"""Limit of the clock time in a file name. Later names are 1 ms apart, for which a year is left."""


class IndexFiles:
    """The index files of one store."""

    def __init__(self, world: World, directory: str, slots: int, entries_max: int) -> None:
        self.files: tuple[IndexFile, ...] = ()
        """The files, oldest first. Changes create a new tuple, so a reader can keep an old one."""
        self.slots = slots
        self.entries_max = entries_max
        self.file_bytes = index_file_bytes(slots, entries_max)
        self._world = world
        self._directory = directory
        self._changing = world.tasks.lock("index files")
        self._syncing = world.tasks.lock("index files sync")
        """Prevents unmapping of a file during its sync."""
        self._last_local_ms = -1
        """Local time in the newest file name."""
        self._names_are_durable = True

    def path(self, name: str) -> str:
        return f"{self._directory}/{name}"

    def load(self) -> list[CorruptFileError]:
        """Map all index files. Returns an error for each ignored directory entry.

        A file of a wrong length is ignored, too; `keep_first_files` removes such files later. Changed settings or a
        crash during the creation cause wrong lengths.
        """
        files = self._world.files
        odd: list[CorruptFileError] = []
        if files.status(self._directory) is None:
            return odd
        found: list[IndexFile] = []
        for name in index_names_in_order(files.list_directory(self._directory)):
            path = self.path(name)
            local_ms = parse_index_file_name(name)
            status = files.status(path)
            if local_ms is None or status is None or status.is_directory:
                expected = "a time, yyyyMMddHHmmssSSS"
                odd.append(CorruptFileError(path, 0, "file name", expected, name))
                continue
            if status.size_bytes != self.file_bytes:
                odd.append(CorruptFileError(path, 0, "file size", self.file_bytes, status.size_bytes))
                continue
            self._last_local_ms = local_ms
            found.append(self._map_file(name))
        self.files = tuple(found)
        self._names_are_durable = not found  # a load that was killed may have created the files
        return odd

    def _map_file(self, name: str) -> IndexFile:
        file = self._world.files.map(self.path(name), self.file_bytes)
        return IndexFile(self._world.tasks, file, name, self.slots, self.entries_max)

    # -- growing -----------------------------------------------------------------------------------

    def create(self) -> IndexFile:
        """Create the next file, which is not durable yet.

        The name is the local time, but at least 1 ms after the newest name, because clock or time zone may step back.
        Raises OSError if the disk fails, or after the year 99999.
        """
        files = self._world.files
        if files.status(self._directory) is None:
            make_directory(files, self._directory, below=directory_of(self._directory))  # `sync_names` syncs the name
        clock = self._world.clock
        local_ms = max(min(clock.now_ms() + clock.utc_offset_ms(), _CLOCK_MS_MAX), self._last_local_ms + 1, 0)
        while local_ms <= LOCAL_MS_MAX and files.status(self.path(index_file_name(local_ms))) is not None:
            local_ms += 1
        if local_ms > LOCAL_MS_MAX:
            raise OSError(EOVERFLOW, "no index file can have a later name", self._directory)
        self._last_local_ms = local_ms
        new = self._map_new(index_file_name(local_ms))
        self._names_are_durable = False
        if self.files and self.files[-1].end_timestamp_ms > 0:  # in an empty file this time is 0
            new.start_after_full_file(self.files[-1])
        with self._changing:
            self.files = (*self.files, new)
        return new

    def _map_new(self, name: str) -> IndexFile:
        try:
            return self._map_file(name)
        except OSError:
            with suppress(OSError):  # the next load removes the file, because it is too short
                self._world.files.unlink(self.path(name))
            raise

    # -- syncing -----------------------------------------------------------------------------------

    def make_full_durable(self) -> None:
        with self._syncing:
            self._sync([file for file in self.files if not file.is_durable and file.is_full])

    def make_durable(self) -> None:
        with self._syncing:
            self._sync([file for file in self.files if not file.is_durable])

    def _sync(self, due: list[IndexFile]) -> None:
        if not due:
            return
        full = [file for file in due if file.is_full]  # read before the sync, which may not include later entries
        for file in due:
            file.flush()
        if not self._names_are_durable:
            self._names_are_durable = True
            self.sync_names()
        for file in full:
            file.is_durable = True

    def sync_names(self) -> None:
        self._world.files.sync_directory(self._directory)
        self._world.files.sync_directory(directory_of(self._directory))

    @property
    def durable_timestamp_ms(self) -> int:
        """A store time: every full file that ends at or before this time is durable, now and later.

        The time is 1 ms before the end of the last durable file, because the next file may end in the same millisecond.
        """
        durable_ms = 0
        for file in self.files:
            if not file.is_durable:
                return durable_ms if file.end_timestamp_ms > durable_ms else durable_ms - 1
            durable_ms = file.end_timestamp_ms
        return durable_ms - 1

    # -- removing ----------------------------------------------------------------------------------

    def keep_first_files(self, count: int, odd: list[str]) -> None:
        """Durably remove all files after the first `count`, and the files at the paths in `odd`."""
        kept, dropped = self.files[:count], self.files[count:]
        self._remove_files([*odd, *(self.path(file.name) for file in reversed(dropped))])
        self.files = kept
        for file in dropped:
            file.file.close()

    def delete_expired(self, log_min_offset: int) -> int:
        """Remove files that contain only records before log_min_offset, except the last file. Returns their number.

        The oldest file is unlinked first, so a crash can restore only files of expired records. After an
        OSError the remaining files stay until the next call.
        """
        with self._syncing:
            files = self.files[:-1]
            count = 0
            while count < len(files) and files[count].end_physical_offset < log_min_offset:
                count += 1
            for file in files[:count]:
                with suppress(FileNotFoundError):  # the file may already be removed
                    self._world.files.unlink(self.path(file.name))
                with self._changing:
                    self.files = self.files[1:]
                file.file.close()  # a running query has its own view of the file
            if count:
                self._world.files.sync_directory(self._directory)
        return count

    def _remove_files(self, paths: list[str]) -> None:
        for path in paths:
            self._world.files.unlink(path)
        if paths:
            self._world.files.sync_directory(self._directory)

    def close(self) -> None:
        for file in self.files:
            file.file.close()


_CREATIONS_MAX = 3  # RocketMQ IndexService.MAX_TRY_IDX_CREATE


class IndexService:
    """The index of one store. Only one task may add records."""

    def __init__(self, world: World, config: StoreConfig, flags: RunningFlags) -> None:
        self.table = IndexFiles(world, config.index_directory, config.max_hash_slot_num, config.max_index_num)
        self.last_error: OSError | None = None
        self._flags = flags
        self.max_num = config.max_msgs_num_batch
        self._file: IndexFile | None = None
        self._offset = -1
        self._keys = 0
        """How many keys of the last indexed record are indexed."""
        self.failures = 0
        """Number of consecutive failed creations of a file. A full disk does not count."""
        self._is_building = False
        """Whether a build runs, during which a header is written only when its file is full."""

    def build_from(self, physical_offset: int, keys: int) -> None:
        """Start to build the missing index. Call `end_building` before the first query.

        The files already contain all records before physical_offset, and the first `keys` keys of the record there;
        (-1, 0) means an empty index.
        """
        self._offset, self._keys = physical_offset, keys
        self._is_building = True
        self._file = self.table.files[-1] if self.table.files else None
        if self._file is not None:
            self._file.is_building = True

    def end_building(self) -> None:
        self._is_building = False
        if self._file is not None:
            self._file.end_building()

    # -- adding ------------------------------------------------------------------------------------

    def dispatch(self, record: ScannedRecord) -> None:
        """Add a record's keys that are not indexed yet. Rollback records are not indexed. Retry after an OSError."""
        if not may_have_keys(record):
            return
        physical_offset = record.physical_offset
        if physical_offset < self._offset or self.failures == _CREATIONS_MAX:
            return
        hashes = key_hashes(record.topic, record.properties)
        if physical_offset > self._offset:
            self._offset, self._keys = physical_offset, 0
        elif self._keys:
            hashes = hashes[self._keys :]
        stored_ms = record.store_timestamp_ms
        for hashed in hashes:
            file = self._file
            if file is None or not file.put_key(hashed, physical_offset, stored_ms):
                new = self._make_file_with_room()
                if new is None:
                    return
                new.put_key(hashed, physical_offset, stored_ms)
            self._keys += 1

    def put_plain(self, plain: PlainRecords) -> None:
        """Add the keys of a batch. After an OSError, retry with the batch or single records."""
        offsets = plain.key_column("physical_offset")
        begin = bisect_left(offsets, self._offset)
        if begin < len(offsets) and offsets[begin] == self._offset:
            begin += self._keys
        while begin < len(offsets) and self.failures < _CREATIONS_MAX:
            taken = 0 if self._file is None else self._file.put_plain(plain, begin)
            assert 0 <= taken <= len(offsets) - begin, (taken, begin, len(offsets))
            if taken == 0 and self._make_file_with_room() is None:
                return
            begin += taken
            if taken and offsets[begin - 1] > self._offset:
                self._offset = offsets[begin - 1]
                self._keys = begin - bisect_left(offsets, self._offset)
            else:
                self._keys += taken

    def _make_file_with_room(self) -> IndexFile | None:
        """Return a new file, or None if the creation has failed too often."""
        if self._file is not None:
            count_mark("index rolls")
            self._file.end_building()
        try:
            self._file = self.table.create()
        except OSError as error:
            count_mark("index file creation failed")
            self.last_error = error
            if is_disk_full(error):  # not counted as a failure, because the disk can get free space again
                raise
            self.failures += 1
            if self.failures < _CREATIONS_MAX:
                raise
            cause = f"no index file can be created: {error}"
            self._flags.refuse_until_restart(RefusalReason.WRITE_INDEX_FILE_ERROR, cause)
            return None
        self.failures = 0
        self._file.is_building = self._is_building
        return self._file

    # -- queries -----------------------------------------------------------------------------------

    def query_offset(
        self, topic: str, key: bytes, max_num: int, begin_ms: int, end_ms: int, accept: Callable[[int], bool]
    ) -> list[int]:
        """Return log offsets of up to max_num records that `accept` selects, newest first."""
        hashed = key_hash(topic, key)
        max_num = min(max_num, self.max_num)
        found: list[int] = []
        for file in reversed(self.table.files):
            if file.may_hold(begin_ms, end_ms):
                file.select_offsets(hashed, begin_ms, end_ms, found, max_num, accept)
            if file.begin_timestamp_ms < begin_ms or len(found) >= max_num:
                break
        return found

    @property
    def last_update(self) -> tuple[int, int]:
        """Return store time and log offset of the last indexed record, or zeros."""
        files = self.table.files
        return (files[-1].end_timestamp_ms, files[-1].end_physical_offset) if files else (0, 0)
