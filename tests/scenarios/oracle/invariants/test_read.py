import pytest

from tornlog.scenarios.oracle.evidence import Evidence
from tornlog.scenarios.oracle.invariants import consumers
from tornlog.scenarios.oracle.ledger import Pull


@pytest.fixture
def pull(evidence: Evidence) -> Pull:
    pull = Pull("T0", 0, None, list(evidence.ledger.puts), 0, 3)
    evidence.ledger.pulls.append(pull)
    return pull


def violations_of(evidence: Evidence) -> list[tuple[str, str]]:
    return [(found.expected, found.found) for found in consumers.check_queue_reads(evidence.ledger, evidence.store)]


def test_a_consumer_that_stopped_early_misses_no_message(evidence: Evidence, pull: Pull) -> None:
    pull.puts.pop()
    pull.end_offset = 2

    assert violations_of(evidence) == []


def test_a_message_missing_between_received_messages_is_a_violation(evidence: Evidence, pull: Pull) -> None:
    del pull.puts[1]

    assert violations_of(evidence) == [("m1, m2", "m2")]


def test_a_message_received_twice_is_a_violation(evidence: Evidence, pull: Pull) -> None:
    pull.puts.append(pull.puts[2])

    assert violations_of(evidence) == [("none", "m2")]


def test_messages_received_out_of_order_are_a_violation(evidence: Evidence, pull: Pull) -> None:
    pull.puts.reverse()

    assert violations_of(evidence) == [("m0, m1, m2", "m2, m1, m0")]


def test_a_subscription_must_receive_messages_with_its_tags_only(evidence: Evidence, pull: Pull) -> None:
    evidence.ledger.puts[1].tags = "TagB"
    pull.tags = "TagB || TagC"

    assert violations_of(evidence) == [("m1", "m0, m1, m2")]
    pull.puts = [evidence.ledger.puts[1]]
    assert violations_of(evidence) == []


def test_a_subscription_without_matching_messages_receives_none(evidence: Evidence, pull: Pull) -> None:
    pull.tags = "TagD"

    assert violations_of(evidence) == [("none", "m0, m1, m2")]


def test_a_consumer_of_a_light_queue_must_receive_every_message_in_it(evidence: Evidence, pull: Pull) -> None:
    put, found = evidence.ledger.puts[2], evidence.store.records[2]
    put.properties += b"\2INNER_MULTI_DISPATCH\1%LMQ%a"
    light = put.properties + b"\2INNER_MULTI_QUEUE_OFFSET\0010"
    found.record = found.record._replace(properties=light)
    evidence.ledger.pulls = [Pull("%LMQ%a", 0, None, [put], 0, 1)]
    assert violations_of(evidence) == []
    evidence.ledger.pulls[0].puts.clear()
    assert violations_of(evidence) == [("m2", "none")]
