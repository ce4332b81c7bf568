"""Bugs of recovery: where it cuts the log, and what it leaves in the queues."""

from ....store.formats.consume_queue import ENTRY_BYTES, decode_entry, is_valid
from ....store.log.checkpoint import StoreCheckpoint
from ....store.log.segment import first_nonzero
from ....store.message_store import MessageStore
from ....store.queues.consume_queue import ConsumeQueue
from ....store.queues.dispatch import DispatchService
from ....store.recovery.queue_replay import QueueReplay, _Doubted
from ....store.recovery.recovery import Recovery, RecoveryReport
from ...claims.catalogue import SCENARIOS
from ...claims.ranges import Ranges
from ..mutant import Mutant, Patch, bit


# #11 stale-tail-after-truncate: cutting the log resets positions and leaves the bytes behind the cut in
# place. When a later record ends exactly where an old one begins, the next recovery walks onto the old ones.
def _cut_without_zeroing(self: Recovery, end_offset: int) -> bool:
    log = self._log
    dirty = False
    while log.segments and log.segments[-1].base_offset > end_offset:
        dirty |= log._remove_last()
    for segment in log.segments[-1:]:
        bit(first_nonzero(segment.file.view(end_offset - segment.base_offset, segment.size_bytes)) is not None)
    return dirty


STALE_TAIL_AFTER_TRUNCATE = Mutant(
    "stale-tail-after-truncate",
    "records behind a cut stay on the disk and come back to life",
    (Patch(Recovery, "cut_log", _cut_without_zeroing),),
    ("PREFIX", "QOFF"),
    Ranges(
        sync_flush=(False,),
        disk=("ext4-ordered", "strict-posix"),
        messages={"equal_sizes": (True,), "batch_chance": (0.0,)},
        lives=(2, 3),
        endings=("crash in traffic", "crash at rest"),
    ),
)


# #17 reput-starts-at-log-end: recovery keeps the queue entries it finds and leaves the missing ones to the dispatcher.
# But that begins at the log's end, so what lies between the queues' ends and the log's is in no queue for ever.
_ANYWHERE = 1 << 62


def _end_of_entries(queue: ConsumeQueue, log_end: int = _ANYWHERE) -> int:
    """Return the end of the run of a queue's own entries that lie below the log's end."""
    segments = queue.queue.segments
    end = segments[0].base_offset // ENTRY_BYTES if segments else 0
    while (entry := queue.entry(end)) is not None and is_valid(entry) and entry.physical_offset < log_end:
        end += 1
    return end


def _keep_entries(queue: ConsumeQueue, log_end: int = _ANYWHERE) -> None:
    """Recover a queue to its own entries."""
    end = _end_of_entries(queue, log_end)
    queue.truncate(end)
    queue.recovered(end, 0)


def _finish_with_entries_found(self: Recovery) -> None:
    for queue in self._queues.all():
        _keep_entries(queue, self._report.end_offset)
        replay = self._replays.get((queue.topic, queue.queue_id))
        bit(replay is not None and replay.next > queue.max_offset)
        queue.correct_min_offset(max(self._log.min_offset, 0))


REPUT_STARTS_AT_LOG_END = Mutant(
    "reput-starts-at-log-end",
    "after a restart, records that were stored and not dispatched are never dispatched",
    (Patch(Recovery, "finish_queues", _finish_with_entries_found),),
    ("CQ-COMPLETE", "CQ-VALID"),
)


# #10 normal-recovery-keeps-dirty-cq: after a clean stop, recovery cuts the log at a bad record and leaves the
# queues. Entries for what was cut stay, and later records take the place that they point at.
_original_finish_queues = Recovery.finish_queues


def _finish_without_cutting(self: Recovery) -> None:
    if self._clean_exit:
        for queue in self._queues.all():
            bit(_end_of_entries(queue, self._report.end_offset) < _end_of_entries(queue))
            _keep_entries(queue)
            queue.correct_min_offset(max(self._log.min_offset, 0))
    else:
        _original_finish_queues(self)


NORMAL_RECOVERY_KEEPS_DIRTY_CQ = Mutant(
    "normal-recovery-keeps-dirty-cq",
    "after a clean stop, queue entries outlive the damaged records that recovery cuts",
    (Patch(Recovery, "finish_queues", _finish_without_cutting),),
    ("CQ-VALID", "CQ-COMPLETE"),
    Ranges(endings=("stop and damage",)),
)


# #16 clean-exit-with-backlog: a stop does not wait for the dispatcher, and removes the marker with a backlog
# left. A start without the marker takes the queues as they are, so the backlog is in no queue for ever.
def _end_at_once(self: DispatchService) -> None:
    """End at once: the time that the stop gives the dispatcher is over."""


def _is_clean_with_backlog(self: MessageStore) -> bool:
    clean = (
        self.flags.is_writeable
        and self.log.flushed_where.get() == self.log.max_offset
        and self.flush_queues.last_error is None
    )
    bit(clean and self.dispatch.behind_bytes > 0)
    return clean


def _finish_without_backlog(self: Recovery) -> None:
    if self._clean_exit:
        for queue in self._queues.all():
            _keep_entries(queue, self._report.end_offset)
    else:
        _original_finish_queues(self)


CLEAN_EXIT_WITH_BACKLOG = Mutant(
    "clean-exit-with-backlog",
    "a stop counts as clean although records are not dispatched, and the next start does not dispatch them",
    (
        Patch(DispatchService, "finish", _end_at_once),
        Patch(MessageStore, "is_clean", _is_clean_with_backlog),
        Patch(Recovery, "finish_queues", _finish_without_backlog),
    ),
    ("CQ-COMPLETE",),
    Ranges(sync_flush=(True,), messages={"no_wait_chance": (0.5,)}, sync_ms_max=(10,), endings=("stop",)),
)


# #25 offset-table-rebuilt-early: the next queue offsets are taken from the queues before recovery has completed
# these. A queue that lags behind the log gives offsets out again that records in the log have already.
_original_recover = MessageStore.recover


def _recover_with_early_offsets(self: MessageStore, *, clean_exit: bool) -> RecoveryReport:
    ends = {(queue.topic, queue.queue_id): _end_of_entries(queue) for queue in self.queues.all()}
    report = _original_recover(self, clean_exit=clean_exit)
    table = self.commit_log.topic_queue_table
    for key, end in table.items():
        bit(end > ends.get(key, 0))
        table[key] = min(end, ends.get(key, 0))
    return report


OFFSET_TABLE_REBUILT_EARLY = Mutant(
    "offset-table-rebuilt-early",
    "after a restart, new messages get queue offsets that others in the log have",
    (Patch(MessageStore, "recover", _recover_with_early_offsets),),
    ("CQ-COMPLETE", "QOFF", "READ"),
)


_original_place_of = QueueReplay._place_of


# numbering-gap-refused, not of the catalogue: recovery refuses records behind a gap in a queue's numbers,
# unless the log has room for it. A restart of 4.9.8 skips numbers without a byte of the log; who counts bytes
# takes all records behind it for damaged.
def _place_without_gaps(self: QueueReplay, doubted: _Doubted, following: int | None) -> int | None:
    entry = self.queue.entry(self.next)
    is_here = entry is not None and entry.physical_offset == doubted.physical_offset
    if is_here or following == self.next + 1:
        return self.next
    place = doubted.queue_offset if doubted.queue_offset > self.next and self._has_room(doubted) else None
    bit(place != _original_place_of(self, doubted, following))
    return place


_WITH_SKIPPED_NUMBERS = SCENARIOS["a-gap-in-the-numbers-hides-no-message"].ranges


NUMBERING_GAP_REFUSED = Mutant(
    "numbering-gap-refused",
    "messages behind numbers that a queue has skipped lose their entries",
    (Patch(QueueReplay, "_place_of", _place_without_gaps),),
    ("CQ-COMPLETE", "VIS"),
    _WITH_SKIPPED_NUMBERS,
)


# wrong-number-blanks-entry, not of the catalogue: recovery believes a record's queueOffset, which no checksum
# covers, rather than all others. A flipped bit of it makes a blank of an entry that was right, and may hold
# back those that follow.
def _place_by_own_number(self: QueueReplay, doubted: _Doubted, following: int | None) -> int | None:
    place = _original_place_of(self, doubted, following)
    if place in (doubted.queue_offset, None):
        return place
    own = doubted.queue_offset if doubted.queue_offset > self.next and self._has_room(doubted) else None
    bit(own != place)
    return own


WRONG_NUMBER_BLANKS_ENTRY = Mutant(
    "wrong-number-blanks-entry",
    "a flipped bit of a record's queueOffset costs a message that its entry leads to",
    (Patch(QueueReplay, "_place_of", _place_by_own_number),),
    ("CQ-COMPLETE", "VIS"),
    _WITH_SKIPPED_NUMBERS,
)


# next-number-believed: a record is in its place if its number is the one that comes next, wherever its entry is. One
# bit makes it that where a gap is in front of the record. Found in this store.
def _leave_last(self: QueueReplay) -> None:
    if self._pending:
        last = decode_entry(bytes(self._pending[-ENTRY_BYTES:]), 0)
        place = self.queue.index_of(last.physical_offset)
        bit(place is not None and place >= self.next)


NEXT_NUMBER_BELIEVED = Mutant(
    "next-number-believed",
    "a flipped bit moves a message to the beginning of the gap in front of it",
    (Patch(QueueReplay, "_move_last", _leave_last),),
    ("CQ-COMPLETE", "VIS"),
    _WITH_SKIPPED_NUMBERS,
)


# next-number-denies-gap: a record behind a gap is taken for wrong if the next one's number is what it would be without,
# though its entry is where it says. Then it is the next one's that is wrong. Found in this store.
def _place_by_next_number(self: QueueReplay, doubted: _Doubted, following: int | None) -> int | None:
    place = _original_place_of(self, doubted, following)
    if bit(place == doubted.queue_offset and place != self.next and following == self.next + 1):
        return self.next
    return place


NEXT_NUMBER_DENIES_GAP = Mutant(
    "next-number-denies-gap",
    "a flipped bit of a record's queueOffset moves the message in front of it, and blanks its entry",
    (Patch(QueueReplay, "_place_of", _place_by_next_number),),
    ("CQ-COMPLETE", "VIS"),
    _WITH_SKIPPED_NUMBERS,
)


# checkpoint-ahead-of-log: a start leaves the checkpoint's times where they are, though the log has lost the records
# that they are of. What is put next, by a clock that was set back, is vouched for before any sync.
def _leave_ahead(self: StoreCheckpoint, store_timestamp_ms: int) -> None:
    bit(max(self.physic_msg_timestamp_ms, self.logics_msg_timestamp_ms) > store_timestamp_ms)


CHECKPOINT_AHEAD_OF_LOG = Mutant(
    "checkpoint-ahead-of-log",
    "the checkpoint speaks for records that are put after the log has lost its end",
    (Patch(StoreCheckpoint, "log_ends_at", _leave_ahead),),
    ("CKPT",),
    Ranges(
        endings=("stop and damage",),
        disturbances={"clock_step_chance": (0.1,)},
        lives=(2, 3),
        pauses={"chance": (0.5,), "ms_max": (3000,)},
    ),
)


# dead-load-vouches-for-queues: a clean exit is taken to vouch for the queues, whatever the checkpoint says. A load that
# dies after it, and before its own marker, has written entries that no sync has reached. Found in this store.
_original_scan_enough = Recovery._scan_enough


def _trust_queues_after_clean_exit(self: Recovery, trusted: int) -> object:
    if self._clean_exit and not self._queues.lost_entries:
        bit(trusted > 0 and not self._queues_are_vouched)
        self._queues_are_vouched = True
    return _original_scan_enough(self, trusted)


DEAD_LOAD_VOUCHES_FOR_QUEUES = Mutant(
    "dead-load-vouches-for-queues",
    "queue entries of a load that died behind a clean stop are taken for durable",
    (Patch(Recovery, "_scan_enough", _trust_queues_after_clean_exit),),
    ("CKPT", "CQ-COMPLETE"),
    Ranges(
        recover_whole_log=(False,),
        commit_log_bytes=(1024,),
        index={"keys_chance": (0.0,)},
        messages_each=(16,),
        lives=(3, 4),
        endings=("stop and strays", "stop and strays", "crash in load"),
    ),
)
