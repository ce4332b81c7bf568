import pytest

from tornlog.scenarios.oracle.evidence import Evidence
from tornlog.scenarios.oracle.invariants import consumers
from tornlog.scenarios.oracle.ledger import Pull


@pytest.fixture
def pull(evidence: Evidence) -> Pull:
    pull = Pull("T0", 0, None, list(evidence.ledger.puts), 0, 3)
    evidence.ledger.pulls.append(pull)
    return pull


def broken(evidence: Evidence) -> list[tuple[str, str]]:
    return [(found.expected, found.found) for found in consumers.check_read(evidence.ledger, evidence.store)]


def test_a_walk_with_all_messages_in_order_passes(evidence: Evidence, pull: Pull) -> None:
    assert broken(evidence) == []


def test_a_walk_that_ended_early_misses_no_message(evidence: Evidence, pull: Pull) -> None:
    pull.puts.pop()
    pull.end_offset = 2

    assert broken(evidence) == []


def test_a_missing_message_in_a_walk_is_found(evidence: Evidence, pull: Pull) -> None:
    del pull.puts[1]

    assert broken(evidence) == [("m0, m1, m2", "m0, m2")]


def test_a_repeated_message_in_a_walk_is_found(evidence: Evidence, pull: Pull) -> None:
    pull.puts.append(pull.puts[2])

    assert broken(evidence) == [("m0, m1, m2", "m0, m1, m2, m2")]


def test_messages_out_of_order_are_found(evidence: Evidence, pull: Pull) -> None:
    pull.puts.reverse()

    assert broken(evidence) == [("m0, m1, m2", "m2, m1, m0")]


def test_a_subscription_gets_its_tags_and_no_others(evidence: Evidence, pull: Pull) -> None:
    evidence.ledger.puts[1].tags = "TagB"
    pull.tags = "TagB || TagC"

    assert broken(evidence) == [("m1", "m0, m1, m2")]
    pull.puts = [evidence.ledger.puts[1]]
    assert broken(evidence) == []


def test_a_subscription_without_matches_receives_no_message(evidence: Evidence, pull: Pull) -> None:
    pull.tags = "TagD"

    assert broken(evidence) == [("none", "m0, m1, m2")]


def test_a_walk_over_a_light_queue_receives_every_message_in_it(evidence: Evidence, pull: Pull) -> None:
    put, found = evidence.ledger.puts[2], evidence.store.records[2]
    put.properties += b"\2INNER_MULTI_DISPATCH\1%LMQ%a"
    light = put.properties + b"\2INNER_MULTI_QUEUE_OFFSET\0010"
    found.record = found.record._replace(properties=light)
    evidence.ledger.pulls = [Pull("%LMQ%a", 0, None, [put], 0, 1)]
    assert broken(evidence) == []
    evidence.ledger.pulls[0].puts.clear()
    assert broken(evidence) == [("m2", "none")]
