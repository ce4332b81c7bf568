"""The users: producers that put and note what they were told, consumers that walk and note what they saw."""

from collections.abc import Callable, Iterable

from ..faults.disk import Disk
from ..sim.choices import Stream
from ..sim.kernel import Kernel
from ..store.errors import CorruptFileError
from ..store.formats.batch import BatchUnit, encode_batch
from ..store.formats.message import BLANK_BYTES, PHYSICAL_OFFSET_AT
from ..store.formats.scan import ScannedRecord, scan_records
from ..store.get_result import GetMessageStatus
from ..store.message import Message, MessageBatch
from ..store.message_store import MessageStore
from ..store.put_result import PutMessageResult
from .evidence import Violation
from .invariants import iso, live, status
from .ledger import Ledger, Pull, PutEntry, Seen
from .plan import Plan

TAGS = ("", "TagA", "TagB", "TagC")
_BATCH_UNITS_MAX = 4
_SECOND_START_MS_MAX = 100
_ILLEGAL_TOPIC = "no/topic"

Report = Callable[[Iterable[Violation]], None]


class Traffic:
    """The users of one life of a store. What they do is drawn per task, so that no schedule changes it."""

    def __init__(
        self,
        plan: Plan,
        life: int,
        kernel: Kernel,
        store: MessageStore,
        disk: Disk,
        ledger: Ledger,
        report: Report,
        streams: Callable[[str], Stream],
    ) -> None:
        self._plan = plan
        self._life = life
        self._kernel = kernel
        self._store = store
        self._disk = disk
        self._ledger = ledger
        self._report = report
        self._streams = streams
        self._answer_ms_max = live.answer_ms_max(plan)
        self._producing = 0

    def run(self, messages_each: int) -> None:
        """Let all users do their work, and wait for them."""
        spawn = self._store.world.tasks.spawn
        self._producing = self._plan.producers
        users = [
            spawn(f"producer-{number}", self._producer(number, messages_each))
            for number in range(self._plan.producers)
        ]
        users += [
            spawn(f"consumer-{number}", self._consumer(number)) for number in range(self._plan.consumers)
        ]
        if self._plan.second_start:
            users.append(spawn("operator", self._second_start))
        for user in users:
            user.join(None)

    def _second_start(self) -> None:
        """Start a second store on the directory, sooner or later, and see what it does."""
        pause_ms = self._streams(f"life-{self._life}/operator").below(_SECOND_START_MS_MAX, "pause ms")
        self._store.world.tasks.sleep(pause_ms)
        self._report(iso.check(self._store))

    # -- producing ---------------------------------------------------------------------------------

    def _producer(self, number: int, messages_each: int) -> Callable[[], None]:
        stream = self._streams(f"life-{self._life}/producer-{number}")

        def produce() -> None:
            for count in range(messages_each):
                self._put_one(stream, f"m{self._life}.{number}.{count}")
                if stream.chance(self._plan.pause_chance, "pause"):
                    self._store.world.tasks.sleep(stream.between(1, self._plan.pause_ms_max, "pause ms"))
            self._producing -= 1

        return produce

    def _put_one(self, stream: Stream, name: str) -> None:
        plan = self._plan
        legal = not stream.chance(plan.illegal_chance, "illegal")
        topic = f"T{stream.below(plan.topics, 'topic')}" if legal else _ILLEGAL_TOPIC
        queue_id = stream.below(plan.queues_per_topic, "queue")
        wait = not stream.chance(plan.no_wait_chance, "no wait")
        if stream.chance(plan.batch_chance, "batch"):
            names = [f"{name}.{unit}" for unit in range(stream.between(1, _BATCH_UNITS_MAX, "units"))]
            entries = [self._entry(stream, unit, topic, queue_id, wait=wait) for unit in names]
            units = encode_batch(BatchUnit(0, entry.body, entry.properties) for entry in entries)
            head = Message(topic, queue_id=queue_id, wait_store_ok=wait)
            result = self._store.put_messages(MessageBatch(head, units))
        else:
            entry = self._entry(stream, name, topic, queue_id, wait=wait)
            entries = [entry]
            message = Message(topic, entry.body, queue_id, entry.properties.decode(), wait_store_ok=wait)
            result = self._store.put_message(message)
        fits = sum(entry.record_bytes for entry in entries) + BLANK_BYTES <= plan.commit_log_bytes
        self._answered(entries, result, legal=legal and fits)

    def _entry(self, stream: Stream, name: str, topic: str, queue_id: int, *, wait: bool) -> PutEntry:
        """Make one message, the only one with its properties, and note that it is asked for."""
        plan = self._plan
        fixed = plan.equal_sizes
        body_bytes = plan.body_bytes_max if fixed else stream.below(plan.body_bytes_max + 1, "body bytes")
        extra_bytes = plan.property_bytes_max
        if extra_bytes and not fixed:
            extra_bytes = stream.below(extra_bytes + 1, "property bytes")
        tags = "TagA" if fixed else stream.pick(TAGS, "tags")
        pieces = [f"KEYS\1{name:<10}"] + ([f"TAGS\1{tags}"] if tags else [])
        if extra_bytes:
            pieces.append(f"extra\1{'p' * extra_bytes}")
        body = (f"{name}|".encode() * (body_bytes // len(name) + 1))[:body_bytes]
        entry = PutEntry(
            name,
            self._life,
            topic,
            queue_id,
            tags,
            body,
            "\2".join(pieces).encode(),
            wait,
            self._kernel.now_ns,
        )
        self._ledger.ask(entry)
        return entry

    def _answered(self, entries: list[PutEntry], result: PutMessageResult, *, legal: bool) -> None:
        append = result.append
        for number, entry in enumerate(entries):
            entry.answered_ns = self._kernel.now_ns
            entry.status = result.status
            if append is not None:
                entry.physical_offset = append.wrote_offset + append.record_starts[number]
                entry.queue_offset = append.queue_offset + number
        first = entries[0]
        self._report(status.check(self._plan, self._store, self._disk, first, result, legal=legal))
        self._report(live.check_answer(self._answer_ms_max, first))

    # -- consuming ---------------------------------------------------------------------------------

    def _consumer(self, number: int) -> Callable[[], None]:
        stream = self._streams(f"life-{self._life}/consumer-{number}")
        topic = f"T{stream.below(self._plan.topics, 'topic')}"
        queue_id = stream.below(self._plan.queues_per_topic, "queue")
        tags = stream.pick(("TagA", "TagB || TagC", "TagD"), "subscription") if self._plan.filtered else None

        def consume() -> None:
            pull = Pull(topic, queue_id, tags)
            self._ledger.pulls.append(pull)
            while self.pull_once(pull) or self._producing:
                pass

        return consume

    def pull_once(self, pull: Pull) -> bool:
        """Ask for what comes next; return whether anything came, after a pause if nothing did."""
        result = self._store.get_message(pull.topic, pull.queue_id, pull.end_offset, tags=pull.tags)
        for raw, queue_offset in zip(result.records, result.queue_offsets, strict=True):
            put = self._put_of(raw)
            if put is not None:
                pull.puts.append(put)
                self._ledger.seen.append(Seen(pull.topic, pull.queue_id, queue_offset, put))
        found = result.status in (GetMessageStatus.FOUND, GetMessageStatus.NO_MATCHED_MESSAGE)
        if found:
            pull.end_offset = result.next_begin_offset
        else:
            self._store.world.tasks.sleep(2)
        return found

    def _put_of(self, raw: bytes) -> PutEntry | None:
        """Return the put a record came from: its own, or one that was carried on."""
        put = self._ledger.by_properties.get(raw[raw.rfind(b"KEYS\1") :])  # plain properties begin with it
        if put is None and (record := _scanned(raw)) is not None:
            put = self._ledger.seen_in(record)
        if put is None:
            shown = raw[-60:].decode(errors="replace")
            self._report(
                [
                    Violation(
                        "VIS",
                        "a consumer was given a record that nobody put",
                        "",
                        -1,
                        "record",
                        "a put",
                        shown,
                    )
                ]
            )
        return put


def _scanned(raw: bytes) -> ScannedRecord | None:
    """Return what is in a record that was pulled, None if it is no record."""
    offset = int.from_bytes(raw[PHYSICAL_OFFSET_AT : PHYSICAL_OFFSET_AT + 8], "big")
    records = scan_records(memoryview(raw), 0, len(raw), file="", base_offset=offset, check_crc=False)
    try:
        return next(records, None)
    except CorruptFileError:
        return None
