"""TransactionDecisions: only the first decision of a transaction counts. Settled decisions are forgotten."""

import pytest

from tornlog.store.formats.half_message import HALF_TOPIC, HalfMessage
from tornlog.store.formats.message import MessageRecord
from tornlog.store.formats.messages import LOOPBACK_BROKER
from tornlog.store.real.world import real_world
from tornlog.store.services.transaction_queues import TransactionDecisions

VISIBLE_OPS = 10


@pytest.fixture
def decisions() -> TransactionDecisions:
    return TransactionDecisions(real_world())


def half_at(queue_offset: int, first_offset: int | None = None) -> HalfMessage:
    host = LOOPBACK_BROKER
    record = MessageRecord(
        0, 0, 0, 0, 0, queue_offset, 0, 0, 0, host, 0, host, 0, 0, b"", HALF_TOPIC, ""
    )  # fmt: skip
    return HalfMessage(record, {}, queue_offset if first_offset is None else first_offset)


def decide(decisions: TransactionDecisions, half: HalfMessage) -> bool:
    """Decide a half message whose op is visible at once. Return whether the decision counts."""
    if not decisions.claim_half_message(half, VISIBLE_OPS):
        return False
    decisions.record_decision(half, dict.fromkeys(half.offsets, VISIBLE_OPS - 1))
    return True


def pass_and_forget(decisions: TransactionDecisions, passed: range) -> None:
    """Let the check pass half messages, and let it forget their decisions."""
    with decisions.lock:
        decisions.forget_settled(lambda offset: offset < passed.stop and not decisions.is_put_back(offset), passed)


def test_the_first_transaction_decision_counts_before_and_after_a_check_pass(decisions: TransactionDecisions) -> None:
    half = half_at(3)

    assert decide(decisions, half)
    assert not decide(decisions, half)
    pass_and_forget(decisions, range(2, 4))
    assert not decide(decisions, half)
    assert decide(decisions, half_at(4)), "the check has not come upon it"


def test_the_first_decision_counts_for_half_messages_of_earlier_lives(decisions: TransactionDecisions) -> None:
    assert decide(decisions, half_at(1))
    pass_and_forget(decisions, range(2, 4))

    assert not decide(decisions, half_at(1))
    assert not decide(decisions, half_at(7, first_offset=1)), "it is the same one"


def test_a_put_back_half_message_can_be_decided_at_any_time(decisions: TransactionDecisions) -> None:
    with decisions.lock:
        decisions.record_put_back(half_at(2), 7)
    pass_and_forget(decisions, range(2, 6))

    assert decide(decisions, half_at(7, first_offset=2))
    assert not decide(decisions, half_at(2)), "it is the same one"
    with decisions.lock:
        decisions.record_passed(half_at(7, first_offset=2))
    pass_and_forget(decisions, range(2, 8))
    assert not decide(decisions, half_at(7, first_offset=2))
    assert not decide(decisions, half_at(2))


def test_a_check_pass_over_an_older_copy_keeps_the_newest_undecided(decisions: TransactionDecisions) -> None:
    with decisions.lock:
        decisions.record_put_back(half_at(2), 5)
        decisions.record_put_back(half_at(5, first_offset=2), 7)
        decisions.record_passed(half_at(5, first_offset=2))
    pass_and_forget(decisions, range(2, 6))

    assert decide(decisions, half_at(7, first_offset=2))


def test_a_given_up_half_message_can_still_be_decided(decisions: TransactionDecisions) -> None:
    with decisions.lock:
        decisions.record_given_up(half_at(2))
    pass_and_forget(decisions, range(2, 4))

    assert decide(decisions, half_at(2))
    assert not decide(decisions, half_at(2))
    pass_and_forget(decisions, range(2, 6))
    assert not decide(decisions, half_at(2)), "once is enough, however far the check has come"


def test_an_abandoned_decision_leaves_the_half_message_undecided(decisions: TransactionDecisions) -> None:
    half = half_at(7, first_offset=2)
    assert decisions.claim_half_message(half, VISIBLE_OPS)
    assert not decisions.claim_half_message(half_at(2), VISIBLE_OPS)
    decisions.release_claim(half)

    assert decide(decisions, half_at(2))


def test_clearing_the_half_queue_clears_its_decisions(decisions: TransactionDecisions) -> None:
    assert decide(decisions, half_at(2))
    pass_and_forget(decisions, range(4))
    with decisions.lock:
        decisions.record_given_up(half_at(3))
        decisions.record_put_back(half_at(1), 9)
    decisions.clear()

    assert not decisions.is_put_back(1)
    for offset in range(4):
        assert decide(decisions, half_at(offset))
