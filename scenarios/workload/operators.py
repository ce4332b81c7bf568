"""Actions of operators: delete messages, remove queues, free disk space, persist offsets, resume checks."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress

from ...faults.disk.disk import Disk
from ...sim.choices import Stream
from ...store.errors import StoreError
from ...store.formats.half_message import QUEUE_ID
from ...store.message_store import MessageStore
from ...store.running_flags import RefusalReason
from ...store.services.consumer_offsets import ConsumerOffsetManager
from ...store.services.transaction_queues import pull_from
from ...store.services.transaction_service import TransactionalMessageService
from ..oracle import allowances
from ..oracle.disk_space import DiskRoom
from ..oracle.evidence import Violation
from ..oracle.invariants import status
from ..oracle.ledger import GIVEN_UP_TOPIC, Ledger

_HOUR_MS = 3_600_000
_ROUNDS_MAX = 4
_REMOVALS_MAX = 16
_REMOVAL_PAUSES_MS = (10, 30, 100)
_PASS_MS = 30
"""The longest wait for a retention pass before queues are removed."""
_PAUSES_MS = (1, 30, 300, 4000)
_ROOM_RETURNS_MS = (200, 5_000, 40_000, 120_000)
"""The time until the disk has free space again: after some refused puts, or after forced retention."""
_EASED_PERCENTS = (50, 74, 76, 84)
"""Disk usage after a little space is freed. RocketMQ's retention runs from 75 % on; puts succeed below 85 %."""
_DISK_CHECK_INTERVAL_MS = 500
_RESUME_CHANCE = 0.5
"""The probability for each given-up half message in each pass."""


def retention_operator(
    store: MessageStore,
    stream: Stream,
    stopped_within: Callable[[int | None], bool] | None = None,
    *,
    ages: bool = True,
    asks: bool = True,
) -> Callable[[], None]:
    """Return a task that, a few times, makes the oldest segments expire and requests their deletion.

    ages: whether segments are made older; otherwise only old segments expire. asks: whether it requests deletions.
    stopped_within: sleeps for the given ms unless the task is stopped, and returns whether it was stopped.
    """

    def operate() -> None:
        for _ in range(stream.randint(1, _ROUNDS_MAX, "rounds")):
            pause_ms = stream.randint(1, stream.choice(_PAUSES_MS, "pause"), "pause ms")
            if stopped_within is None:
                store.world.tasks.sleep(pause_ms)
            elif stopped_within(pause_ms):
                return
            thirds = stream.randbelow(4, "thirds of the log that expire")
            if ages:
                _make_oldest_expire(store, thirds)
            if asks:
                store.execute_delete_files_manually()

    return operate


def _make_oldest_expire(store: MessageStore, thirds: int) -> None:
    """Make the oldest segments of the log older than the retention time.

    A later write renews the modification time, so that the file does not expire.
    """
    segments = store.log.segments
    changed_ms = store.world.clock.now_ms() - 2 * store.config.file_reserved_time_hours * _HOUR_MS
    for segment in segments[: -(-len(segments) * thirds // 3)]:
        with suppress(FileNotFoundError):
            store.world.files.set_mtime_ms(segment.file.path, changed_ms)


def removing_operator(
    store: MessageStore,
    stream: Stream,
    disk: Disk,
    ledger: Ledger,
    continues: Callable[[], bool],
    *,
    ages: bool = True,
) -> Callable[[], None]:
    """Return a task that removes empty queues repeatedly while producers put. ages: see `retention_operator`.

    Before each removal the segments of the queues expire. Consumers of a removed queue restart when the removal begins,
    and again after it.
    """

    def operate() -> None:
        most_ms = stream.choice(_REMOVAL_PAUSES_MS, "pause")
        for _ in range(_REMOVALS_MAX):
            store.world.tasks.sleep(stream.randint(1, most_ms, "pause ms"))
            if not continues():
                return
            if stream.chance(0.7, "all but the newest expires"):
                if ages:
                    _make_oldest_expire(store, 3)
                store.execute_delete_files_manually()
                store.world.tasks.sleep(stream.randint(1, _PASS_MS, "pause ms of a pass"))
            before, known = ledger.queue_ends.copy(), store.queues.all_queues()
            ledger.queue_removals_in_progress += 1
            try:
                store.clean_expired_consumer_queue()
            except OSError:
                if not allowances.count_errors(disk):
                    raise
            places = [(queue.topic, queue.queue_id) for queue in known]
            gone = {place for place, queue in zip(places, known, strict=True) if store.queues.find(*place) is not queue}
            for place in gone - (ledger.queue_ends - before).keys():  # an earlier, failed attempt removed the file
                ledger.record_queue_end(place)
            for place in ledger.queue_ends - before:
                ledger.restart_finished_pulls(place)
            ledger.queue_removals_in_progress -= 1

    return operate


def queue_operator(store: MessageStore, stream: Stream) -> bool:
    """With some probability remove empty queues, without traffic; return whether they were removed."""
    removes = stream.chance(0.5, "remove expired queues")
    if removes:
        store.clean_expired_consumer_queue()
    return removes


def persisting_operators(manager: ConsumerOffsetManager, stream: Stream) -> Callable[[], None]:
    """Return a task that starts two operators, which may persist consumer offsets simultaneously."""
    tasks = manager.world.tasks

    def persist() -> None:
        with suppress(OSError):  # the service will retry
            manager.persist()

    def operate() -> None:
        for _ in range(stream.randint(0, _ROUNDS_MAX, "rounds")):
            tasks.sleep(stream.randint(1, stream.choice(_PAUSES_MS, "pause"), "pause ms"))
            other = tasks.spawn("persisting operator", persist)
            persist()
            other.join(None)

    return operate


def resuming_operator(
    store: MessageStore,
    transactions: TransactionalMessageService,
    stream: Stream,
    stopped_within: Callable[[int | None], bool],
    on_resumed: Callable[[], None],
) -> Callable[[], None]:
    """Return a task that resumes the check of some half messages that were given up, until it is stopped.

    stopped_within: as in `retention_operator`; on_resumed: called for each resumed message.
    """

    def operate() -> None:
        while not stopped_within(stream.randint(1, stream.choice(_PAUSES_MS, "pause"), "pause ms")):
            with suppress(StoreError, OSError):  # after a disk error or at a stop, the next pass retries
                for log_offset in _given_up_offsets(store):
                    if stream.chance(_RESUME_CHANCE, "resume") and transactions.resume(log_offset) is None:
                        on_resumed()

    return operate


def resume_all(store: MessageStore, transactions: TransactionalMessageService) -> int:
    """Resume the check of every half message that was given up and may be undecided; return their number."""
    return sum(transactions.resume(log_offset) is None for log_offset in _given_up_offsets(store))


def _given_up_offsets(store: MessageStore) -> Iterator[int]:
    begin = max(store.get_min_offset_in_queue(GIVEN_UP_TOPIC, QUEUE_ID), 0)
    end = store.get_max_offset_in_queue(GIVEN_UP_TOPIC, QUEUE_ID)
    places = pull_from(store, GIVEN_UP_TOPIC, begin, end)
    yield from (record.physical_offset for _, record in places if record is not None)


def room_operator(
    store: MessageStore, stream: Stream, room: DiskRoom, report: Callable[[Iterable[Violation]], None]
) -> Callable[[], None]:
    """Return a task that watches a nearly full disk, and frees space after some time.

    At first the task may free so little that retention still removes segments. The store must accept puts nevertheless.
    """

    def look_for(left_ms: int) -> None:
        monotonic_ns = store.world.clock.monotonic_ns
        fine_ns = taking_ns = monotonic_ns()
        while left_ms > 0:
            store.world.tasks.sleep(min(left_ms, _DISK_CHECK_INTERVAL_MS))
            left_ms -= _DISK_CHECK_INTERVAL_MS
            now_ns = monotonic_ns()
            filling = room.take_filling(store.log.segment_bytes)
            if not filling.too_full:
                fine_ns = now_ns
            elif room.unpaused_ns(fine_ns, now_ns) > status.LOOK_MS_MAX * 1_000_000:
                report(status.check_full_disk_refused(store))
            if not (filling.enough and store.flags.bits & RefusalReason.DISK_FULL):
                taking_ns = now_ns
            elif room.unpaused_ns(taking_ns, now_ns) > status.LOOK_MS_MAX * 1_000_000:
                report(status.check_room_accepted(store))

    def operate() -> None:
        look_for(stream.randint(1, stream.choice(_ROOM_RETURNS_MS, "haste"), "pause ms"))
        if stream.chance(0.5, "a little room at first"):
            room.raise_capacity(stream.choice(_EASED_PERCENTS, "per cent used"))
            look_for(2 * status.LOOK_MS_MAX)
        room.lift_limit()

    return operate
