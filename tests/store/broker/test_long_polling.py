"""Held pulls are found by queue, connection and deadline, and removed completely."""

from types import SimpleNamespace
from typing import Any

import pytest

from tornlog.store.broker import long_polling
from tornlog.store.broker.broker_config import BrokerConfig
from tornlog.store.broker.long_polling import HeldPull, HeldPullTable, PullRequestHoldService
from tornlog.store.filters.message_filter import TagFilter
from tornlog.store.formats.remoting.command import RemotingCommand
from tornlog.store.world import World

EVERYTHING = TagFilter.parse(None)


class OpenChannel:
    is_open = True


def held_pull(channel: Any, due_ns: int, queue_id: int = 0) -> HeldPull:
    return HeldPull(RemotingCommand(11, 1), channel, ("T", queue_id), 0, EVERYTHING, due_ns)


def test_held_pulls_are_taken_in_order_of_their_deadlines() -> None:
    held = HeldPullTable()
    pulls = [held_pull("a", due_ns) for due_ns in (30, 10, 20, 10)]
    for each in pulls:
        held.add(each)
    assert held.first_due_ns(99) == 10
    assert held.first_due_ns(5) == 5
    assert held.take_due(9) == []
    assert held.take_due(20) == [pulls[1], pulls[3], pulls[2]]
    assert (held.count, held.first_due_ns(99)) == (1, 30)


def test_a_held_pull_is_taken_once() -> None:
    held = HeldPullTable()
    first, second = held_pull("a", 10), held_pull("b", 10, 1)
    held.add(first)
    held.add(second)
    assert (held.pulls_of_queue(("T", 0)), held.pulls_of_channel("b")) == ([first], [second])  # type: ignore[arg-type]
    assert held.remove_pulls([first, first]) == [first]
    assert held.take_due(99) == [second]
    assert held.remove_pulls([first, second]) == []
    assert (held.count, held.queues, ("T", 0) in held) == (0, [], False)
    assert held.count_of("a") == 0  # type: ignore[arg-type]


def test_held_pulls_taken_early_do_not_accumulate() -> None:
    held = HeldPullTable()
    stays = held_pull("a", 1 << 62)
    held.add(stays)
    for _ in range(10_000):
        passing = held_pull("a", 1 << 61)
        held.add(passing)
        held.remove_pulls([passing])
    assert len(held._due) < 2_000
    assert held.take_due(1 << 62) == [stays]


def test_no_connection_waits_for_a_pull_that_is_being_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A removal may be interrupted between two tables, and another task then reads the table by connection."""
    held, pull = HeldPullTable(), held_pull("a", 10)
    held.add(pull)
    remove, waiting = long_polling._remove_from_table, []

    def interrupted(*arguments: Any) -> bool:
        was_held = remove(*arguments)
        waiting.append(held.pulls_of_channel(pull.channel))
        return was_held

    monkeypatch.setattr(long_polling, "_remove_from_table", interrupted)
    assert held.remove_pulls([pull]) == [pull]
    assert waiting == [[], []]


def test_a_pull_wakes_the_service_if_its_wake_up_is_overdue(world: World) -> None:
    """The service may have been delayed between its look at the clock and its wait."""
    store: Any = SimpleNamespace(get_max_offset_in_queue=lambda topic, queue_id: 0)
    service = PullRequestHoldService(world, store, BrokerConfig())
    world.tasks.sleep(1_000)
    for overdue_ms, is_woken in ((-1, False), (0, True), (500, True)):
        now_ns = world.clock.monotonic_ns()
        service._wake_ns = now_ns - overdue_ms * 1_000_000
        assert service.hold_pull(held_pull(OpenChannel(), now_ns + 10**9))
        assert service.signal.wait(0) is is_woken
