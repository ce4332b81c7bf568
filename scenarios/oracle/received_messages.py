"""Received messages: checks each message that a consumer receives, and records it as consumed.

VIS   a producer put the message
READ  every field of the record equals the put, and the message matches the subscription
SCHED no delayed message is received before its due time
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from .evidence import Violation
from .group_delivery import MessagePlace, Queue
from .invariants import consumers, delivery
from .ledger import ConsumedMessage, Ledger
from .light_places import LIGHT_MARK, LIGHT_PREFIX, light_places
from .misfiled import may_be_misfiled
from .put_entry import PutEntry
from .reader import LogRecord, ReadRecord


@dataclass(frozen=True, slots=True)
class ReceivedMessages:
    """The messages that one consumer receives."""

    ledger: Ledger
    report: Callable[[Iterable[Violation]], None]
    now_ns: Callable[[], int]
    wants: Callable[[PutEntry], bool]
    wanted: str
    has_steady_clock: bool
    """Whether the clock never steps, so that no delayed message may arrive early."""
    sync_flush: bool = False
    may_skip: bool = True
    """Whether an answer may omit messages with other tags, or any messages if the whole queue is checked later."""

    def judge_answer(
        self,
        queue: Queue,
        position: int,
        answered: Iterable[tuple[int | None, ReadRecord]],
        bounds: consumers.PullBounds,
        asked_in: int,
    ) -> dict[MessagePlace, PutEntry | None]:
        """Check the answer to a pull, and return its messages by topic, queue and offset.

        answered: each record with its queue offset; None stands for the record's queueOffset.
        """
        ledger, following, taken = self.ledger, position, dict[MessagePlace, PutEntry | None]()
        for queue_offset, reading in answered:
            place = self.place_of_received(queue, following, reading.record)
            if queue_offset is None and LIGHT_MARK in reading.record.properties:
                queue_offset = light_places(reading.record).get(queue)
            if queue_offset is not None:
                place = MessagePlace(*queue, queue_offset)
            is_after = place[:2] == queue and place.queue_offset > following
            missing = range(following, place.queue_offset)
            lacks = ledger.tears and ledger.missing_offsets.get(queue, set()).issuperset(missing)
            if is_after and ledger.expired_to and not self.may_skip:
                if asked_in == ledger.life:
                    self.report(consumers.check_skipped_messages(ledger, queue, following, place.queue_offset))
            elif place != (*queue, following) and not (is_after and (self.may_skip or lacks)):
                expected = str(MessagePlace(*queue, following))
                skips = "a pull skips or repeats"
                self.report([Violation("READ", skips, field="next message", expected=expected, found=str(place))])
            taken[place] = self.judge_message(place, reading, asked_in)
            following = place.queue_offset + 1
        begin = min((place.queue_offset for place in taken), default=position)
        self.report(
            consumers.check_pull_bounds(ledger, bounds, (position, begin, following), passes_over=self.may_skip)
        )
        return taken

    def place_of_received(self, queue: Queue, following: int, record: LogRecord) -> MessagePlace:
        """Return topic, queue and offset of a received record. A torn record may have a wrong queueOffset."""
        tears = self.ledger.tears
        place = MessagePlace(record.topic, record.queue_id, record.queue_offset)
        expected = MessagePlace(*queue, following)
        return expected if place < expected and may_be_misfiled(record.physical_offset, tears=tears) else place

    def judge_message(self, place: MessagePlace, reading: ReadRecord, asked_in: int) -> PutEntry | None:
        """Check a received message, record it as consumed, and return its put.

        asked_in: the number of the store start before the request. An answer from before the last start may contain a
        message that a later power cut lost, except under SYNC_FLUSH, or that was lost with its master.
        """
        (record, body), ledger = reading, self.ledger
        put = ledger.put_seen_in(record)
        if put is None and place.topic.startswith(LIGHT_PREFIX):
            returned = ledger.put_returned_in(record)  # a retry enters the light queues of its message again
            if returned is not None and returned.body == body:
                return None
        if put is None or put.body != body:
            self.report([consumers.unknown_record_violation(record.properties[:60].decode(errors="replace"))])
            return None
        is_known_damage = record.physical_offset in ledger.known_damage.offsets
        if not is_known_damage:
            self.report(consumers.check_received(ledger, put, record))
        if not self.wants(put):
            summary, found = f"{put.name} does not match its consumer's subscription", str(put.properties)
            self.report([Violation("READ", summary, field="filter", expected=self.wanted, found=found)])
        if put.delivery_delay_ms is not None and self.has_steady_clock:
            self.report(delivery.check_not_seen_early(put, self.now_ns()))
        is_late = asked_in != ledger.life
        may_be_lost = is_late and (not self.sync_flush or record.physical_offset >= ledger.lost_from)
        if may_be_lost or may_be_misfiled(record.physical_offset, tears=ledger.tears):
            return put
        is_own = put.waiting_place is None
        if is_own and not is_late and put.physical_offset is None and not is_known_damage:
            put.physical_offset, put.queue_offset = record.physical_offset, record.queue_offset
            put.wrote_bytes = record.size_bytes
        copy_end = None if is_own else record.physical_offset + record.size_bytes
        ledger.consumed.append(ConsumedMessage(*place, put, copy_end, given_at=record.physical_offset))
        return put
