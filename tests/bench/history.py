"""A long history and its recovered store, to measure checkers.

Eight queues and a tenth of all messages given to consumers. Of twenty puts, sixteen are acknowledged, one timed out,
two in flight, one refused. Of a hundred, one is delayed and one is a transaction, both delivered. All objects are new,
as after reading a store, so that the memory is realistic.
"""

from collections.abc import Sequence
from pathlib import Path
from time import process_time
from typing import NamedTuple

from tornlog.reports.studies.closed_loop import Sample
from tornlog.scenarios.campaigns.worker_pool import worker_pool
from tornlog.scenarios.oracle.evidence import Evidence, Violation
from tornlog.scenarios.oracle.index_model import FoundIndex, FoundIndexHeader, ModelEntry, file_content, time_diff_s
from tornlog.scenarios.oracle.invariants import CHECKERS
from tornlog.scenarios.oracle.ledger import HALF_TOPIC, OP_TOPIC, ConsumedMessage, Ledger
from tornlog.scenarios.oracle.put_entry import PLAIN, PutEntry, WaitingPlace
from tornlog.scenarios.oracle.reader import LogRecord, indexed_keys
from tornlog.scenarios.oracle.recovered import (
    DecodedEntries,
    FoundQueue,
    FoundRecord,
    RecoveredStore,
    share_equal_bytes,
)
from tornlog.scenarios.oracle.transactions import TransactionBehaviour
from tornlog.sim.process import collect_garbage_at_end
from tornlog.store.formats.consume_queue import ENTRY_BYTES, encode_entry, tags_code
from tornlog.store.formats.delay_level import SCHEDULE_TOPIC
from tornlog.store.formats.index_key import key_hash
from tornlog.store.formats.message import TRANSACTION_COMMIT
from tornlog.store.formats.messages import PutMessageStatus
from tornlog.store.services.transaction_service import EndTransactionStatus

from .workplace import Workplace

_TOPICS, _QUEUES = ("T0", "T1", "T2", "T3"), 2
_TAG = "TagA"
_DELAY_MS = 1_000
_FILE = "/store/commitlog/00000000000000000000"
_INDEX_SLOTS, _INDEX_ENTRIES = 20_000, 50_001
_PLAIN = TransactionBehaviour(True, 0, False, 0, 0, 0)
_FATES = (
    *(PutMessageStatus.PUT_OK,) * 16,
    PutMessageStatus.FLUSH_DISK_TIMEOUT,
    None,  # in flight, and stored
    None,  # in flight, and lost
    PutMessageStatus.SERVICE_NOT_AVAILABLE,
)
_LOST = (18, 19)


class Judgement(NamedTuple):
    """The cost of judging a history."""

    operations: int
    seconds: float
    """Processor time of the checkers alone."""
    peak_bytes: int
    """The highest memory of the process: interpreter, ledger, store and checkers."""
    violations: int


class Histories:
    """Measures judging: time and memory of one history come from one run."""

    def __init__(self) -> None:
        self._last: Judgement | None = None

    def rate(self, place: Workplace) -> Sample:
        """Return operations judged per second of processor time, by all checkers."""
        self._last = _without_violations(judge_apart(place.settings.history_operations))
        return Sample(self._last.operations / self._last.seconds)

    def rate_of_a_tenth(self, place: Workplace) -> Sample:
        """Return the rate for a tenth of the history. It is equal if the time of judging is linear."""
        last = _without_violations(judge_apart(place.settings.history_operations // 10))
        return Sample(last.operations / last.seconds)

    def peak_memory(self, place: Workplace) -> Sample:
        """Return the highest memory in bytes per operation, in the run of the last rate."""
        last, self._last = self._last, None
        if last is None:
            last = _without_violations(judge_apart(place.settings.history_operations))
        return Sample(last.peak_bytes / last.operations)


def _without_violations(judgement: Judgement) -> Judgement:
    if judgement.violations:
        raise RuntimeError(f"{judgement.violations} violations in a sound history")
    return judgement


def judge_apart(operations: int) -> Judgement:
    """Make and judge a history in its own process, for its memory alone."""
    with worker_pool(1) as pool:
        return pool.submit(judge_history, operations).result()


def judge_history(operations: int) -> Judgement:
    with collect_garbage_at_end():
        evidence = History(operations).evidence
        began = process_time()
        violations = judge(evidence)
        seconds = process_time() - began
    return Judgement(operations, seconds, _peak_bytes(), len(violations))


def _peak_bytes() -> int:
    """Return the highest memory of this process. getrusage would include the parent's at the fork."""
    status = Path("/proc/self/status").read_text()
    line = next(line for line in status.splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) * 1024


def judge(evidence: Evidence) -> list[Violation]:
    return [violation for check in CHECKERS.values() for violation in check(evidence)]


class History:
    """Makes a ledger of so many puts, and its sound store."""

    def __init__(self, operations: int) -> None:
        self._entries: dict[tuple[str, int], bytearray] = {}
        self.evidence = Evidence(Ledger(), RecoveredStore(min_offset=0))
        self.evidence.ledger.begin_delivery(0, {})
        for number in range(operations):
            self._put(number)
        store = self.evidence.store
        for (topic, queue_id), raw in self._entries.items():
            entries = DecodedEntries(bytes(raw))
            store.queues[topic, queue_id] = FoundQueue(topic, queue_id, 0, 0, len(entries), "", entries)
        store.delivered_to = {1: store.queues[SCHEDULE_TOPIC, 0].max_offset}
        store.index = _index_of(store.records)

    def _put(self, number: int) -> None:
        name = f"m{number}"
        topic, queue_id = _TOPICS[number % len(_TOPICS)], number // len(_TOPICS) % _QUEUES
        properties = f"KEYS\1{name}\2TAGS\1{_TAG}"
        put = PutEntry(name, topic, queue_id, _TAG, _body(name), properties.encode(), True, asked_ns=number * 1_000)
        fate = number % len(_FATES)
        put.status = _FATES[fate]
        put.answered_ns = None if put.status is None else put.asked_ns + 500
        if number % 100 == 1:
            put.waiting_place = WaitingPlace((SCHEDULE_TOPIC, 0), _DELAY_MS)
        elif number % 100 == 2:
            put.waiting_place = WaitingPlace((HALF_TOPIC, 0))
        self.evidence.ledger.record_request(put)
        if fate in _LOST:
            return
        if put.waiting_place is not None:
            properties += f"\2REAL_TOPIC\1{topic}\2REAL_QID\1{queue_id}"
        code = _now_ms(number) + _DELAY_MS if put.delay_ms is not None else tags_code(_TAG)
        own = self._store(put.place, properties, _body(name), number, code=code)
        if put.status is not None:
            put.physical_offset, put.queue_offset = own.physical_offset, own.queue_offset
            put.wrote_bytes = own.size_bytes
            put.stored_ms = own.store_timestamp_ms
            put.is_durable = True
            self.evidence.ledger.promise(put)
        if put.delay_ms is not None:
            self._store((topic, queue_id), properties, _body(name), number + _DELAY_MS)
        elif put.waiting_place is not None:
            self._commit(put, properties, number, own)
        elif number % 10 == 0:
            self.evidence.ledger.kept_messages.append(ConsumedMessage(topic, queue_id, own.queue_offset, put))

    def _commit(self, put: PutEntry, properties: str, number: int, half: LogRecord) -> None:
        transactions = self.evidence.ledger.transactions
        transaction = transactions.add_transaction(put.name, _PLAIN)
        decision = transactions.record_decision(transaction, commits=True, now_ns=put.asked_ns)
        decision.status = EndTransactionStatus.DECIDED
        place, body, prepared = (put.topic, put.queue_id), _body(put.name), half.physical_offset
        copy = self._store(place, properties, body, number, sys_flag=TRANSACTION_COMMIT, prepared=prepared)
        decision.copy_end = copy.physical_offset + copy.size_bytes
        transaction.copies[decision.copy_end] = True
        self._store((OP_TOPIC, 0), "TAGS\1d", str(half.queue_offset).encode(), number, code=tags_code("d"))

    def _store(
        self,
        place: tuple[str, int],
        properties: str,
        body: bytes,
        number: int,
        *,
        code: int | None = None,
        sys_flag: int = 0,
        prepared: int = 0,
    ) -> LogRecord:
        store, (topic, queue_id) = self.evidence.store, place
        raw, at = properties.encode(), store.max_offset
        size_bytes = 91 + len(body) + len(topic) + len(raw)
        entries = self._entries.setdefault(place, bytearray())
        index = len(entries) // ENTRY_BYTES
        head = PLAIN.head(body)._replace(prepared_transaction_offset=prepared)
        if topic == OP_TOPIC:
            head = head._replace(born_host=head.store_host)
        record = LogRecord(at, size_bytes, topic, queue_id, index, sys_flag, _now_ms(number), raw, head)
        found = FoundRecord(record, _FILE, at, body)
        share_equal_bytes(found, self.evidence.ledger.by_properties)
        store.by_offset[at] = found
        store.records.append(found)
        entries += encode_entry(at, size_bytes, tags_code(_TAG) if code is None else code)
        store.max_offset = at + size_bytes
        return record


def _body(name: str) -> bytes:
    return f"the body of {name}".encode()


def _now_ms(number: int) -> int:
    return 1_600_000_000_000 + number


def _index_of(records: Sequence[FoundRecord]) -> FoundIndex:
    index = FoundIndex(_INDEX_SLOTS, _INDEX_ENTRIES, [])
    entries: list[ModelEntry] = []
    begin_ms = end_ms = counted_from_ms = 0
    for found in records:
        record = found.record
        for key in indexed_keys(record):
            if len(entries) + 1 == _INDEX_ENTRIES:
                _append_index_file(index, entries, begin_ms, end_ms)
                entries, counted_from_ms = [], end_ms
            stored_ms = record.store_timestamp_ms
            if not entries:
                begin_ms = stored_ms
            seconds = time_diff_s(counted_from_ms, stored_ms)
            entries.append((key_hash(record.topic, key), record.physical_offset, seconds))
            counted_from_ms, end_ms = begin_ms, stored_ms
    _append_index_file(index, entries, begin_ms, end_ms)
    return index


def _append_index_file(index: FoundIndex, entries: list[ModelEntry], begin_ms: int, end_ms: int) -> None:
    first, last = entries[0][1], entries[-1][1]
    header = FoundIndexHeader(begin_ms, end_ms, first, last, 0, 0)
    content = file_content(header, entries, index.slots, index.entries_max)
    index.files.append((f"/store/index/{len(index.files)}", content))
