"""Row of index files, the oldest first: found, made, synced and removed, names included.

Dispatch makes files, a flushing task syncs them, a cleaning one removes them, and any task reads them.
"""

from contextlib import suppress

from ..errors import CorruptFileError
from ..formats.index import index_file_bytes, index_file_name, parse_index_file_name
from ..world import World
from .index_file import IndexFile


class IndexFiles:
    """The directory of an index."""

    def __init__(self, world: World, directory: str, slots: int, entries_max: int) -> None:
        self.files: tuple[IndexFile, ...] = ()
        """Replaced, never changed, so that a reader's copy stays whole."""
        self.slots = slots
        self.entries_max = entries_max
        self.file_bytes = index_file_bytes(slots, entries_max)
        self._world = world
        self._directory = directory
        self._changing = world.tasks.lock("index files")
        """Held while `files` is replaced."""
        self._syncing = world.tasks.lock("index files sync")
        """Held while files are synced or removed: no map is closed under a sync."""
        self._last_local_ms = -1
        """What the youngest name there ever was tells."""
        self._names_are_durable = True

    def path(self, name: str) -> str:
        """Return a file's path."""
        return f"{self._directory}/{name}"

    def load(self) -> list[CorruptFileError]:
        """Map every file that can be one of this index; return what else is in the directory, left alone.

        Files of another length cannot be read, and only another geometry or a crash while one was made leaves them:
        they are among what is returned, and `remove_odd` removes them.
        """
        files = self._world.files
        odd: list[CorruptFileError] = []
        if files.status(self._directory) is None:
            return odd
        found: list[IndexFile] = []
        for name in files.list_directory(self._directory):
            path = self.path(name)
            local_ms = parse_index_file_name(name)
            status = files.status(path)
            if local_ms is None or status is None or status.is_directory:
                expected = "a file named by a time, yyyyMMddHHmmssSSS"
                odd.append(CorruptFileError(path, 0, "file name", expected, name))
                continue
            self._last_local_ms = max(self._last_local_ms, local_ms)
            if status.size_bytes != self.file_bytes:
                odd.append(CorruptFileError(path, 0, "file size", self.file_bytes, status.size_bytes))
                continue
            found.append(self._map(name))
        self.files = tuple(found)
        return odd

    def _map(self, name: str) -> IndexFile:
        file = self._world.files.map(self.path(name), self.file_bytes)
        return IndexFile(self._world.tasks, file, name, self.slots, self.entries_max)

    # -- growing -----------------------------------------------------------------------------------

    def create(self) -> IndexFile:
        """Make a file behind the last one. Neither it nor its name is durable yet.

        Its name is the local time, or 1 ms more than the youngest name there was: clocks and time zones step back.
        """
        files = self._world.files
        if files.status(self._directory) is None:
            files.make_directories(self._directory)
        clock = self._world.clock
        local_ms = max(clock.now_ms() + clock.utc_offset_ms(), self._last_local_ms + 1, 0)
        while files.status(self.path(index_file_name(local_ms))) is not None:
            local_ms += 1
        self._last_local_ms = local_ms
        made = self._map_new(index_file_name(local_ms))
        self._names_are_durable = False
        if self.files and self.files[-1].end_timestamp_ms > 0:  # its last record may be the log's first
            made.follow(self.files[-1])
        with self._changing:
            self.files = (*self.files, made)
        return made

    def _map_new(self, name: str) -> IndexFile:
        try:
            return self._map(name)
        except OSError:
            with suppress(OSError):  # what may be there is too short to be read; the next load removes it
                self._world.files.unlink(self.path(name))
            raise

    # -- syncing -----------------------------------------------------------------------------------

    def make_full_durable(self) -> None:
        """Sync the full files that are not durable, and their names."""
        with self._syncing:
            self._sync([file for file in self.files if not file.is_durable and file.is_full])

    def make_durable(self) -> None:
        """Sync every file that is not durable; whoever adds to one afterwards has it synced again."""
        with self._syncing:
            self._sync([file for file in self.files if not file.is_durable])

    def _sync(self, due: list[IndexFile]) -> None:
        if not due:
            return
        for file in due:
            file.flush()
        if not self._names_are_durable:
            self._names_are_durable = True
            self.sync_names()
        for file in due:
            file.is_durable = file.is_full

    def sync_names(self) -> None:
        """Make the names in the directory durable, and the directory's own."""
        self._world.files.sync_directory(self._directory)
        self._world.files.sync_directory(self._directory.rpartition("/")[0] or "/")

    @property
    def durable_timestamp_ms(self) -> int:
        """Return a store time such that every full file with no later end is durable, now and at any later moment.

        The next file may still end in the very millisecond in which the last durable one does.
        """
        durable_ms = 0
        for file in self.files:
            if not file.is_durable:
                return durable_ms if file.end_timestamp_ms > durable_ms else durable_ms - 1
            durable_ms = file.end_timestamp_ms
        return durable_ms - 1

    # -- removing ----------------------------------------------------------------------------------

    def keep(self, count: int, odd: list[str]) -> None:
        """Remove all files but the first count, and those at the paths in odd, durably."""
        kept, dropped = self.files[:count], self.files[count:]
        self._remove([*odd, *(self.path(file.name) for file in reversed(dropped))])
        self.files = kept
        for file in dropped:
            file.file.close()

    def delete_expired(self, log_min_offset: int) -> int:
        """Remove the oldest files whose records are all in front of log_min_offset, the last file never.

        Return how many. They are unlinked before their names are synced, oldest first: what a crash brings back is
        a file of records that are gone.
        """
        with self._syncing:
            files = self.files[:-1]
            count = 0
            while count < len(files) and files[count].end_physical_offset < log_min_offset:
                count += 1
            if not count:
                return 0
            with self._changing:
                expired, self.files = self.files[:count], self.files[count:]
            self._remove([self.path(file.name) for file in expired])
            for file in expired:
                file.file.close()  # a query that still reads it has a view of its own
        return count

    def _remove(self, paths: list[str]) -> None:
        for path in paths:
            self._world.files.unlink(path)
        if paths:
            self._world.files.sync_directory(self._directory)

    def close(self) -> None:
        """Give every mapping back."""
        for file in self.files:
            file.file.close()
