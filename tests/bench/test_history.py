from collections.abc import Callable

import pytest

from tests.bench import history as module
from tests.bench.history import Histories, History, Judgement, judge, judge_apart, judge_history
from tests.bench.workplace import BenchSettings, Workplace
from tornlog.scenarios.oracle.evidence import Evidence
from tornlog.scenarios.oracle.put_entry import ProducerKnowledge
from tornlog.scenarios.oracle.recovered import DecodedEntries, FoundRecord
from tornlog.store.formats.index import ENTRY_BYTES, decode_header, entries_position

pytestmark = pytest.mark.slow

_OPERATIONS = 2_000


def test_a_history_has_every_kind_of_answer_and_no_violation() -> None:
    evidence = History(_OPERATIONS).evidence
    knowledge = [put.knowledge for put in evidence.ledger.puts]
    assert len(knowledge) == _OPERATIONS
    assert set(knowledge) == set(ProducerKnowledge)
    assert evidence.ledger.kept_messages
    assert evidence.ledger.transactions.by_name
    assert any(put.delay_ms for put in evidence.ledger.puts)
    assert evidence.store.index is not None
    assert judge(evidence) == []


def change_body(evidence: Evidence) -> None:
    *_, last = evidence.ledger.promised.values()
    assert last.physical_offset is not None
    evidence.store.by_offset[last.physical_offset].body = b"another"


def lose_last_record(evidence: Evidence) -> None:
    lost = evidence.store.records.pop()
    del evidence.store.by_offset[lost.record.physical_offset]


def repeat_first_record(evidence: Evidence) -> None:
    store, first = evidence.store, evidence.store.records[0]
    record = first.record._replace(physical_offset=store.max_offset)
    again = FoundRecord(record, first.file, store.max_offset, first.body)
    store.records.append(again)
    store.by_offset[store.max_offset] = again
    store.max_offset += record.size_bytes


def lose_last_entry(evidence: Evidence) -> None:
    queue = evidence.store.queues["T0", 0]
    queue.entries = queue.entries[:-1]


def break_last_entry(evidence: Evidence) -> None:
    queue = evidence.store.queues["T0", 0]
    queue.entries = [*queue.entries[:-1], (queue.entries[-1][0], 1, queue.entries[-1][2])]


def break_last_seen(evidence: Evidence) -> None:
    evidence.ledger.kept_messages[-1].queue_offset += 1


def break_index(evidence: Evidence) -> None:
    assert evidence.store.index is not None
    path, content = evidence.store.index.files[-1]
    entry = entries_position(evidence.store.index.slots) + ENTRY_BYTES * (
        decode_header(memoryview(content)).next_entry - 1
    )
    broken = content[:entry] + bytes(ENTRY_BYTES) + content[entry + ENTRY_BYTES :]
    evidence.store.index.files[-1] = (path, broken)


def return_a_refused_put(evidence: Evidence) -> None:
    put = evidence.ledger.puts[-1]
    last = evidence.store.records[-1]
    last.record = last.record._replace(properties=put.properties)


def forget_a_commit(evidence: Evidence) -> None:
    *_, transaction = evidence.ledger.transactions.by_name.values()
    transaction.copies[evidence.store.max_offset + 1] = True


@pytest.mark.parametrize(
    ("harm", "invariants"),
    [
        (change_body, {"DUR", "PREFIX"}),
        (lose_last_record, {"CQ-VALID"}),
        (repeat_first_record, {"PREFIX", "QOFF"}),
        (lose_last_entry, {"CQ-COMPLETE"}),
        (break_last_entry, {"CQ-VALID"}),
        (break_last_seen, {"VIS"}),
        (break_index, {"IDX"}),
        (return_a_refused_put, {"PREFIX"}),
        (forget_a_commit, {"TX"}),
    ],
)
def test_an_error_at_the_end_of_a_long_history_is_found(harm: Callable[[Evidence], None], invariants: set[str]) -> None:
    evidence = History(20_000).evidence
    harm(evidence)
    assert invariants <= {violation.invariant for violation in judge(evidence)}


@pytest.mark.slow
def test_a_history_ten_times_as_long_takes_about_ten_times_as_long() -> None:
    seconds = [min(judge_history(operations).seconds for _ in range(3)) for operations in (5_000, 50_000)]
    assert seconds[1] < 20 * seconds[0]  # a checker that is quadratic in anything takes a hundred times as long


def test_a_judgement_in_its_own_process_counts_only_that_memory() -> None:
    found = judge_apart(_OPERATIONS)
    assert (found.operations, found.violations) == (_OPERATIONS, 0)
    assert found.seconds > 0.0
    assert 10 << 20 < found.peak_bytes < 1 << 30


def test_time_and_memory_are_of_the_same_run(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def fake(operations: int) -> Judgement:
        asked.append(operations)
        return Judgement(operations, 2.0, operations * 500, 0)

    monkeypatch.setattr(module, "judge_apart", fake)
    place, histories = Workplace(BenchSettings(history_operations=1_000)), Histories()
    assert histories.rate(place).rate == 500.0
    assert histories.rate_of_a_tenth(place).rate == 50.0
    assert histories.peak_memory(place).rate == 500.0
    assert asked == [1_000, 100]
    assert histories.peak_memory(place).rate == 500.0  # measured in its own process
    assert asked == [1_000, 100, 1_000]


def test_a_violation_in_a_correct_history_is_an_error_of_the_benchmark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "judge_apart", lambda operations: Judgement(operations, 2.0, 1, 3))
    with pytest.raises(RuntimeError, match="3 violations in a sound history"):
        Histories().rate(Workplace(BenchSettings()))


def test_decoded_entries_support_len_index_slice_and_iteration() -> None:
    queue = History(_OPERATIONS).evidence.store.queues["T0", 0]
    entries, plain = queue.entries, list(queue.entries)
    assert isinstance(entries, DecodedEntries)
    assert len(entries) == len(plain)
    assert (entries[0], entries[-1], entries[3:7]) == (plain[0], plain[-1], plain[3:7])
    for index in (len(plain), -len(plain) - 1):
        with pytest.raises(IndexError):
            entries[index]
