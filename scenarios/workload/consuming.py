"""Store consumer: reads one queue from its group's offset on, and checks each answer."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from ...sim.choices import Stream
from ...store.formats.consume_queue import ENTRY_BYTES
from ...store.formats.messages import GetMessageResult, GetMessageStatus
from ...store.services.consumer_offsets import ConsumerOffsetManager
from ...store.world import Signal
from ..oracle import allowances
from ..oracle.invariants import consumers, lookups
from ..oracle.ledger import Pull
from ..oracle.light_places import LIGHT_PREFIX
from ..oracle.reader import ReadRecord, UnreadableError, read
from ..oracle.received_messages import ReceivedMessages
from . import options

_COMMIT_CHANCE = 0.7
_SUBSCRIPTIONS = ("TagA", "TagB || TagC || Étiquette", "TagD || polygenelubricants", "TagA\u3000||\t\u00a0TagB ")
"""The second and the third contain a tag with a negative hash.

Only ASCII white space is trimmed from the last subscription, so it matches two tags that few messages have.
"""
_IDLE_MS_MIN, _IDLE_MS_MAX = 2, 32
"""The back-off between two pulls without a message. The back-off doubles, because most pulls find no message."""
_FAILED_MS = 50
_ASKED_MAX = (*(32,) * 80, 1, 0, -1, 1_000)
"""The most messages of an answer, as a consumer asks. The first message of an answer ignores the limit."""
_LOOK_MS = 50
_SEARCH_CHANCE = 0.2
_SOUGHT_MAX = 16
_WAYS = (None, None, 0, -1, 1, -(1 << 60), 1 << 60)
"""How far a time is from that of a message in ms. None: the middle between two messages."""
_REMOVED = (
    GetMessageStatus.OFFSET_TOO_SMALL,
    GetMessageStatus.OFFSET_FOUND_NULL,
    GetMessageStatus.MESSAGE_WAS_REMOVING,
)
"""After one of these answers to a pull of removed messages, the consumer continues at another offset."""


@dataclass(slots=True, eq=False)
class Consumer(options.StoreUser):
    """One consumer of a random queue."""

    stream: Stream
    group: str
    _pull: Pull = field(init=False)
    _received: ReceivedMessages = field(init=False)
    _place: tuple[str, str, int] = field(init=False)
    _queue_ends: int = field(init=False)
    _asked_max: int = field(init=False)
    _idle_ms: int = field(default=_IDLE_MS_MIN, init=False)

    def __post_init__(self) -> None:
        plan, ledger, kernel, stream = self.plan, self.ledger, self.disk.kernel, self.stream
        topic = f"T{stream.randbelow(plan.topics, 'topic')}"
        queue_id = stream.randbelow(plan.queues_per_topic, "queue")
        topic, queue_id = options.draw_queue(stream, plan, (topic, queue_id))
        tags = None
        if plan.consuming.filtered:
            tags = stream.choice(_SUBSCRIPTIONS, "subscription")
        self._asked_max = stream.choice(_ASKED_MAX, "messages at once")
        self._pull = Pull(topic, queue_id, tags)
        wanted = consumers.wanted_tags(tags)
        self._received = ReceivedMessages(
            ledger,
            self.report,
            lambda: kernel.now_ns,
            lambda put: wanted is None or put.tags in wanted,
            tags or "*",
            not plan.disturbances.clock_step_chance,
        )
        group = self.group
        if topic.startswith(LIGHT_PREFIX):
            group = f"{LIGHT_PREFIX}{group}"
        self._place = (group, topic, queue_id)
        self._queue_ends = ledger.queue_ends[topic, queue_id]

    def read_queue(self, progress: ConsumerOffsetManager | None, continues: Callable[[], bool]) -> None:
        """Pull to the end of the queue, and wait there for messages while continues returns True; commit to progress.

        Raises StoreNotReadableError if the store is stopping.
        """
        pull = self._pull
        if progress is not None:
            pull.begin_offset = pull.end_offset = max(progress.query_offset(*self._place), 0)
        self.ledger.pulls.append(pull)
        while self._pull_once(pull) or continues() or self._must_restart:
            if progress is not None:
                self._commit_by_chance(progress, pull.end_offset)
        pull.is_over = True
        self.report(consumers.check_pull_after_end(self.store, pull.topic, pull.queue_id))
        if self.stream.chance(_SEARCH_CHANCE, "search by time"):
            self._search_by_time()

    def _search_by_time(self) -> None:
        """Search the queue once for a store time or a time between two, and check the answer."""
        plan, store, ledger, stream, queue = self.plan, self.store, self.ledger, self.stream, self._place[1:]
        nth, way = stream.randint(1, _SOUGHT_MAX, "message by time"), stream.choice(_WAYS, "way")
        puts = {put.queue_offset: put for put in ledger.puts if put.place == queue and put.stored_ms is not None}
        has_other_times = ledger.tears or plan.rot.is_possible or plan.disturbances.clock_step_chance > 0
        low, high = max(store.get_min_offset_in_queue(*queue), 0), store.get_max_offset_in_queue(*queue)
        is_known = puts and not has_other_times and not allowances.has_reverted_data(self.disk)
        if not is_known or ledger.queue_ends[queue] or low == high:  # a removed queue restarts at 0
            return
        stored_ms = sorted(put.stored_ms or 0 for put in puts.values())
        at = -nth % len(stored_ms)
        wanted_ms = (stored_ms[at - 1] + stored_ms[at]) // 2 if way is None else stored_ms[at] + way
        try:
            with self.disk.with_page_ins():
                offset = store.get_offset_in_queue_by_time(*queue, wanted_ms)
                near = {
                    each: found.store_timestamp_ms
                    for each in (low, offset - 1, offset, offset + 1)
                    if (put := puts.get(each)) is not None
                    and (found := store.look_message_by_offset(put.physical_offset or 0)) is not None
                    and (found.topic, found.queue_id, found.queue_offset) == (*queue, each)  # else the put is lost
                }
        except OSError:
            if not allowances.count_errors(self.disk):
                raise
            return
        if allowances.has_reverted_data(self.disk):
            return  # perhaps during the search
        per_file = store.config.mapped_file_size_consume_queue // ENTRY_BYTES
        bounds = lookups.QueueBounds(low, high)
        self.report(lookups.check_offset_by_time(queue, wanted_ms, offset, near, bounds, per_file))

    @property
    def _must_restart(self) -> bool:
        ledger = self.ledger
        return ledger.queue_removals_in_progress > 0 or ledger.queue_ends[self._place[1:]] != self._queue_ends

    def _commit_by_chance(self, progress: ConsumerOffsetManager, offset: int) -> None:
        committed = self.ledger.commits.at.get(self._place, -1)
        if offset != committed and not progress.is_stopping and self.stream.chance(_COMMIT_CHANCE, "commit"):
            with self.ledger.commits.committing(self._place, offset, lambda: self.disk.kernel.now_ns) as commit:
                progress.commit_offset(*self._place, offset)
                commit.is_answered = True

    def _pull_once(self, pull: Pull) -> bool:
        """Pull once, and return whether messages were found. Without messages, pause.

        Removed messages are skipped. After a removal of the whole queue the consumer restarts, because offsets are
        reused.
        """
        try:
            with self.disk.with_page_ins():
                result = self.store.get_message(*self._place[1:], pull.end_offset, self._asked_max, pull.tags)
        except OSError:
            if not allowances.count_errors(self.disk):
                raise
            self.store.world.tasks.sleep(_FAILED_MS)
            # Data that a failed fsync may have dropped does not reappear before a restart.
            return self._restart_if_removed(pull) or not allowances.count_sync_errors(self.disk)
        if self._restart_if_removed(pull):
            return True
        bounds = consumers.PullBounds(result.min_offset, result.next_begin_offset, result.max_offset)
        self.report(consumers.check_offsets(self._place[1:], pull.end_offset, result.status, bounds))
        self.report(consumers.check_answer_size(self.store.config, self._place[1:], self._asked_max, result.records))
        if result.records:
            self._judge_messages(pull, result, bounds)
        found = result.status in (GetMessageStatus.FOUND, GetMessageStatus.NO_MATCHED_MESSAGE)
        if found or result.status in _REMOVED:
            pull.end_offset = result.next_begin_offset
            self._idle_ms = _IDLE_MS_MIN
        else:
            self.store.world.tasks.sleep(self._idle_ms)
            self._idle_ms = min(2 * self._idle_ms, _IDLE_MS_MAX)
        return found

    def _restart_if_removed(self, pull: Pull) -> bool:
        ends = self.ledger.queue_ends[pull.topic, pull.queue_id]
        if ends == self._queue_ends:
            return False
        self._queue_ends = ends
        pull.restart()
        return True

    def _judge_messages(self, pull: Pull, result: GetMessageResult, bounds: consumers.PullBounds) -> None:
        answered: list[tuple[int | None, ReadRecord]] = []
        for raw, queue_offset in zip(result.records, result.queue_offsets, strict=True):
            # A record that the test damaged is read as before the damage.
            place = int.from_bytes(raw[28:36], "big")
            whole = self.ledger.known_damage.view_before_damage(memoryview(raw), place)
            try:
                answered.append((queue_offset, read(whole, 0, len(raw), file="answer to a pull")))
            except UnreadableError:
                self.report([consumers.unknown_record_violation(raw[-60:].decode(errors="replace"))])
        queue, life = (pull.topic, pull.queue_id), self.ledger.life
        given = self._received.judge_answer(queue, pull.end_offset, answered, bounds, life)
        pull.puts += [put for put in given.values() if put is not None]


@dataclass(slots=True, eq=False)
class Newcomer(options.StoreUser):
    """A client that begins at the end of each queue, and learns of a queue by its first put.

    The store then creates the queue for the client and for dispatch at the same time.
    """

    _queues: deque[tuple[str, int]] = field(default_factory=deque, init=False)
    _due: Signal = field(init=False)

    def __post_init__(self) -> None:
        self._due = self.store.world.tasks.signal("new queue")

    def note_queue(self, queue: tuple[str, int]) -> None:
        self._queues.append(queue)
        self._due.notify()

    def ask_repeatedly(self, continues: Callable[[], bool]) -> None:
        while continues():
            while self._queues:
                self.store.get_max_offset_in_queue(*self._queues.popleft())
            self._due.wait(_LOOK_MS)
