"""Queue locks: answers that contradict what clients were told before."""

from tornlog.scenarios.oracle.evidence import Violation
from tornlog.scenarios.oracle.queue_locks import EXPIRY_NS, QueueLocks

QUEUE = ("T0", 0)
SECOND_NS = 1_000_000_000


def answer(
    locks: QueueLocks, client: str, at_s: int, *, granted: bool, queue: tuple[str, int] = QUEUE
) -> list[Violation]:
    """Ask for a lock at `at_s`, and get the answer a second later."""
    locks.record_request(client, [queue])
    times_ns = at_s * SECOND_NS, (at_s + 1) * SECOND_NS
    return list(locks.check_answer(client, [queue], [queue] if granted else [], times_ns, [QUEUE]))


def test_a_second_client_gets_no_lock_before_the_expiry_of_the_first() -> None:
    locks = QueueLocks()
    assert answer(locks, "a", 0, granted=True) == []
    assert answer(locks, "b", 10, granted=False) == []
    (found,) = answer(locks, "b", 20, granted=True)
    assert found.invariant == "LOCK"
    assert "which a holds" in found.summary


def test_a_renewed_lock_is_held_until_its_expiry_after_the_renewal() -> None:
    locks = QueueLocks()
    assert answer(locks, "a", 0, granted=True) == []
    assert answer(locks, "a", 50, granted=True) == []
    assert [found.field for found in answer(locks, "b", 100, granted=True)] == ["lock"]


def test_a_lock_whose_holder_is_gone_is_granted_after_its_expiry() -> None:
    expiry_s = EXPIRY_NS // SECOND_NS
    locks = QueueLocks()
    assert answer(locks, "a", 0, granted=True) == []
    assert answer(locks, "b", expiry_s, granted=False) == []  # the broker may have granted it at second 1
    (found,) = answer(locks, "b", expiry_s + 2, granted=False)
    assert "which no client can hold" in found.summary
    assert answer(locks, "b", expiry_s + 4, granted=True) == []


def test_an_unlocked_queue_can_be_locked_at_once() -> None:
    locks = QueueLocks()
    answer(locks, "a", 0, granted=True)
    locks.record_unlock_request("a", [QUEUE])
    assert answer(locks, "b", 3, granted=False) == []  # the request to unlock may be executed later
    locks.record_unlock_answer("a", [QUEUE], 4 * SECOND_NS + 1)
    assert len(answer(locks, "b", 5, granted=False)) == 1


def test_a_holder_does_not_lose_its_lock() -> None:
    locks = QueueLocks()
    answer(locks, "a", 0, granted=True)
    (found,) = [each for each in answer(locks, "a", 5, granted=False) if "loses" in each.summary]
    assert found.expected == "granted until 60000000000 ns"


def test_a_request_without_an_answer_may_have_locked_the_queue() -> None:
    locks = QueueLocks()
    locks.record_request("a", [QUEUE])
    locks.record_no_answer("a", [QUEUE], 3 * SECOND_NS)
    assert answer(locks, "b", 50, granted=False) == []
    assert len(answer(locks, "b", 200, granted=False)) == 1


def test_the_next_start_of_the_broker_has_no_locks() -> None:
    locks = QueueLocks()
    answer(locks, "a", 0, granted=True)
    locks.begin_life()
    assert len(answer(locks, "b", 5, granted=False)) == 1
    assert answer(locks, "b", 7, granted=True) == []


def test_the_broker_need_not_lock_a_queue_that_it_does_not_have() -> None:
    assert answer(QueueLocks(), "a", 0, granted=False, queue=("T9", 0)) == []


def test_an_answer_with_a_queue_that_nobody_asked_for_is_a_violation() -> None:
    locks = QueueLocks()
    found = list(locks.check_answer("a", [QUEUE], [QUEUE, ("T1", 0)], (0, 1), []))
    assert [each.field for each in found] == ["lock"]


def test_a_broker_has_every_lock_until_its_expiry_or_a_request_to_unlock() -> None:
    locks = QueueLocks()
    assert answer(locks, "a", 0, granted=True) == []
    for holders in ({}, {QUEUE: "b"}):
        (found,) = locks.check_held(30 * SECOND_NS, holders)
        assert (found.invariant, found.summary) == ("LOCK", "a has lost the lock of T0/0 before its expiry")
    assert list(locks.check_held(30 * SECOND_NS, {QUEUE: "a"})) == []
    assert list(locks.check_held(EXPIRY_NS + 1, {})) == []
    locks.record_unlock_request("a", [QUEUE])
    assert list(locks.check_held(30 * SECOND_NS, {})) == []


def test_a_request_to_unlock_without_an_answer_may_end_a_later_lock() -> None:
    locks = QueueLocks()
    assert answer(locks, "a", 0, granted=True) == []
    locks.record_unlock_request("a", [QUEUE])
    assert answer(locks, "a", 10, granted=True) == []
    assert list(locks.check_held(30 * SECOND_NS, {})) == []
    locks.record_unlock_answer("a", [QUEUE], 31 * SECOND_NS)
    assert answer(locks, "a", 40, granted=True) == []
    assert len(list(locks.check_held(50 * SECOND_NS, {}))) == 1
