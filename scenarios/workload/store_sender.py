"""Store sender: puts drafts into a store in the same process, and checks each answer at once."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

from ...sim.choices import Stream
from ...store.formats.messages import MessageBatch, PutMessageResult, PutMessageStatus
from ...store.world import Signal
from ..oracle.disk_space import DiskRoom
from ..oracle.evidence import Violation, services_text
from ..oracle.invariants import live, status
from ..oracle.put_entry import PutEntry
from . import odd_requests, options
from .drawing import Draft, Drawing
from .transaction_traffic import TransactionTraffic

OnAnswer = Callable[[PutEntry, PutMessageResult], Iterable[Violation]]


@dataclass(slots=True)
class PutCountdown:
    """Counts puts down, and notifies a signal at the last put."""

    puts: int
    signal: Signal
    has_begun: bool = False
    """Whether the stop has begun, so that the store may refuse requests."""
    ended_ns: int | None = None
    """The end of the stop; None before."""

    def count_put(self) -> None:
        self.puts -= 1
        if self.puts == 0:
            self.signal.notify()


@dataclass(slots=True, eq=False)
class StoreSender(options.StoreUser):
    """The interface of all producers to a store between a start and a stop."""

    drawing: Drawing
    transactions: TransactionTraffic | None = None
    room: DiskRoom | None = None
    paused_ns: Callable[[int], int] = lambda _: 0
    on_answer: OnAnswer | None = None
    on_new_queue: list[Callable[[tuple[str, int]], None]] = field(default_factory=list, init=False)
    """Called when the first put of a queue was answered, unless the message waits in another queue."""
    stop: PutCountdown | None = None
    """The stop during traffic, None if there is none."""

    @property
    def is_stopping(self) -> bool:
        return self.stop is not None and self.stop.has_begun

    def draw(self, stream: Stream, name: str, place: tuple[str, int] | None = None) -> Draft:
        if self.stop is not None:
            self.stop.count_put()
        with self.disk.kernel.without_scheduling_points():
            busy = status.check_busy_state(self.store)
            log_end, allocation = self.store.log.put_offset, status.allocation_of(self.store)
        self.report(busy)
        self.drawing.log_end = log_end
        draft = self.drawing.draw(stream, name, self.store.world.clock.now_ms(), place)
        draft.log_end, draft.allocation = log_end, allocation
        draft.limit_bytes = self.store.config.max_message_size
        return draft

    def put(self, draft: Draft) -> bool:
        """Put a message or a batch once, record the answer in the ledger, and check it."""
        puts, now_ns = [], self.disk.kernel.now_ns
        for each in draft.messages:
            properties = draft.stored_properties(each, each.name)
            puts.append(draft.put(each, each.name, properties, now_ns, draft.queue_id, each.content))
            if not self.store.config.enable_multi_dispatch:
                puts[-1].light_names = ()
            self.ledger.record_request(puts[-1])
        first, refusal = puts[0], draft.refusal(puts, self.plan)
        if draft.behaviour is not None:
            assert self.transactions is not None, "half messages are sent"
            result = self.transactions.prepare(first, draft.behaviour)
            self._record_answer(puts, result, refusal, draft)
            self.transactions.decide(first)
            return True
        place, content = (draft.topic, draft.queue_id), draft.content
        if draft.in_batch:
            head = options.message_of(place[0], b"", place[1], "".join(draft.shared), content, wait=draft.wait)
            batch = MessageBatch(head, draft.batch_body(put.name for put in puts))
            result = self.store.put_messages(odd_requests.with_flaw(batch, draft.flaw))
        else:
            text = "\2".join((first.properties.decode(), *draft.messages[0].forged))
            message = options.message_of(place[0], first.body, place[1], text, content, wait=draft.wait)
            result = self.store.put_message(odd_requests.with_flaw(message, draft.flaw))
        self._record_answer(puts, result, refusal, draft)
        return True

    def _record_answer(
        self, puts: Sequence[PutEntry], result: PutMessageResult, refusal: PutMessageStatus | None, draft: Draft
    ) -> None:
        """Record the answer to puts, and check it.

        refusal: the required refusal, None if the puts can be stored.
        """
        plan = self.plan
        answer, append = result
        assert append is None or len(append.record_starts) == len(puts), puts[0].name
        now_ns = self.disk.kernel.now_ns
        for number, put in enumerate(puts):
            put.answered_ns = now_ns
            put.status = answer
            if append is not None:
                put.physical_offset = append.wrote_offset + append.record_starts[number]
                put.queue_offset = append.queue_offset + number if put.is_queued else None
                put.stored_ms = append.store_timestamp_ms
                if put.light_names:
                    put.wrote_bytes = append.wrote_bytes
        first, place = puts[0], (plan, self.store, self.disk)
        if append is not None and first.queue_offset == 0 and first.waiting_place is None:
            for note in self.on_new_queue:
                note(first.place)
        with self.disk.kernel.without_scheduling_points():
            expired_to, stopping = self.ledger.expired_to, self.is_stopping
            untrue = status.check_put_status(
                *place, first, result, refusal=refusal, room=self.room, expired_to=expired_to, stopping=stopping
            )
            untrue = untrue or status.check_allocation(plan, self.store, first, answer, draft.allocation)
            made = self.store.log.put_offset // plan.commit_log_bytes - draft.log_end // plan.commit_log_bytes
        if untrue:
            self.report(untrue)
        if first.light_names and plan.light_queues.queues_max <= len(options.LIGHT_NAMES):
            self.report(status.check_light_limit(self.ledger, first, plan.light_queues.queues_max))
        if self.on_answer is not None:
            self.report(self.on_answer(first, result))
        paused_ms = -(-self.paused_ns(first.asked_ns) // 1_000_000)
        more_ms = made * live.segment_ms_max(plan) + paused_ms
        if late := list(live.check_answer_time(live.answer_ms_max(plan), first, more_ms)):
            detail = services_text(self.store, self.store.flush.name)
            self.report([replace(each, detail=detail) for each in late])
        if not self.is_stopping:
            now_ms = self.store.world.clock.now_ms()
            self.report(live.check_flush_wait(plan, first, result, now_ms - paused_ms))
        if self.stop is not None and self.stop.ended_ns is not None:
            self.report(live.check_left_over_put(plan, first, self.stop.ended_ns))
