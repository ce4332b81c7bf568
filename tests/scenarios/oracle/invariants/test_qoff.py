from tornlog.scenarios.oracle.evidence import Evidence
from tornlog.scenarios.oracle.invariants import consume_queues


def renumber(evidence: Evidence, index: int, queue_offset: int) -> None:
    found = evidence.store.records[index]
    found.record = found.record._replace(queue_offset=queue_offset)
    evidence.ledger.puts[index].queue_offset = queue_offset


def test_offsets_that_count_up_from_nothing_hold(evidence: Evidence) -> None:
    assert list(consume_queues.check_qoff(evidence)) == []


def test_a_gap_is_found_once(evidence: Evidence) -> None:
    renumber(evidence, 1, 2)
    renumber(evidence, 2, 3)

    (violation,) = consume_queues.check_qoff(evidence)

    assert (violation.expected, violation.found) == ("1", "2")


def test_an_offset_that_two_records_have_is_found(evidence: Evidence) -> None:
    renumber(evidence, 2, 1)

    (violation,) = consume_queues.check_qoff(evidence)

    assert (violation.expected, violation.found) == ("2", "1")


def test_a_queue_of_a_whole_log_begins_at_nothing(evidence: Evidence) -> None:
    for index in range(3):
        renumber(evidence, index, index + 4)

    assert [violation.found for violation in consume_queues.check_qoff(evidence)] == ["4"]

    evidence.store.min_offset = 2048
    assert list(consume_queues.check_qoff(evidence)) == []


def test_an_offset_that_is_not_the_answered_one_is_found(evidence: Evidence) -> None:
    evidence.ledger.puts[1].queue_offset = 5

    (violation,) = consume_queues.check_qoff(evidence)

    assert violation.summary == "m1 has another queue offset than its producer was answered"


def test_a_number_that_a_tear_can_have_taken_need_not_be_the_answered_one(evidence: Evidence) -> None:
    evidence.ledger.puts[1].queue_offset = 5
    evidence.ledger.tears = True
    evidence.store.records[1].position = 488

    assert list(consume_queues.check_qoff(evidence)) == []
    evidence.store.records[1].position = 100
    assert len(list(consume_queues.check_qoff(evidence))) == 1


def give_places(evidence: Evidence, *offsets: int) -> None:
    for put, found, offset in zip(evidence.ledger.puts, evidence.store.records, offsets, strict=False):
        added = f"\2INNER_MULTI_DISPATCH\1%LMQ%a\2INNER_MULTI_QUEUE_OFFSET\1{offset}".encode()
        put.properties += added.rpartition(b"\2")[0]
        found.record = found.record._replace(properties=found.record.properties + added)


def test_places_in_a_light_queue_that_count_up_hold(evidence: Evidence) -> None:
    give_places(evidence, 0, 1, 2)

    assert list(consume_queues.check_qoff(evidence)) == []


def test_a_place_in_a_light_queue_that_two_records_have_is_found(evidence: Evidence) -> None:
    give_places(evidence, 0, 0)

    (violation,) = consume_queues.check_qoff(evidence)

    assert violation.summary == "queue offsets of %LMQ%a/0 do not count up"
    assert (violation.expected, violation.found) == ("1", "0")


def test_a_light_queue_of_a_log_that_lost_its_front_begins_anywhere(evidence: Evidence) -> None:
    give_places(evidence, 4, 5)
    assert [violation.found for violation in consume_queues.check_qoff(evidence)] == ["4"]
    evidence.store.min_offset = 2048
    assert list(consume_queues.check_qoff(evidence)) == []
