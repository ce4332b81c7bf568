"""The people who run a store.

One has old messages deleted, one finds room for a full disk, one persists by hand, one has producers asked again about
what was given up.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress

from ...faults.disk.disk import Disk
from ...sim.choices import Stream
from ...store.errors import StoreError
from ...store.formats.half_message import QUEUE_ID
from ...store.message_store import MessageStore
from ...store.running_flags import Refusal
from ...store.services.consumer_offsets import ConsumerOffsetManager
from ...store.services.transaction_queues import pull_from
from ...store.services.transaction_service import TransactionalMessageService
from ..oracle import allowances
from ..oracle.disk_space import Room
from ..oracle.evidence import Violation
from ..oracle.invariants import status
from ..oracle.ledger import GIVEN_UP_TOPIC, Ledger

_HOUR_MS = 3_600_000
_ROUNDS_MAX = 4
_REMOVALS_MAX = 16
_REMOVAL_PAUSES_MS = (10, 30, 100)
_PASS_MS = 30
"""How long somebody waits, at most, for a pass of retention before queues are removed."""
_PAUSES_MS = (1, 30, 300, 4000)
_ROOM_RETURNS_MS = (200, 5_000, 40_000)
"""When room returns, at the latest: after some refused puts, or after forced cleaning had its time."""
_EASED_PERCENTS = (50, 74, 76, 84)
"""How much of a disk is used when it has a little room again: on either side of the mark at which retention begins,
75 % in RocketMQ, and up to that of 85 % where puts are taken."""
_LOOK_MS = 500
"""How often somebody looks at a disk that is short of room."""
_RESUME_CHANCE = 0.5
"""Of a half message that was given up, each time that somebody looks, to be asked about again."""


def retention_operator(
    store: MessageStore, stream: Stream, called_off: Callable[[int | None], bool] | None = None
) -> Callable[[], None]:
    """Return a task that lets hours pass for some of the oldest segments and has deleted what expired, some times over.

    Time passes by what the files say about when they were last changed; what is put into one later renews it.
    called_off: lets so many ms pass, or fewer if it is called off then, and returns whether it is.
    """

    def operate() -> None:
        for _ in range(stream.between(1, _ROUNDS_MAX, "rounds")):
            pause_ms = stream.between(1, stream.pick(_PAUSES_MS, "pause"), "pause ms")
            if called_off is None:
                store.world.tasks.sleep(pause_ms)
            elif called_off(pause_ms):
                return
            _age(store, stream.below(4, "thirds of the log that expire"))
            store.execute_delete_files_manually()

    return operate


def _age(store: MessageStore, thirds: int) -> None:
    """Let the time of so many thirds of the log's segments, the oldest, be over."""
    segments = store.log.segments
    changed_ms = store.world.clock.now_ms() - 2 * store.config.file_reserved_time_hours * _HOUR_MS
    for segment in segments[: -(-len(segments) * thirds // 3)]:
        with suppress(FileNotFoundError):  # it is removed already
            store.world.files.set_mtime_ms(segment.file.path, changed_ms)


def removing_operator(
    store: MessageStore, stream: Stream, disk: Disk, ledger: Ledger, goes_on: Callable[[], bool]
) -> Callable[[], None]:
    """Return a task that has queues removed of which nothing is left but numbers, again and again, while others put.

    It lets hours pass for what they lead to first. Consumers of a queue that was removed are asked to begin again: when
    it begins to go, and when it is gone.
    """

    def operate() -> None:
        most_ms = stream.pick(_REMOVAL_PAUSES_MS, "pause")
        for _ in range(_REMOVALS_MAX):
            store.world.tasks.sleep(stream.between(1, most_ms, "pause ms"))
            if not goes_on():
                return
            if stream.chance(0.7, "all but the newest expires"):
                _age(store, 3)
                store.execute_delete_files_manually()
                store.world.tasks.sleep(stream.between(1, _PASS_MS, "pause ms of a pass"))
            before, known = ledger.queue_ends.copy(), store.queues.all()
            ledger.queues_going += 1
            try:
                store.clean_expired_consumer_queue()
            except OSError:
                if not allowances.errors(disk):
                    raise
            places = [(queue.topic, queue.queue_id) for queue in known]
            gone = {place for place, queue in zip(places, known, strict=True) if store.queues.find(*place) is not queue}
            for place in gone - (ledger.queue_ends - before).keys():  # its file was gone since an attempt that failed
                ledger.end_queue(place)
            for place in ledger.queue_ends - before:
                ledger.count_queue_end(place)
            ledger.queues_going -= 1

    return operate


def queue_operator(store: MessageStore, stream: Stream) -> bool:
    """Remove the queues of which nothing is left but numbers, if somebody cares to: when nobody puts or pulls.

    Return whether somebody did.
    """
    cares = stream.chance(0.5, "remove expired queues")
    if cares:
        store.clean_expired_consumer_queue()
    return cares


def persisting_operators(manager: ConsumerOffsetManager, stream: Stream) -> Callable[[], None]:
    """Return a task in which two people have the progress of consumers persisted, now and then, at the same time."""
    tasks = manager.world.tasks

    def persist() -> None:
        with suppress(OSError):  # the service tries again
            manager.persist()

    def operate() -> None:
        for _ in range(stream.between(0, _ROUNDS_MAX, "rounds")):
            tasks.sleep(stream.between(1, stream.pick(_PAUSES_MS, "pause"), "pause ms"))
            other = tasks.spawn("persisting operator", persist)
            persist()
            other.join(None)

    return operate


def resuming_operator(
    store: MessageStore,
    transactions: TransactionalMessageService,
    stream: Stream,
    called_off: Callable[[int | None], bool],
    note: Callable[[], None],
) -> Callable[[], None]:
    """Return a task that has some of the half messages that were given up asked about again, until it is called off.

    called_off: as `retention_operator` has it; note: called when one is to be asked about again.
    """

    def operate() -> None:
        while not called_off(stream.between(1, stream.pick(_PAUSES_MS, "pause"), "pause ms")):
            with suppress(StoreError, OSError):  # the disk, or a stop; there will be another look
                for log_offset in _given_up(store):
                    if stream.chance(_RESUME_CHANCE, "resume") and transactions.resume(log_offset) is None:
                        note()

    return operate


def resume_all(store: MessageStore, transactions: TransactionalMessageService) -> int:
    """Have every half message that was given up, and may be undecided, asked about again; return how many there are."""
    return sum(transactions.resume(log_offset) is None for log_offset in _given_up(store))


def _given_up(store: MessageStore) -> Iterator[int]:
    """Yield where in the log the half messages are that were given up, as far as anybody can see them."""
    begin = max(store.get_min_offset_in_queue(GIVEN_UP_TOPIC, QUEUE_ID), 0)
    end = store.get_max_offset_in_queue(GIVEN_UP_TOPIC, QUEUE_ID)
    places = pull_from(store, GIVEN_UP_TOPIC, begin, end)
    yield from (record.physical_offset for _, record in places if record is not None)


def room_operator(
    store: MessageStore, stream: Stream, room: Room, report: Callable[[Iterable[Violation]], None]
) -> Callable[[], None]:
    """Return a task that looks at a disk that is short of room, and finds some for it sooner or later.

    At first that may be so little that retention still wants more, and puts have to be taken all the same.
    """

    def look_for(left_ms: int) -> None:
        monotonic_ns = store.world.clock.monotonic_ns
        fine_ns = taking_ns = monotonic_ns()
        while left_ms > 0:
            store.world.tasks.sleep(min(left_ms, _LOOK_MS))
            left_ms -= _LOOK_MS
            now_ns = monotonic_ns()
            filling = room.look(store.log.segment_bytes)
            if not filling.too_full:
                fine_ns = now_ns
            elif room.awake_ns(fine_ns, now_ns) > status.LOOK_MS_MAX * 1_000_000:
                report(status.check_refusing(store))
            if not (filling.enough and store.flags.bits & Refusal.DISK_FULL):
                taking_ns = now_ns
            elif room.awake_ns(taking_ns, now_ns) > status.LOOK_MS_MAX * 1_000_000:
                report(status.check_taking(store))

    def operate() -> None:
        look_for(stream.between(1, stream.pick(_ROOM_RETURNS_MS, "haste"), "pause ms"))
        if stream.chance(0.5, "a little room at first"):
            room.ease(stream.pick(_EASED_PERCENTS, "per cent used"))
            look_for(2 * status.LOOK_MS_MAX)
        room.give_back()

    return operate
