"""Fair queues with several owners."""

from collections import Counter, deque

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tornlog.store.broker.fair_queue import FairQueue, HostFairQueue


def take_all(queue: FairQueue[str, int]) -> list[int]:
    return [queue.take() for _ in range(len(queue))]


def test_owners_of_a_fair_queue_take_turns() -> None:
    queue: FairQueue[str, int] = FairQueue()
    for item in range(5):
        queue.put("greedy", item)
    queue.put("modest", 100)
    queue.put("other", 200)
    queue.put("modest", 101)

    assert take_all(queue) == [0, 100, 200, 1, 101, 2, 3, 4]


def test_an_owner_that_returns_to_a_fair_queue_gets_the_last_turn() -> None:
    queue: FairQueue[str, int] = FairQueue()
    queue.put("one", 1)
    assert queue.take() == 1
    queue.put("two", 2)
    queue.put("one", 3)

    assert take_all(queue) == [2, 3]


def test_the_first_item_of_an_owner_can_be_dropped_out_of_turn() -> None:
    queue: FairQueue[str, int] = FairQueue()
    for owner, item in (("one", 1), ("two", 2), ("two", 3), ("three", 4)):
        queue.put(owner, item)
    queue.drop_first("two")
    queue.drop_first("three")

    assert take_all(queue) == [1, 3]
    with pytest.raises(KeyError):
        queue.drop_first("three")
    with pytest.raises(KeyError):
        queue.take()


@given(st.lists(st.one_of(st.sampled_from("abc"), st.none(), st.sampled_from("ABC")), max_size=60))
def test_a_fair_queue_loses_no_item_and_keeps_the_order_of_each_owner(steps: list[str | None]) -> None:
    """A small letter puts an item of this owner, a capital letter drops the owner's first item, None takes an item."""
    queue: FairQueue[str, tuple[str, int]] = FairQueue()
    expected: dict[str, deque[tuple[str, int]]] = {owner: deque() for owner in "abc"}
    for number, step in enumerate(steps):
        if step is None:
            if len(queue):
                item = queue.take()
                assert item == expected[item[0]].popleft()
        elif step.islower():
            queue.put(step, (step, number))
            expected[step].append((step, number))
        elif expected[step.lower()]:
            queue.drop_first(step.lower())
            expected[step.lower()].popleft()
        assert len(queue) == sum(map(len, expected.values()))


@given(st.lists(st.tuples(st.sampled_from("xyz"), st.integers(0, 5)), min_size=1, max_size=60))
def test_hosts_take_turns_and_owners_take_turns_within_a_host(puts: list[tuple[str, int]]) -> None:
    """Between two items of one host, each other host with items gets one turn."""
    queue: HostFairQueue[tuple[str, int], tuple[str, int, int]] = HostFairQueue()
    for number, (host, owner) in enumerate(puts):
        queue.put(host, (host, owner), (host, owner, number))

    found = [queue.take() for _ in range(len(queue))]

    left = Counter(host for host, _ in puts)
    waited: Counter[str] = Counter()
    for host, _, _ in found:
        assert waited[host] < len(left), f"{host} has waited for more than a round"
        waited.update(other for other in left if left[other] and other != host)
        waited[host] = 0
        left[host] -= 1
    for host in set(left):
        of_host = [(owner, number) for one, owner, number in found if one == host]
        rounds = Counter[int]()
        for owner, _ in of_host:
            others = [o for o, _ in of_host if o != owner]
            rounds[owner] += 1
            assert all(rounds[o] >= min(rounds[owner] - 1, others.count(o)) for o in set(others))
        for owner in rounds:
            numbers = [number for one, number in of_host if one == owner]
            assert numbers == sorted(numbers)
    with pytest.raises(KeyError):
        queue.take()


def test_a_paused_host_has_no_turn_and_keeps_its_items() -> None:
    queue: HostFairQueue[str, int] = HostFairQueue()
    queue.put("one", "a", 1)
    queue.pause("one")
    queue.pause("two")
    queue.put("one", "a", 2)
    queue.put("one", "b", 3)

    assert (len(queue), queue.has_turn, sorted(queue.first_item_of_each_owner())) == (3, False, [1, 3])
    with pytest.raises(KeyError):
        queue.take()
    queue.drop_first("one", "a")
    queue.resume("two")
    queue.resume("one")
    assert queue.has_turn
    assert [queue.take() for _ in range(len(queue))] == [2, 3]
