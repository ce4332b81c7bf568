"""Each status of a pull has its offsets, and no answer goes back or passes a message that the consumer wants."""

import pytest

from tornlog.scenarios.oracle.evidence import Evidence
from tornlog.scenarios.oracle.invariants.consumers import PullBounds, check_offsets
from tornlog.scenarios.oracle.invariants.lookups import QueueBounds
from tornlog.scenarios.oracle.ledger import Ledger
from tornlog.scenarios.oracle.pull_answers import PullAnswers
from tornlog.store.formats.messages import GetMessageStatus as Status

QUEUE = ("T0", 0)
LEGAL = {
    Status.FOUND: (3, PullBounds(1, 4, 5)),
    Status.NO_MATCHED_MESSAGE: (3, PullBounds(1, 4, 5)),
    Status.MESSAGE_WAS_REMOVING: (3, PullBounds(1, 5, 5)),
    Status.OFFSET_FOUND_NULL: (3, PullBounds(1, 10, 5)),
    Status.OFFSET_OVERFLOW_ONE: (5, PullBounds(1, 5, 5)),
    Status.OFFSET_OVERFLOW_BADLY: (7, PullBounds(1, 5, 5)),
    Status.OFFSET_TOO_SMALL: (0, PullBounds(1, 1, 5)),
    Status.NO_MESSAGE_IN_QUEUE: (7, PullBounds(0, 0, 0)),
}
WRONG_NEXT = {
    Status.FOUND: 3,
    Status.NO_MATCHED_MESSAGE: 3,
    Status.MESSAGE_WAS_REMOVING: 2,
    Status.OFFSET_FOUND_NULL: 3,
    Status.OFFSET_OVERFLOW_ONE: 1,
    Status.OFFSET_OVERFLOW_BADLY: 1,
    Status.OFFSET_TOO_SMALL: 5,
    Status.NO_MESSAGE_IN_QUEUE: 7,
}


@pytest.mark.parametrize("status", Status)
def test_a_status_of_a_pull_has_one_place_in_the_queue_and_one_next_offset(status: Status) -> None:
    position, bounds = LEGAL[status]
    assert not list(check_offsets(QUEUE, position, status, bounds))
    wrong = bounds._replace(next_begin_offset=WRONG_NEXT[status])
    assert [each.expected for each in check_offsets(QUEUE, position, status, wrong)] == [
        "the next offset of this status"
    ]
    others = {other for other, (at, its) in LEGAL.items() if not list(check_offsets(QUEUE, at, status, its))}
    assert status in others
    assert len(others) <= 4


def test_between_two_starts_an_answer_moves_a_consumer_back_to_the_known_end_only() -> None:
    answers = PullAnswers(Ledger())
    answers.note_recovery({QUEUE: 5})
    moved, before = Status.OFFSET_OVERFLOW_BADLY, answers.known_bounds(QUEUE)
    assert before == QueueBounds(0, 5)
    assert not list(answers.check_answer(QUEUE, 9, moved, PullBounds(0, 5, 5), before, wants=lambda _: True))
    (back,) = answers.check_answer(QUEUE, 9, moved, PullBounds(0, 4, 4), before, wants=lambda _: True)
    assert (back.invariant, back.found) == ("READ", "0, 4")
    answers.begin_life()
    assert answers.known_bounds(QUEUE) == QueueBounds(0, 0), "a crash may lose messages"


def test_an_answer_passes_over_messages_that_do_not_match_only(evidence: Evidence) -> None:
    answers, before = PullAnswers(evidence.ledger), QueueBounds(0, 0)
    bounds = PullBounds(0, 2, 3)
    asking = QUEUE, 0, Status.NO_MATCHED_MESSAGE, bounds, before
    assert not list(answers.check_answer(*asking, wants=lambda _: False))
    (passed,) = answers.check_answer(*asking, wants=lambda _: True)
    assert (passed.invariant, passed.expected) == ("READ", "queue offset 0 of T0/0")
    found = QUEUE, 0, Status.FOUND, bounds, before
    (passed,) = answers.check_answer(*found, wants=lambda _: True, offsets=[1])
    assert passed.expected == "queue offset 0 of T0/0"
    assert not list(answers.check_answer(*found, wants=lambda _: True, offsets=[0, 1]))


def test_requested_bounds_are_not_below_those_of_earlier_answers() -> None:
    pulls = PullAnswers(Ledger())
    assert not list(pulls.check_bounds(("%LMQ%L0", 0), QueueBounds(0, 4), QueueBounds(0, 4)))
    for found in (QueueBounds(0, 3), QueueBounds(-1, 4)):
        (wrong,) = pulls.check_bounds(("%LMQ%L0", 0), found, QueueBounds(0, 4))
        assert wrong.invariant == "READ"
