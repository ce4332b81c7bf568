"""Index recovery: keeps valid files and rebuilds the rest from the log scan.

Recovery keeps the oldest files up to the first file that is invalid or does not continue the previous file. After an
unclean exit a kept file must also be full and not newer than the checkpoint's index time, because other files may not
be durable. Recovery rebuilds the rest of the index in new files and syncs them. Before the rebuild, recovery lowers the
checkpoint's index time to the end of the kept files, so that the checkpoint never covers an incomplete file.
"""

from collections.abc import Callable, Iterator
from functools import partial

from ..config import StoreConfig
from ..errors import CorruptFileError, is_disk_full
from ..formats.columns import PlainRecords
from ..formats.index import IndexEntry, header_defects, header_error, time_diff_s
from ..formats.index_key import key_hash, keys_of, may_have_keys
from ..formats.scan import ScannedRecord, find_record_after_damage, scan_records
from ..index.index_file import IndexFile, index_file_defects
from ..index.index_service import IndexService
from ..log.checkpoint import StoreCheckpoint
from ..log.segment_queue import SegmentQueue
from ..marks import count_mark, is_forced

Place = tuple[int, int]
"""A position between two keys: the log offset of a record, and how many of its keys are before the position."""

_NOTHING: Place = (-1, 0)


class IndexRecovery:
    """Recovers the index before the services start."""

    def __init__(
        self,
        service: IndexService,
        log: SegmentQueue,
        checkpoint: StoreCheckpoint,
        config: StoreConfig,
        *,
        clean_exit: bool,
    ) -> None:
        self.lacks_room: OSError | None = None
        """Error of a full disk. Later records are not indexed."""
        self.room_ends_at = 0
        """Log offset of the first record that was not indexed."""
        self._service = service
        self._table = service.table
        self._log = log
        self._checkpoint = checkpoint
        self._clean_exit = clean_exit
        self._thorough = config.recover_whole_log
        """Whether to check the entries of durable files too."""
        self._check_crc = config.check_crc_on_recover
        self._builds = False
        self._ends: list[Place] = []
        """The position after the last key of each kept file."""

    def keep_valid_files(self) -> list[CorruptFileError]:
        """Keep the valid files and remove all others. Returns the errors that a crash cannot cause."""
        odd = self._table.load()
        findings = list(odd)
        place = _NOTHING
        for file in self._table.files:
            end, damage = self._valid_end_of(file, place)
            if damage is not None:
                findings.append(damage)
            if end is None:
                break
            self._ends.append(end)
            place = end
        sizes = [error.file for error in odd if error.field == "file size"]
        self._remove_other_files(sizes)
        return [error for error in findings if self._clean_exit or error.field == "file name"]

    def dispatch(self, record: ScannedRecord) -> None:
        """Index a record. The caller passes records in log order, from `start_offset` or earlier."""
        self._index_key_unless_full(record.physical_offset, partial(self._service.dispatch, record))

    def put_plain(self, plain: PlainRecords) -> None:
        self._index_key_unless_full(plain.key_column("physical_offset")[0], partial(self._service.put_plain, plain))

    def _index_key_unless_full(self, physical_offset: int, index: Callable[[], None]) -> None:
        """Call `index`, unless the disk was full in an earlier call."""
        if self.lacks_room is not None:
            return
        try:
            index()
        except OSError as error:
            if not is_disk_full(error):
                raise
            count_mark("file creation postponed")
            self.lacks_room, self.room_ends_at = error, physical_offset

    def _remove_other_files(self, odd: list[str]) -> None:
        """Remove `odd` and all files after the kept files."""
        ends = self._ends
        if ends and is_forced("index dropped"):
            ends.pop()
        count = len(ends)
        self.lacks_room = None
        self._builds = self._builds or bool(odd) or not self._clean_exit or count < len(self._table.files)
        if count < len(self._table.files):
            count_mark("index dropped")
        if self._builds:
            # The next file, which is not durable yet, may end in the same millisecond.
            end_ms = self._table.files[count - 1].end_timestamp_ms - 1 if count else 0
            self._checkpoint.limit_index_time(end_ms)
        self._table.keep_first_files(count, odd)
        self._service.build_from(*(self._ends[-1] if self._ends else _NOTHING))

    @property
    def start_offset(self) -> int:
        """Log offset of the first record that may not be indexed, or -1 for the start of the log."""
        return self._ends[-1][0] if self._ends else -1

    def drop_files_beyond(self, log_end_offset: int) -> bool:
        """Remove files with records after the end of the log. Returns whether the log scan must be repeated."""
        count = len(self._ends)
        while self._ends and self._ends[-1][0] >= log_end_offset:
            self._ends.pop()
        if len(self._ends) == count:
            return False
        count_mark("index past end of log")
        self._remove_other_files([])
        return True

    def make_index_durable(self) -> None:
        """Sync all file names, and all files that may not be durable."""
        self._service.end_building()
        self._table.make_durable()
        if self._builds and self._checkpoint.advance_index_time(self._table.durable_timestamp_ms):
            self._checkpoint.flush()

    # -- one file ----------------------------------------------------------------------------------

    def _valid_end_of(self, file: IndexFile, begin: Place) -> tuple[Place | None, CorruptFileError | None]:
        """Check a file that begins at position `begin`.

        Returns the position after the file's last key, or None to remove the file; and damage that no crash can cause.
        """
        header, path = file.header, file.file.path
        # The header and most entries are in different sectors, so the header can be durable without the entries.
        is_durable = file.is_full and file.end_timestamp_ms <= self._checkpoint.index_msg_timestamp_ms
        if not is_durable and not self._clean_exit:
            return None, None
        check = index_file_defects(file.view, path, self._table.slots, self._table.entries_max)
        if is_durable and not self._thorough:
            check = header_defects(header, path, self._table.entries_max)
        damage = next(check, None)
        if damage is not None or header.next_entry == 1:
            return None, damage
        file.is_durable = is_durable
        log_min_offset = max(self._log.min_offset, 0)
        if header.end_physical_offset < log_min_offset:
            return (header.end_physical_offset, 0), None  # all records of the file have expired
        if header.begin_physical_offset >= log_min_offset:
            due, due_hash = self._first_key_after(begin)
            first = file.entry(1)
            found = (header.begin_physical_offset, first.physical_offset, first.key_hash)
            if found != (due, due, due_hash):
                expected = f"{due}, the next record with a key to index" if due >= 0 else "no file"
                return None, header_error(path, "beginPhyOffset", expected, header.begin_physical_offset)
        end = self._last_key_position(file, begin)
        if end is None:
            expected = "a record with these keys"
            return None, header_error(path, "endPhyOffset", expected, header.end_physical_offset)
        return end, None

    def _first_key_after(self, place: Place) -> tuple[int, int]:
        """Return log offset and hash of the first key after `place`, or (-1, -1) if no key follows."""
        offset, done = place
        for record in self._keyed_records(max(offset, self._log.min_offset)):
            keys = keys_of(record.properties)[done if record.physical_offset == offset else 0 :]
            if keys:
                return record.physical_offset, key_hash(record.topic, keys[0])
        return -1, -1

    def _last_key_position(self, file: IndexFile, begin: Place) -> Place | None:
        """Return the position after the file's last key, or None if the last entries do not match a record."""
        header = file.header
        offset = header.end_physical_offset
        record = next(self._keyed_records(offset), None)
        if record is None or record.physical_offset != offset:
            return None
        first = last = header.next_entry - 1
        assert last >= 1, last
        while first > 1 and file.entry(first - 1).physical_offset == offset:
            first -= 1
        done = begin[1] if first == 1 and begin[0] == offset else 0
        # The keys of a record may be in two files. The previous file contains the first `done` keys.
        keys = keys_of(record.properties)[done : done + last - first + 1]
        if len(keys) != last - first + 1:
            return None
        if not all(_is_index_entry_of_record(file, first + number, record, key) for number, key in enumerate(keys)):
            return None
        return offset, done + len(keys)

    def _keyed_records(self, offset: int) -> Iterator[ScannedRecord]:
        """Yield the records from `offset` on that may have keys, and skip damaged parts of the log."""
        for segment in self._log.segments:
            if segment.end_offset <= offset:
                continue
            view = segment.file.view(0, segment.size_bytes)
            start: int | None = max(offset - segment.base_offset, 0)
            while start is not None:
                at = start
                try:
                    for record in scan_records(
                        view,
                        at,
                        segment.size_bytes,
                        file=segment.file.path,
                        base_offset=segment.base_offset,
                        check_crc=self._check_crc,
                    ):
                        at = record.physical_offset - segment.base_offset + record.size_bytes
                        if may_have_keys(record):
                            yield record
                    start = None
                except CorruptFileError:
                    start = find_record_after_damage(view, at, segment.base_offset)
                    assert start is None or start > at, (start, at)  # otherwise the loop would not end


def _is_index_entry_of_record(file: IndexFile, number: int, record: ScannedRecord, key: bytes) -> bool:
    entry = file.entry(number)
    diff_s = time_diff_s(file.begin_timestamp_ms, record.store_timestamp_ms)
    if number == 1:
        diff_s = entry.time_diff_s  # relative to the previous file, which may be missing
    return entry == IndexEntry(key_hash(record.topic, key), record.physical_offset, diff_s, entry.previous)
