"""Bugs of the key index: keys, recovery, look-ups, and the checkpoint."""

from collections.abc import Callable

from ....store.errors import CorruptFileError
from ....store.formats import index_key
from ....store.formats.index import parse_index_file_name
from ....store.formats.index_key import key_hash, keys_of
from ....store.index import key_query
from ....store.index.index_file import IndexFile
from ....store.index.index_service import IndexFiles, IndexService
from ....store.index.key_query import QueryMessageResult
from ....store.log.segment_queue import file_name_of
from ....store.queues.flush_queues import FlushConsumeQueueService
from ....store.recovery import index_recovery
from ....store.recovery.index_recovery import IndexRecovery, Place
from ....store.recovery.queue_replay import EarlierEntriesMissing
from ....store.recovery.recovery import Recovery
from ...claims.catalogue import SCENARIOS
from ...claims.machine import INDEX_SIZES
from ..mutant import bit, bug, needs


@bug("index-first-key-only", (index_key, index_recovery), "keys_of", found_by=("IDX",))
@needs(index={"slots": (5, 40)}, messages={"equal_sizes": (False,)})
def first_key_of(properties: bytes) -> list[bytes]:
    """A message with several keys is indexed by its first key only."""
    keys = keys_of(properties)
    bit(len(keys) > 1)
    return keys[:1]


# Recovery scans from the first record that the queues need. The index may need earlier records.
@bug("index-file-dropped-on-crash", Recovery, "_scan_needed_segments", found_by=("IDX", "SCAN"))
@needs(
    recover_whole_log=(False,),
    index={"slots": (5, 40)},
    commit_log_bytes=(2048,),
    messages={"body_bytes_max": (300,)},
    messages_each=(16,),
    pauses={"chance": (0.5,), "ms_max": (3000,)},
    flush={"thorough_interval_ms": (2000,)},
    endings=("crash at rest", "crash in traffic"),
)
def scan_for_queues_only(self: Recovery, trusted: int) -> CorruptFileError | None:
    """After a crash, recovery deletes the newest index file, but indexes only the records that it scans for queues."""
    first = 0 if self._config.recover_whole_log else trusted
    if self.index is not None:
        bit(self._log.segment_index_of(self.index.start_offset) < first)
    try:
        stopped_by = self._scan_from(first, trusted)
    except EarlierEntriesMissing:
        stopped_by = self._scan_from(0, trusted)
    if self.index is not None:
        self.index.drop_files_beyond(self._report.end_offset)
    return stopped_by


_ALL_KEYS = 1 << 31


# Header and entries are in different sectors, so a crash can persist the header only.
@bug("index-header-ahead-of-entries", IndexRecovery, "_valid_end_of", found_by=("IDX",))
@needs(
    index={"slots": (40,), "entries": (60, 200)},
    messages_each=(16,),
    disk=("strict-posix", "ext4-ordered"),
    endings=("crash at rest", "crash in traffic"),
)
def end_by_header(self: IndexRecovery, file: IndexFile, begin: Place) -> tuple[Place | None, CorruptFileError | None]:
    """After a crash, recovery keeps an index file up to the count in its header, without a check of the entries."""
    if self._clean_exit:
        return end_by_header.original(self, file, begin)
    if file.header.next_entry == 1:
        return None, None
    bit(not file.is_full or file.end_timestamp_ms > self._checkpoint.index_msg_timestamp_ms)
    return (file.end_physical_offset, _ALL_KEYS), None


# Only a thorough flush syncs all queues up to the dispatch position.
@bug(
    "index-roll-publishes-cq-checkpoint",
    FlushConsumeQueueService,
    "_flush_full_index_files",
    found_by=("CKPT", "CQ-COMPLETE"),
)
@needs(
    recover_whole_log=(False,),
    index={"slots": (5,), "entries": (5, 12)},
    pauses={"chance": (0.5,), "ms_max": (3000,)},
    flush={"thorough_interval_ms": (10_000,)},
    endings=("crash in traffic", "crash at rest"),
)
def flush_and_vouch_for_queues(self: FlushConsumeQueueService) -> bool:
    """When an index file is full, the store writes a checkpoint that covers queue entries which are not durable."""
    is_new = flush_and_vouch_for_queues.original(self)
    if bit(is_new):
        self._checkpoint.advance_queue_time(self._dispatch.dispatched_store_timestamp_ms)
    return is_new


_WALK_ENTRIES_MAX = 32


# The limit would protect look-ups from cycles in damaged chains.
@bug("index-walk-bounded", IndexFile, "select_offsets", found_by=("IDX",))
@needs(
    index={"slots": (3,), "entries": (200,), "keys_chance": (1.0,), "seekers": (1,)},
    messages={"equal_sizes": (False,)},
    producers=(3,),
    messages_each=(16,),
    topics=(1,),
    lives=(2, 3),
    endings=("stop",),
)
def select_in_few_steps(
    self: IndexFile,
    key_hash: int,
    begin_ms: int,
    end_ms: int,
    found: list[int],
    max_num: int,
    accept: Callable[[int], bool],
) -> None:
    """A look-up follows only a limited number of entries in a file."""
    room = min(max_num, len(found) + _WALK_ENTRIES_MAX)
    select_in_few_steps.original(self, key_hash, begin_ms, end_ms, found, room, accept)
    bit(len(found) == room < max_num)


@bug("look-up-ends-a-file-early", IndexService, "query_offset", found_by=("IDX",))
@needs(index={"slots": (5,), "entries": (4, 9), "seekers": (1,)}, messages_each=(16,))
def query_to_the_second(
    self: IndexService, topic: str, key: bytes, max_num: int, begin_ms: int, end_ms: int, accept: Callable[[int], bool]
) -> list[int]:
    """A look-up by time misses an older file from the same second."""
    hashed, max_num = key_hash(topic, key), min(max_num, self.max_num)
    found: list[int] = []
    for file in reversed(self.table.files):
        if file.may_hold(begin_ms, end_ms):
            file.select_offsets(hashed, begin_ms, end_ms, found, max_num, accept)
        if len(found) >= max_num or file.begin_timestamp_ms <= begin_ms + 1000:
            bit(len(found) < max_num and file.begin_timestamp_ms >= begin_ms and file is not self.table.files[0])
            break
    return found


# A client shows these fields to distinguish an index that lags from an unknown key.
@bug("look-up-names-no-update", key_query, "_result", found_by=("IDX",))
@needs(index={"slots": (5,), "keys_chance": (0.7,), "seekers": (1,)}, messages_each=(16,))
def result_without_update(index: IndexService, offsets: list[int], records: list[bytes]) -> QueryMessageResult:
    """A look-up's result does not name the last indexed message."""
    bit(bool(offsets))
    found = result_without_update.original(index, offsets, records)
    return QueryMessageResult(found.records, found.physical_offsets)


_YEAR_10000_MS = 253_402_300_800_000


# An index file's name is a time of 17 digits. No later time has 17 digits.
@bug("stray-name-ends-dispatch", IndexFiles, "load", found_by=("LIVE", "STATUS"))
@needs(index={"slots": (5, 40)}, endings=("stop and strays",), lives=(2,))
def load_and_count_odd_names(self: IndexFiles) -> list[CorruptFileError]:
    """A foreign file with the latest possible index file name ends dispatch when the index needs a new file."""
    odd = load_and_count_odd_names.original(self)
    times_ms = [parse_index_file_name(file_name_of(each.file)) or -1 for each in odd]
    self._last_local_ms = max([self._last_local_ms, *times_ms])
    return odd


@load_and_count_odd_names.also(IndexFiles, "create")
def _create_before_the_year_10000(self: IndexFiles) -> IndexFile:
    if bit(self._last_local_ms + 1 >= _YEAR_10000_MS):
        raise AssertionError(self._last_local_ms + 1)
    return _create_before_the_year_10000.original(self)


# apache/rocketmq issue 7539. Each retry creates another file, which only a restart removes.
@bug("failed-index-file-remains", IndexFiles, "_map_new", found_by=("SCAN", "FILES"))
@needs(
    index={"slots": (5, 40), "keys_chance": (1.0,)},
    faults={"failed_extend_chance": (0.1, 0.3)},
    messages_each=(16,),
    endings=("stop",),
    lives=(2, 3),
)
def map_without_clean_up(self: IndexFiles, name: str) -> IndexFile:
    """A failed creation of an index file leaves an unusable file."""
    try:
        return self._map_file(name)
    except OSError:
        bit()
        raise


# apache/rocketmq issue 9233.
@bug("look-up-by-begin-of-file", IndexFile, "may_hold", found_by=("IDX",))
@needs(index={"slots": (5,), "entries": (30, 200), "keys_chance": (1.0,), "seekers": (1,)}, messages_each=(16,))
def may_hold_if_begun_inside(self: IndexFile, begin_ms: int, end_ms: int) -> bool:
    """A look-up by time misses a file that begins before the requested times."""
    may = may_hold_if_begun_inside.original(self, begin_ms, end_ms)
    return may and not bit(may and self.begin_timestamp_ms < begin_ms)


# apache/rocketmq issue 8007.
@bug("index-rebuilt-from-last-segment", IndexRecovery, "start_offset", found_by=("IDX", "SCAN"))
@needs(
    index={"slots": (5, 40)},
    commit_log_bytes=(2048,),
    messages={"body_bytes_max": (300,)},
    messages_each=(16,),
    endings=("crash at rest", "crash in traffic"),
)
def start_in_last_segment(self: IndexRecovery) -> int:
    """After a crash, recovery deletes the newest index file, but indexes only the last segment of the log again."""
    offset, last = start_in_last_segment.original(self), self._log.last_segment()
    if bit(not self._clean_exit and self._builds and last is not None and offset < last.base_offset):
        assert last is not None
        return last.base_offset
    return offset


# apache/rocketmq issue 10859: IndexService.buildIndex drops the key.
@bug("key-lost-with-failed-file", IndexService, "_make_file_with_room", found_by=("IDX", "SCAN", "LIVE"))
@needs(SCENARIOS["dispatch-retry-count"].ranges)
def make_or_go_on(self: IndexService) -> IndexFile | None:
    """If the next index file cannot be created, the index goes on without the key."""
    try:
        return make_or_go_on.original(self)
    except OSError:
        bit()
        return None


# apache/rocketmq issue 9379.
@bug("index-file-expires-with-first", IndexFiles, "delete_expired", found_by=("IDX", "SCAN"))
@needs(
    retention={"deletes_segments": (True,)},
    index={"slots": (5,), "entries": (5, 12)},
    commit_log_bytes=(1024,),
    messages={"body_bytes_max": (300,), "property_bytes_max": (0,)},
    messages_each=(16, 24),
    endings=("stop",),
)
def delete_begun_before(self: IndexFiles, log_min_offset: int) -> int:
    """Retention removes an index file as soon as its first message has expired."""
    begun = [file for file in self.files[:-1] if file.header.begin_physical_offset < log_min_offset]
    bit(any(file.end_physical_offset >= log_min_offset for file in begun))
    ends = [file.end_physical_offset + 1 for file in begun]
    return delete_begun_before.original(self, max(ends, default=log_min_offset))


# Found in this store.
@bug("foreign-index-file-unreported", IndexRecovery, "keep_valid_files", found_by=("FILES",))
@needs(SCENARIOS["foreign-and-damaged-files"].ranges, index={"slots": (5,)})
def keep_without_report(self: IndexRecovery) -> list[CorruptFileError]:
    """After a crash, recovery does not report foreign files in the index."""
    found = keep_without_report.original(self)
    return [] if bit(bool(found) and not self._clean_exit) else found


@bug("look-up-ignores-its-limit", IndexService, "query_offset", found_by=("IDX",))
@needs(index={"slots": (5,), "keys_chance": (1.0,), "seekers": (2,)}, messages_each=(16,))
def query_up_to_setting(
    self: IndexService, topic: str, key: bytes, max_num: int, begin_ms: int, end_ms: int, accept: Callable[[int], bool]
) -> list[int]:
    """A look-up returns as many messages as the settings allow, whatever its limit."""
    found = query_up_to_setting.original(self, topic, key, self.max_num, begin_ms, end_ms, accept)
    bit(len(found) > max_num)
    return found


# Found in this store. Rebuilt files had been made by a load that was killed before it synced their names.
@bug("index-names-trusted-at-load", IndexFiles, "load", found_by=("CKPT", "IDX"))
@needs(
    SCENARIOS["settings-switched"].ranges,
    starts={"switched": INDEX_SIZES},
    index={"slots": (3,), "entries": (20,), "keys_chance": (0.7,), "seekers": (0,)},
    light_queues={"chance": (0.0,)},
    consume_queue_bytes=(1000,),
    recover_whole_log=(False,),
    sync_flush=(True,),
    disk=("process-kill",),
    crash_aim=("sync",),
    producers=(1,),
    messages_each=(8,),
    topics=(1,),
    queues_per_topic=(1,),
    consumers=(0,),
    lives=(3,),
    endings=("stop", "crash in traffic", "crash at rest"),
)
def load_trusting_names(self: IndexFiles) -> list[CorruptFileError]:
    """A load counts the names of existing index files as durable."""
    odd = load_trusting_names.original(self)
    bit(not self._names_are_durable)
    self._names_are_durable = True
    return odd


@bug("resized-index-file-kept-in-memory-only", IndexFiles, "keep_first_files", found_by=("FILES", "IDX", "SCAN"))
@needs(SCENARIOS["settings-switched"].ranges, starts={"switched": INDEX_SIZES})
def keep_resized_files(self: IndexFiles, count: int, odd: list[str]) -> None:
    """Index files of an earlier configured size stay in the directory."""
    bit(len(odd) > 0)
    keep_resized_files.original(self, count, [])
