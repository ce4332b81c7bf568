"""Store traffic: runs producers, consumers and operators between a start and a stop of a store."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial

from ...sim.choices import Stream
from ...store.errors import StoreNotReadableError
from ...store.services.consumer_offsets import ConsumerOffsetManager
from ...store.world import Task
from ..claims.plan import Plan
from ..oracle import allowances
from ..oracle.disk_space import DiskRoom
from ..oracle.evidence import Violation
from ..oracle.invariants import iso
from . import operators, options
from .consuming import Consumer, Newcomer
from .drawing import Drawing, topic_of_users
from .producer import Producer
from .skew import Skew, draw_skew
from .store_sender import OnAnswer, PutCountdown, StoreSender
from .transaction_traffic import TransactionTraffic, draw_behaviour

_LOOK_MS = 50
_SECOND_START_MS_MAX = 100


@dataclass(slots=True, eq=False)
class Traffic(options.StoreUser):
    """The users of a store until its next stop. Each user has its own stream of random choices."""

    life: int
    streams: Callable[[str], Stream]
    progress: ConsumerOffsetManager | None = None
    """None: consumers do not commit."""
    transactions: TransactionTraffic | None = None
    """None: producers send no half messages."""
    room: DiskRoom | None = None
    paused_ns: Callable[[int], int] = lambda _: 0
    on_answer: OnAnswer | None = None
    _skew: Skew = field(init=False)
    _sender: StoreSender = field(init=False)
    _producing: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        self._skew = draw_skew(self._stream("skew"), self.plan)
        draw = None if self.transactions is None else draw_behaviour
        drawing = Drawing(self.plan, self.streams, self._skew, draw)
        after_put = self.room, self.paused_ns, self.on_answer
        self._sender = StoreSender(*self.shared_fields, drawing, self.transactions, *after_put)

    def _stream(self, name: str) -> Stream:
        return self.streams(f"life-{self.life}/{name}")

    def run(self, messages_each: int) -> None:
        for user in self._start_users(messages_each):
            user.join(None)

    def run_and_stop(self, messages_each: int, stop: Callable[[], bool]) -> bool:
        """Start all users, stop the store at a random put, and wait for all users. Return the result of `stop`."""
        stream = self._stream("stop")
        puts_max = sum(len(self._names_of(number, messages_each)) for number in range(self.plan.producers))
        puts = stream.randint(1, puts_max, "puts before the stop")
        due = self._sender.stop = PutCountdown(puts, self.store.world.tasks.signal("stop due"))
        users = self._start_users(messages_each)
        due.signal.wait(None)
        due.has_begun = True
        clean = stop()
        due.ended_ns = self.disk.kernel.now_ns
        for user in users:
            user.join(None)
        return clean

    def _start_users(self, messages_each: int) -> list[Task]:
        plan, store, spawn = self.plan, self.store, self.store.world.tasks.spawn
        self._producing = plan.producers
        users = [
            spawn(f"producer-{number}", self._producer_task(number, messages_each)) for number in range(plan.producers)
        ]
        users += [spawn(f"consumer-{number}", self._consumer_task(number)) for number in range(plan.consumers)]
        for number in range(plan.consuming.newcomers):
            newcomer = Newcomer(*self.shared_fields)
            self._sender.on_new_queue.append(newcomer.note_queue)
            users.append(spawn(f"newcomer-{number}", partial(newcomer.ask_repeatedly, lambda: self._producing > 0)))
        if plan.consuming.commits_offsets and self.progress is not None and self.life < len(plan.lives):
            persisting = operators.persisting_operators(self.progress, self._stream("persisting"))
            users.append(spawn("persisting operators", persisting))
        if plan.starts.second and self._sender.stop is None:  # after a stop a second start is allowed
            users.append(spawn("operator", self._check_second_start))
        if plan.retention.deletes_segments:
            ages = not (plan.retention.hours_off and self.life)  # after days off, earlier segments are old
            asks = not plan.retention.delete_when
            retention = operators.retention_operator(store, self._stream("retention"), ages=ages, asks=asks)
            users.append(spawn("retention operator", retention))
        if plan.retention.deletes_segments and plan.retention.deletes_queues and self._sender.stop is None:
            removing = operators.removing_operator(
                store, self._stream("removing"), self.disk, self.ledger, lambda: self._producing > 0, ages=ages
            )
            users.append(spawn("removing operator", removing))
            users.append(spawn("returning producer", self._removal_producer_task()))
        if self.room is not None and self.room.is_limited:
            finding_room = operators.room_operator(store, self._stream("room"), self.room, self._report_while_running)
            users.append(spawn("room operator", finding_room))
        if plan.delay.chance:
            self._producing += 1
            users.append(spawn("patient", self._wait_for_delayed))
        if self.transactions is not None:
            self._producing += 1
            users.append(spawn("producer-group", self._decide_earlier_transactions))
        for number in range(plan.index.seekers):
            stream = self._stream(f"seeker-{number}")
            seeker = options.KeySearcher(*self.shared_fields, self.life, stream)
            users.append(spawn(f"seeker-{number}", partial(seeker.search_repeatedly, messages_each)))
        return users

    def _report_while_running(self, violations: Iterable[Violation]) -> None:
        if not self._sender.is_stopping:
            self.report(violations)

    def _check_second_start(self) -> None:
        pause_ms = self._stream("operator").randbelow(_SECOND_START_MS_MAX, "pause ms")
        self.store.world.tasks.sleep(pause_ms)
        self.disk.injected["second start"] += 1
        found = list(iso.check_second_instance(self.store))
        if not allowances.count_errors(self.disk):  # the second start may get the same errors
            self.report(found)

    def _wait_for_delayed(self) -> None:
        """Run consumers for a while, so that delayed messages are consumed."""
        stream = self._stream("patient")
        self.store.world.tasks.sleep(options.draw_wait_ms(stream))
        self._producing -= 1

    def _decide_earlier_transactions(self) -> None:
        """Let the producer group decide transactions from before the last start, and answer check requests."""
        assert self.transactions is not None
        healing = self.life == len(self.plan.lives)
        self.transactions.decide_earlier(self._stream("producer-group"), healing=healing)
        self._producing -= 1

    # -- producing ---------------------------------------------------------------------------------

    def _names_of(self, producer: int, messages_each: int) -> Sequence[str]:
        return self._skew.names_to_put(producer, message_names(self.plan, self.life, producer, messages_each))

    def _producer_task(self, number: int, messages_each: int) -> Callable[[], None]:
        producer = Producer(self.plan, self._stream(f"producer-{number}"), self._names_of(number, messages_each))

        def produce() -> None:
            producer.produce(self._sender, lambda ms: self.store.world.tasks.sleep(ms))
            self._producing -= 1

        return produce

    def _removal_producer_task(self) -> Callable[[], None]:
        stream = self._stream("returning-producer")
        ending: list[tuple[str, int]] = []
        users_topics = set(map(topic_of_users, range(self.plan.topics)))
        due = self.store.world.tasks.signal("queue ends")

        def note(place: tuple[str, int]) -> None:
            if place[0] in users_topics:
                ending.append(place)
                due.notify()

        self.ledger.watch_queue_ends(note)

        def produce() -> None:
            put = 0
            while self._producing > 0:
                due.wait(_LOOK_MS)
                while ending:
                    name = f"m{self.life}.back.{put}"
                    place, put = ending.pop(), put + 1
                    if name not in self.plan.left_out:
                        self.put_one(stream.with_subject(name), name, place)

        return produce

    def put_one(self, stream: Stream, name: str, place: tuple[str, int] | None = None) -> None:
        self._sender.put(self._sender.draw(stream, name, place))

    # -- consuming ---------------------------------------------------------------------------------

    def _consumer_task(self, number: int) -> Callable[[], None]:
        stream = self._stream(f"consumer-{number}")
        consumer = Consumer(*self.shared_fields, stream, f"G{number}")

        def consume() -> None:
            try:
                consumer.read_queue(self.progress, lambda: self._producing > 0)
            except StoreNotReadableError:
                if not self._sender.is_stopping:
                    raise

        return consume


def message_names(plan: Plan, life: int, producer: int, messages_each: int) -> list[str]:
    names = [f"m{life}.{producer}.{count}" for count in range(messages_each)]
    return [name for name in names if name not in plan.left_out] if plan.left_out else names
