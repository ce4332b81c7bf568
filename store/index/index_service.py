"""Indexes what dispatch hands it, in the order of the log: RocketMQ's IndexService.

Where the disk will not give a new file, the record is tried again as dispatch tries records again; after a few times
indexing ends until the next load builds what is missing, and so do puts, but consumers go on.
"""

from collections.abc import Callable

from ..config import StoreConfig
from ..errors import CorruptFileError
from ..formats.index_key import key_hash, key_hashes, may_have_keys
from ..formats.scan import ScannedRecord
from ..marks import hit
from ..retention.disk_usage import is_disk_full
from ..running_flags import Refusal, RunningFlags
from ..world import World
from .index_file import IndexFile
from .index_files import IndexFiles

_CREATIONS_MAX = 3
"""How often a file is tried to be made."""


class IndexService:
    """The index of one store. One task adds to it."""

    def __init__(self, world: World, config: StoreConfig, flags: RunningFlags) -> None:
        self.table = IndexFiles(world, config.index_directory, config.max_hash_slot_num, config.max_index_num)
        self.last_error: OSError | None = None
        """Why the last file could not be made."""
        self._flags = flags
        self._max_num = config.max_msgs_num_batch
        self._file: IndexFile | None = None
        """The file that is added to, None if there is none yet."""
        self._offset = -1
        """Where the last record indexed begins in the log."""
        self._keys = 0
        """How many of its keys are indexed."""
        self._failures = 0
        self._is_building = False
        """Whether files get their headers only once they are full, or with `end_building`."""

    def build_from(self, physical_offset: int, keys: int) -> None:
        """Begin to build what a load found missing, before anybody reads: `end_building` must follow.

        All records up to one, and the first keys of that one, are in the files already. -1, 0: nothing.
        """
        self._offset, self._keys = physical_offset, keys
        self._is_building = True
        self._file = self.table.files[-1] if self.table.files else None
        if self._file is not None:
            self._file.is_building = True

    def end_building(self) -> None:
        """Write what headers lack."""
        self._is_building = False
        if self._file is not None:
            self._file.end_building()

    # -- adding ------------------------------------------------------------------------------------

    def dispatch(self, record: ScannedRecord) -> None:
        """Index a record by its keys, unless it is indexed, has none or is a roll-back. OSError: try again."""
        if not may_have_keys(record):
            return
        physical_offset = record.physical_offset
        if physical_offset < self._offset or self._failures == _CREATIONS_MAX:
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
                made = self._make_file()
                if made is None:
                    return
                made.put_key(hashed, physical_offset, stored_ms)
            self._keys += 1

    def _make_file(self) -> IndexFile | None:
        """Begin a new file; None, once, if that has failed too often."""
        if self._file is not None:
            hit("index rolls")
            self._file.end_building()
        try:
            self._file = self.table.create()
        except OSError as error:
            hit("index not made")
            self.last_error = error
            if is_disk_full(error):  # what is missing can still be made when space returns
                raise
            self._failures += 1
            if self._failures < _CREATIONS_MAX:
                raise
            self._flags.refuse_for_good(Refusal.WRITE_INDEX_FILE_ERROR)
            return None
        self._failures = 0
        self._file.is_building = self._is_building
        return self._file

    # -- asking ------------------------------------------------------------------------------------

    def query_offset(
        self,
        topic: str,
        key: bytes,
        max_num: int,
        begin_ms: int,
        end_ms: int,
        accept: Callable[[int], bool],
    ) -> list[int]:
        """Return the log offsets of up to max_num records that accept says yes to, the newest first.

        It is asked of those with the hash of topic and key that may have been stored in [begin_ms, end_ms].
        """
        hashed = key_hash(topic, key)
        max_num = min(max_num, self._max_num)
        found: list[int] = []
        for file in reversed(self.table.files):
            if file.may_hold(begin_ms, end_ms):
                file.select(hashed, begin_ms, end_ms, found, max_num, accept)
            if file.begin_timestamp_ms < begin_ms or len(found) >= max_num:
                break
        return found

    @property
    def last_update(self) -> tuple[int, int]:
        """Return store time and log offset of the last record indexed, zeros if there is none."""
        files = self.table.files
        return (files[-1].end_timestamp_ms, files[-1].end_physical_offset) if files else (0, 0)

    # -- keeping -----------------------------------------------------------------------------------

    def load(self) -> list[CorruptFileError]:
        """Map the files; return what is odd in the directory."""
        return self.table.load()

    def delete_expired(self, log_min_offset: int) -> int:
        """Remove the files that lead only to records in front of log_min_offset; return how many."""
        return self.table.delete_expired(log_min_offset)

    def close(self) -> None:
        """Give every mapping back."""
        self.table.close()
