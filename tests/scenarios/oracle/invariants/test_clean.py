"""CLEAN finds each wrong removal, in hand-made evidence or in a running store."""

from dataclasses import replace

import pytest

from tests.one_life import with_settings
from tornlog.faults.disk.disk import Disk
from tornlog.scenarios.oracle.evidence import Evidence
from tornlog.scenarios.oracle.invariants import clean, consume_queues, consumers, dur, prefix
from tornlog.scenarios.oracle.ledger import ConsumedMessage, Ledger, Pull
from tornlog.scenarios.oracle.put_entry import PutEntry
from tornlog.store.formats.messages import Message, PutMessageStatus
from tornlog.store.index.key_query import QueryMessageResult
from tornlog.store.message_store import MessageStore
from tornlog.store.retention.cleaning import SEGMENTS_PER_PASS

HOUR_MS = 3_600_000


def expire_records(evidence: Evidence, count: int = 1) -> int:
    """Remove the first records as retention does; return the log's new first offset."""
    for _ in range(count):
        first = evidence.store.records.pop(0)
        del evidence.store.by_offset[first.record.physical_offset]
        evidence.store.min_offset = first.record.physical_offset + first.record.size_bytes
    evidence.ledger.expired_to = evidence.store.min_offset
    evidence.store.queues["T0", 0].min_offset = count
    return evidence.store.min_offset


# -- after a recovery ------------------------------------------------------------------------------


CHECKS_OF_LOST_RECORDS = (
    clean.check_log_start,
    dur.check_durable_puts,
    prefix.check_log_prefix,
    consume_queues.check_queue_offsets,
    consumers.check_visibility,
)


def test_a_log_without_its_removed_segments_is_no_violation(evidence: Evidence) -> None:
    puts = list(evidence.ledger.puts)
    evidence.ledger.kept_messages = [ConsumedMessage("T0", 0, number, put) for number, put in enumerate(puts)]
    expire_records(evidence, 2)
    for check in CHECKS_OF_LOST_RECORDS:
        assert list(check(evidence)) == [], check


def test_removed_segments_that_reappear_after_a_crash_are_no_violation(evidence: Evidence) -> None:
    evidence.ledger.expired_to = evidence.store.records[2].record.physical_offset
    for check in CHECKS_OF_LOST_RECORDS:
        assert list(check(evidence)) == [], check


@pytest.mark.parametrize("asked_for", [0, 50])
def test_a_log_that_begins_after_more_than_the_removed_segments_is_a_violation(
    evidence: Evidence, asked_for: int
) -> None:
    begins = expire_records(evidence)
    evidence.ledger.expired_to = asked_for
    (violation,) = clean.check_log_start(evidence)
    assert violation.invariant == "CLEAN"
    assert (violation.expected, violation.found) == (f"<= {asked_for}", str(begins))


def test_a_log_whose_first_segment_was_never_created_is_no_violation(evidence: Evidence) -> None:
    begins = expire_records(evidence, 3)
    evidence.ledger.expired_to = 0
    for put in evidence.ledger.puts:
        put.physical_offset = None
    assert evidence.store.min_offset == begins
    assert list(clean.check_log_start(evidence)) == []


def test_a_log_that_retention_emptied_is_a_violation(evidence: Evidence) -> None:
    expire_records(evidence, 3)
    evidence.store.min_offset = -1
    assert [violation.found for violation in clean.check_log_start(evidence)] == ["-1"]


def test_a_queue_that_hides_a_record_is_a_violation(evidence: Evidence) -> None:
    expire_records(evidence)
    evidence.store.queues["T0", 0].min_offset = 2
    (violation,) = clean.check_log_start(evidence)
    assert violation.summary == "a queue begins after a record that still exists"
    assert (violation.expected, violation.found) == ("<= 1", "2")


def test_a_queue_that_begins_with_an_expired_entry_after_a_recovery_is_a_violation(evidence: Evidence) -> None:
    begins = expire_records(evidence, 2)
    evidence.store.queues["T0", 0].min_offset = 1
    (violation,) = clean.check_log_start(evidence)
    assert violation.summary == "a queue begins with a removed message"
    assert violation.expected == f">= {begins}"


def test_only_removed_messages_may_be_missing(evidence: Evidence) -> None:
    m1 = evidence.ledger.puts[1]
    evidence.ledger.kept_messages = [ConsumedMessage("T0", 0, 1, m1)]
    expire_records(evidence, 2)
    evidence.ledger.expired_to = m1.physical_offset or 0
    assert [violation.expected for violation in dur.check_durable_puts(evidence)] == ["m1"]
    assert [violation.expected for violation in consumers.check_visibility(evidence)] == ["m1"]


def test_a_truncated_record_after_the_removed_segments_must_not_reappear(evidence: Evidence) -> None:
    evidence.ledger.expired_to = evidence.store.records[1].record.physical_offset
    evidence.ledger.lost_puts = {put.name: put for put in evidence.ledger.puts}
    assert [violation.found for violation in prefix.check_log_prefix(evidence)] == ["m1", "m2"]


def test_a_queue_that_reuses_offsets_of_its_expired_messages_is_a_violation(evidence: Evidence) -> None:
    expire_records(evidence, 2)
    (last,) = evidence.store.records
    last.record = last.record._replace(queue_offset=1)
    evidence.ledger.puts[2].queue_offset = 1
    (violation,) = consume_queues.check_queue_offsets(evidence)
    assert (violation.expected, violation.found) == ("2", "1")


def test_a_queue_without_messages_that_lost_its_counter_is_a_violation(evidence: Evidence) -> None:
    expire_records(evidence, 3)
    evidence.store.queues["T0", 0].max_offset = 3
    assert list(consume_queues.check_queue_offsets(evidence)) == []
    evidence.store.queues["T0", 0].max_offset = 2
    (violation,) = consume_queues.check_queue_offsets(evidence)
    assert (violation.expected, violation.found) == (">= 3", "2")
    evidence.ledger.ended_queues.add(("T0", 0))
    assert list(consume_queues.check_queue_offsets(evidence)) == []


def test_queue_offsets_may_restart_at_0_in_a_removed_queue(evidence: Evidence) -> None:
    expire_records(evidence, 2)
    (last,) = evidence.store.records
    last.record = last.record._replace(queue_offset=0)
    evidence.ledger.puts[2].queue_offset = 0
    assert [violation.expected for violation in consume_queues.check_queue_offsets(evidence)] == ["2"]
    evidence.ledger.ended_queues.add(("T0", 0))
    assert list(consume_queues.check_queue_offsets(evidence)) == []


@pytest.mark.parametrize("given", [(0, 1, 2), (1, 2), (2,)])
def test_a_consumer_may_or_may_not_have_received_expired_messages(evidence: Evidence, given: tuple[int, ...]) -> None:
    puts = evidence.ledger.puts
    expire_records(evidence, 2)
    evidence.ledger.pulls = [Pull("T0", 0, None, [puts[number] for number in given], 0, 3)]
    assert list(consumers.check_queue_reads(evidence.ledger, evidence.store)) == []


def test_a_consumer_that_missed_an_existing_message_is_a_violation(evidence: Evidence) -> None:
    expire_records(evidence)
    evidence.ledger.pulls = [Pull("T0", 0, None, [evidence.ledger.puts[1]], 0, 3)]
    assert [found.expected for found in consumers.check_queue_reads(evidence.ledger, evidence.store)] == ["m2"]


# -- removals --------------------------------------------------------------------------------------


def put_messages(store: MessageStore, count: int = 12) -> None:
    """Put messages, three per segment and ten per queue file; wait until all are visible and durable."""
    for number in range(count):
        message = Message.create("T0", b"b" * 500, keys=f"k{number}")
        assert store.put_message(message).status is PutMessageStatus.PUT_OK
    while store.dispatch.behind_bytes:
        store.world.tasks.sleep(10)
    store.flush_queues.request_full_flush()
    store.world.tasks.sleep(100)


def summaries_of(violations: object) -> list[str]:
    return [violation.summary for violation in violations]


@pytest.mark.parametrize(
    ("base_offset", "asked", "found"),
    [
        (0, True, []),
        (0, False, ["a segment is removed without a reason"]),
        (2048, True, ["a segment is removed before an older one"]),
    ],
)
def test_only_the_oldest_segment_may_be_removed_and_only_on_request(
    store: MessageStore, disk: Disk, base_offset: int, asked: bool, found: list[str]
) -> None:
    put_messages(store)
    assert summaries_of(clean.check_removal(store, disk, base_offset, asked=asked)) == found


def test_removing_the_last_undurable_undispatched_segment_is_three_violations(store: MessageStore, disk: Disk) -> None:
    put_messages(store, 1)
    store.log.segments[0].file.store(1000, b"not synced")
    assert summaries_of(clean.check_removal(store, disk, 0, asked=True)) == [
        "the last segment is removed",
        "a segment is removed before it is durable",
        "a segment is removed before it is dispatched",
    ]


def test_the_removal_of_a_queue_file_with_an_existing_record_is_a_violation(store: MessageStore, disk: Disk) -> None:
    put_messages(store)
    (queue,) = store.queues.all_queues()
    assert summaries_of(clean.check_queue_removal(store, disk, queue.queue.segments[0].file.path, None)) == [
        "a queue file that points at an existing record is removed"
    ]


def remove_first_segments(store: MessageStore) -> None:
    """Remove the first two segments as retention does."""
    long_ago_ms = store.world.clock.now_ms() - 100 * HOUR_MS
    for segment in store.log.segments[:2]:
        store.world.files.set_mtime_ms(segment.file.path, long_ago_ms)
    store.execute_delete_files_manually()
    store.world.tasks.sleep(1_000)
    assert store.log.min_offset == 2 * 2048


def test_a_queue_file_without_existing_records_may_be_removed(store: MessageStore, disk: Disk) -> None:
    put_messages(store, 30)
    (queue,) = store.queues.all_queues()
    first = queue.queue.segments[0].file.path
    store.log.segments = store.log.segments[5:]
    assert summaries_of(clean.check_queue_removal(store, disk, first, None)) == []


@pytest.mark.parametrize(("name", "is_queue"), [("7", True), ("07", False), ("2147483648", False), ("\u0660", False)])
def test_a_removed_queue_may_have_no_file_but_foreign_directories_may(
    name: str, is_queue: bool, store: MessageStore
) -> None:
    put_messages(store)
    root = f"{store.config.consume_queue_directory}/T0"
    store.world.files.make_directories(f"{root}/{name}")
    store.world.files.write(f"{root}/{name}/{0:020}", b"left")
    assert summaries_of(clean.check_queues_removed(store, 0)) == ["a removed queue still has a file"] * is_queue


def test_a_queue_file_may_be_removed_only_after_the_next_name_is_durable(store: MessageStore, disk: Disk) -> None:
    put_messages(store, 30)
    (queue,) = store.queues.all_queues()
    first, second = (segment.file.path for segment in queue.queue.segments[:2])
    store.log.segments = store.log.segments[5:]
    store.world.files.sync_directory(queue.queue.directory)
    found = [summaries_of(clean.check_queue_removal(store, disk, first, second))]
    store.world.files.open(f"{queue.queue.directory}/another")
    found.append(summaries_of(clean.check_queue_removal(store, disk, first, f"{queue.queue.directory}/another")))
    store.queues.forget_queue(queue)
    found.append(summaries_of(clean.check_queue_removal(store, disk, first, f"{queue.queue.directory}/another")))
    nameless = ["a queue may have no file after a crash"]
    assert found == [[], nameless, []]


def test_the_last_file_of_the_half_message_queue_must_not_be_removed(store: MessageStore, disk: Disk) -> None:
    store.put_message(Message.create("RMQ_SYS_TRANS_HALF_TOPIC", b"half"))
    put_messages(store, 30)
    paths = [queue.queue.segments[0].file.path for queue in store.queues.all_queues() if queue.topic != "T0"]
    store.log.segments = store.log.segments[5:]
    assert [
        summaries_of(clean.check_queue_removal(store, disk, path, following))
        for path in paths
        for following in (store.log.segments[-2].file.path, None)
    ] == [[], ["a queue is removed although files contain its offsets"]]


def test_a_longer_log_may_take_more_retention_passes(store: MessageStore) -> None:
    put_messages(store, 30)
    segments = store.log.segments
    assert len(segments) >= SEGMENTS_PER_PASS
    limits_ms = []
    for count in (0, SEGMENTS_PER_PASS - 1, SEGMENTS_PER_PASS):
        store.log.segments = segments[:count]
        limits_ms.append(clean.passes_ms_max(store, 0))
    store.log.segments = segments[:1] * (3 * SEGMENTS_PER_PASS)
    limits_ms.append(clean.passes_ms_max(store, 0))
    store.log.segments = segments
    assert limits_ms == [82_200, 82_200, 93_300, 115_500]


# -- after all puts --------------------------------------------------------------------------------


def ledger_of_messages(store: MessageStore, count: int) -> Ledger:
    """Return a ledger of the messages that `filled` puts, with their log offsets."""
    ledger = Ledger()
    for number in range(count):
        put = PutEntry(f"k{number}", "T0", 0, "", b"", b"%d" % number, True, 0)
        put.physical_offset = number // 3 * 2048
        ledger.record_request(put)
    return ledger


def test_a_store_that_answers_requests_for_removed_messages_correctly_is_no_violation(store: MessageStore) -> None:
    put_messages(store)
    remove_first_segments(store)
    assert store.get_min_offset_in_queue("T0", 0) == 6
    assert [*clean.check_queues(store), *clean.check_answers(store, ledger_of_messages(store, 12))] == []


def test_a_queue_that_begins_with_removed_messages_is_a_violation(store: MessageStore) -> None:
    put_messages(store)
    remove_first_segments(store)
    (queue,) = store.queues.all_queues()
    queue.min_logic_offset = 0
    assert summaries_of(clean.check_queues(store)) == ["a queue begins with a removed message"]


def violations_if_log_begins_at(store: MessageStore, position: int) -> list[str]:
    """Return the violations of useless files if that many first segments of the log were removed."""
    segments = store.log.segments
    store.log.segments = segments[position:]
    found = summaries_of(clean.check_leading_files(store))
    store.log.segments = segments
    return found


def test_a_queue_file_must_be_removed_once_it_and_the_next_one_begin_with_removed_messages(store: MessageStore) -> None:
    put_messages(
        store, 30
    )  # three per segment: the first queue file covers four segments, the next one begins in the fourth
    stays = "a queue file that points only at removed messages stays"
    assert [violations_if_log_begins_at(store, gone) for gone in (0, 3, 4)] == [[], [], [stays]]


def test_the_last_file_of_a_queue_need_not_be_removed(store: MessageStore) -> None:
    put_messages(store, 10)
    assert [len(queue.queue.segments) for queue in store.queues.all_queues()] == [1]
    assert violations_if_log_begins_at(store, 3) == []


def test_a_queue_file_that_is_not_durable_need_not_be_removed(store: MessageStore) -> None:
    put_messages(store, 30)
    (queue,) = store.queues.all_queues()
    queue.queue.flushed_where.set(queue.queue.segments[0].end_offset - 1)
    assert violations_if_log_begins_at(store, 4) == []


@with_settings(indexed=True)
def test_an_index_file_must_be_removed_once_it_and_the_next_one_have_only_removed_messages(store: MessageStore) -> None:
    put_messages(store, 30)
    assert store.index is not None
    first, second, *_ = store.index.table.files
    segments = [segment.base_offset for segment in store.log.segments]
    behind = [sum(base <= file.end_physical_offset for base in segments) for file in (first, second)]
    assert behind[0] < behind[1]
    counts = (behind[0], behind[1] - 1, behind[1])
    stays = "an index file that points only at removed messages stays"
    assert [violations_if_log_begins_at(store, gone).count(stays) for gone in counts] == [0, 0, 1]


def test_wrong_answers_about_removed_messages_are_violations(
    store: MessageStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    get_message = MessageStore.get_message

    def get_on(self: MessageStore, *arguments: object) -> object:
        result = get_message(self, *arguments)
        return replace(result, next_begin_offset=0)

    put_messages(store)
    remove_first_segments(store)
    monkeypatch.setattr(MessageStore, "get_message", get_on)
    monkeypatch.setattr(MessageStore, "look_message_by_offset", lambda self, offset: object())
    found = QueryMessageResult(physical_offsets=[0])
    monkeypatch.setattr(MessageStore, "query_message", lambda self, *arguments: found)
    first, *others = summaries_of(clean.check_answers(store, ledger_of_messages(store, 4)))
    assert first == "a pull of removed messages does not lead to the first message"
    assert set(others) == {
        f"k{number} was removed but is found by its {how}" for number in range(4) for how in ("log offset", "key")
    }
