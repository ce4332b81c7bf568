"""Bugs of the key index: its keys, its recovery, and what a full file vouches for."""

from collections.abc import Callable

from ....store.errors import CorruptFileError
from ....store.formats import index_key
from ....store.formats.index import parse_index_file_name
from ....store.formats.index_key import key_hash, keys_of
from ....store.index.index_file import IndexFile
from ....store.index.index_service import IndexFiles, IndexService
from ....store.log.segment_queue import name_of
from ....store.queues.flush_queues import FlushConsumeQueueService
from ....store.recovery import index_recovery
from ....store.recovery.index_recovery import IndexRecovery, Place
from ....store.recovery.queue_replay import EarlierEntriesMissing
from ....store.recovery.recovery import Recovery
from ...claims.ranges import Ranges
from ..mutant import Mutant, Patch, bit


# index-first-key-only: a message is indexed by the first of its keys, and found by no other.
def _first_key_of(properties: bytes) -> list[bytes]:
    keys = keys_of(properties)
    bit(len(keys) > 1)
    return keys[:1]


INDEX_FIRST_KEY_ONLY = Mutant(
    "index-first-key-only",
    "the index leads to each message by one key, though some have several",
    (Patch(index_key, "keys_of", _first_key_of), Patch(index_recovery, "keys_of", _first_key_of)),
    ("IDX",),
    Ranges(index={"slots": (5, 40)}, messages={"equal_sizes": (False,)}),
)


# #28 index-file-dropped-on-crash: index files that are not known to be durable go, and are not made again as
# a whole. The log is scanned from where queues need it, whatever the index has lost in front of that.
def _scan_for_queues_only(self: Recovery, trusted: int) -> CorruptFileError | None:
    first = 0 if self._config.recover_whole_log else trusted
    if self.index is not None:
        bit(self._log.number_of(self.index.start_offset) < first)
    try:
        stopped_by = self._scan(first, trusted)
    except EarlierEntriesMissing:
        stopped_by = self._scan(0, trusted)
    if self.index is not None:
        self.index.drop_beyond(self._report.end_offset)
    return stopped_by


INDEX_FILE_DROPPED_ON_CRASH = Mutant(
    "index-file-dropped-on-crash",
    "after a crash the newest index file is deleted, and only what recovery scans for the queues is indexed again",
    (Patch(Recovery, "_scan_enough", _scan_for_queues_only),),
    ("IDX",),
    Ranges(
        recover_whole_log=(False,),
        index={"slots": (5, 40)},
        commit_log_bytes=(2048,),
        messages={"body_bytes_max": (300,)},
        messages_each=(16,),
        pauses={"chance": (0.5,), "ms_max": (3000,)},
        flush={"thorough_interval_ms": (2000,)},
        endings=("crash at rest", "crash in traffic"),
    ),
)


# #45 index-header-ahead-of-entries: after a crash the header of an index file is believed, entries unseen.
# Header and entries are in different sectors, so one may be durable without the other; what the header counts
# is not indexed again.
_ALL_KEYS = 1 << 31
_original_end_of = IndexRecovery._end_of


def _end_by_header(self: IndexRecovery, file: IndexFile, begin: Place) -> tuple[Place | None, CorruptFileError | None]:
    if self._clean_exit:
        return _original_end_of(self, file, begin)
    if file.header.next_entry == 1:
        return None, None
    bit(not file.is_full or file.end_timestamp_ms > self._checkpoint.index_msg_timestamp_ms)
    return (file.end_physical_offset, _ALL_KEYS), None


INDEX_HEADER_AHEAD_OF_ENTRIES = Mutant(
    "index-header-ahead-of-entries",
    "after a crash an index file is kept as far as its header says, without a look at its entries",
    (Patch(IndexRecovery, "_end_of", _end_by_header),),
    ("IDX",),
    Ranges(
        index={"slots": (40,), "entries": (60, 200)},
        messages_each=(16,),
        disk=("strict-posix", "ext4-ordered"),
        endings=("crash at rest", "crash in traffic"),
    ),
)


# #29 index-roll-publishes-cq-checkpoint: a full index file has the checkpoint written as it is in memory just then.
# That says that queues are durable as far as they are dispatched, which only a thorough flush makes true.
_original_flush_full_index_files = FlushConsumeQueueService._flush_full_index_files


def _flush_and_vouch_for_queues(self: FlushConsumeQueueService) -> bool:
    is_new = _original_flush_full_index_files(self)
    if bit(is_new):
        self._checkpoint.queues_are_durable_to(self._dispatch.dispatched_store_timestamp_ms)
    return is_new


INDEX_ROLL_PUBLISHES_CQ_CHECKPOINT = Mutant(
    "index-roll-publishes-cq-checkpoint",
    "a full index file has the checkpoint written, which then speaks for queue entries that are not durable",
    (Patch(FlushConsumeQueueService, "_flush_full_index_files", _flush_and_vouch_for_queues),),
    ("CKPT", "CQ-COMPLETE"),
    Ranges(
        recover_whole_log=(False,),
        index={"slots": (5,), "entries": (5, 12)},
        pauses={"chance": (0.5,), "ms_max": (3000,)},
        flush={"thorough_interval_ms": (10_000,)},
        endings=("crash in traffic", "crash at rest"),
    ),
)


# index-walk-bounded: a look-up follows so many entries of a hash at most, so that no damaged file keeps it for ever.
# Behind as many messages of one key, an older one is not found.
_original_select = IndexFile.select
_WALK_ENTRIES_MAX = 32


def _select_in_few_steps(
    self: IndexFile,
    key_hash: int,
    begin_ms: int,
    end_ms: int,
    found: list[int],
    max_num: int,
    accept: Callable[[int], bool],
) -> None:
    room = min(max_num, len(found) + _WALK_ENTRIES_MAX)
    _original_select(self, key_hash, begin_ms, end_ms, found, room, accept)
    bit(len(found) == room < max_num)


INDEX_WALK_BOUNDED = Mutant(
    "index-walk-bounded",
    "a look-up finds so many messages in one file, however many more there are and are asked for",
    (Patch(IndexFile, "select", _select_in_few_steps),),
    ("IDX",),
    Ranges(
        index={"slots": (3,), "entries": (200,), "keys_chance": (1.0,), "seekers": (1,)},
        messages={"equal_sizes": (False,)},
        producers=(3,),
        messages_each=(16,),
        topics=(1,),
        lives=(2, 3),
        endings=("stop",),
    ),
)


# look-up-ends-a-file-early: a look-up by time ends at the file that begins in the same second as it.
def _query_to_the_second(
    self: IndexService,
    topic: str,
    key: bytes,
    max_num: int,
    begin_ms: int,
    end_ms: int,
    accept: Callable[[int], bool],
) -> list[int]:
    hashed, max_num = key_hash(topic, key), min(max_num, self._max_num)
    found: list[int] = []
    for file in reversed(self.table.files):
        if file.may_hold(begin_ms, end_ms):
            file.select(hashed, begin_ms, end_ms, found, max_num, accept)
        if len(found) >= max_num or file.begin_timestamp_ms <= begin_ms + 1000:
            bit(len(found) < max_num and file.begin_timestamp_ms >= begin_ms and file is not self.table.files[0])
            break
    return found


LOOK_UP_ENDS_A_FILE_EARLY = Mutant(
    "look-up-ends-a-file-early",
    "a look-up by time does not reach an older file of the same second",
    (Patch(IndexService, "query_offset", _query_to_the_second),),
    ("IDX",),
    Ranges(index={"slots": (5,), "entries": (4, 9), "seekers": (1,)}, messages_each=(16,)),
)


# stray-name-ends-dispatch: the time in the name of a file that is no index file counts, too. After the last time that a
# name of 17 digits can say no later one is left, and the attempt to make one ends dispatch.
_YEAR_10000_MS = 253_402_300_800_000
_original_load = IndexFiles.load
_original_create = IndexFiles.create


def _load_and_count_odd_names(self: IndexFiles) -> list[CorruptFileError]:
    odd = _original_load(self)
    times_ms = [parse_index_file_name(name_of(each.file)) or -1 for each in odd]
    self._last_local_ms = max([self._last_local_ms, *times_ms])
    return odd


def _create_before_the_year_10000(self: IndexFiles) -> IndexFile:
    if bit(self._last_local_ms + 1 >= _YEAR_10000_MS):
        raise AssertionError(self._last_local_ms + 1)
    return _original_create(self)


STRAY_NAME_ENDS_DISPATCH = Mutant(
    "stray-name-ends-dispatch",
    "a stray file with the latest name that an index file can have ends dispatch when the index needs a new file",
    (Patch(IndexFiles, "load", _load_and_count_odd_names), Patch(IndexFiles, "create", _create_before_the_year_10000)),
    ("LIVE", "STATUS"),
    Ranges(index={"slots": (5, 40)}, endings=("stop and strays",), lives=(2,)),
)
