import os
import random
import sys
import threading
import time
from contextlib import suppress
from functools import partial
from types import SimpleNamespace

import pytest

from tornlog.store.real import world
from tornlog.store.real.world import ThreadSignal, ThreadTasks, pinned_to_processor


def test_a_task_is_a_daemon_thread_with_its_name() -> None:
    seen: list[threading.Thread] = []
    task = ThreadTasks().spawn("flush-service", lambda: seen.append(threading.current_thread()))
    assert task.join(10_000)
    assert task.name == seen[0].name == "flush-service"
    assert seen[0].daemon
    assert task.failure is None


def test_an_exception_of_a_task_is_recorded_and_passed_to_the_excepthook(monkeypatch: pytest.MonkeyPatch) -> None:
    printed: list[threading.ExceptHookArgs] = []
    monkeypatch.setattr(threading, "excepthook", printed.append)
    failure = OSError("the disk is gone")

    def fail() -> None:
        raise failure

    task = ThreadTasks().spawn("doomed", fail)

    assert task.join(10_000)
    assert task.failure is failure
    assert [args.exc_value for args in printed] == [failure]


def test_a_signal_loses_no_notify_of_concurrent_tasks() -> None:
    tasks = ThreadTasks()
    signal = tasks.signal("wake-up")
    pending = tasks.cell("pending")
    taken = 0

    def put() -> None:
        for _ in range(2000):
            pending.add(1)
            signal.notify()

    producers = [tasks.spawn(f"producer-{number}", put) for number in range(3)]
    while taken < 6000:
        assert signal.wait(10_000), taken  # while work remains, a notify was called or will be called
        while count := pending.get():
            pending.add(-count)
            taken += count

    assert all(producer.join(10_000) for producer in producers)
    assert taken == 6000


def test_signals_in_turn_wake_every_waiter_whatever_the_others_do() -> None:
    tasks, dice = ThreadTasks(), random.Random("turns")
    for _ in range(200):
        signals = [tasks.signal("done") for _ in range(6)]
        patient = [dice.random() < 0.6 for _ in signals]  # others give up, perhaps just when they are notified
        woken: list[bool] = []

        def wait(
            number: int, signals: list[ThreadSignal] = signals, patient: list[bool] = patient, woken: list[bool] = woken
        ) -> None:
            found = signals[number].wait(60_000 if patient[number] else number % 2)
            woken.append(found or not patient[number])

        late = dice.randrange(6)  # this one waits only after the notification
        waiters = [tasks.spawn(f"put {number}", partial(wait, number)) for number in range(6) if number != late]
        tasks.sleep(dice.randrange(2))
        tasks.notify_in_turn(signals)
        waiters.append(tasks.spawn("late put", partial(wait, late)))
        assert all(waiter.join(10_000) for waiter in waiters)
        assert woken == [True] * 6


def test_a_waiter_that_is_interrupted_lets_the_next_one_wake() -> None:
    class InterruptedGate:
        def acquire(self, timeout: float) -> bool:
            tasks.notify_in_turn([first, second])
            raise KeyboardInterrupt

        def release(self) -> None:
            pass

    tasks = ThreadTasks()
    first, second = tasks.signal("first"), tasks.signal("second")
    first._gate = InterruptedGate()  # type: ignore[assignment]
    with pytest.raises(KeyboardInterrupt):
        first.wait(None)
    assert second.wait(0)


def test_a_wait_accepts_negative_and_huge_timeouts() -> None:
    tasks = ThreadTasks()
    signal = tasks.signal("wake-up")
    assert not signal.wait(-5)
    signal.notify()
    assert signal.wait((1 << 63) - 1)
    assert tasks.spawn("brief", lambda: None).join((1 << 63) - 1)


def test_a_task_lock_is_held_by_one_thread_at_a_time() -> None:
    tasks = ThreadTasks()
    lock = tasks.lock("put")
    inside = most = total = 0

    def use() -> None:
        nonlocal inside, most, total
        for _ in range(500):
            with lock:
                inside += 1
                most = max(most, inside)
                before = total
                time.sleep(0)  # other threads run here, and find the lock taken
                total = before + 1
                inside -= 1

    users = [tasks.spawn(f"user-{number}", use) for number in range(8)]
    assert all(user.join(60_000) for user in users)
    assert (most, total) == (1, 4000)


def test_a_waiter_for_a_long_held_lock_sleeps_and_acquires_it_when_released(monkeypatch: pytest.MonkeyPatch) -> None:
    tries = 20
    pauses: list[float] = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        time.sleep(seconds)

    monkeypatch.setattr(world, "_TRIES", tries)
    monkeypatch.setattr(world, "time", SimpleNamespace(sleep=pause))
    tasks = ThreadTasks()
    lock = tasks.lock("put")
    entered, had = threading.Event(), threading.Event()

    def hold() -> None:
        with suppress(OSError), lock:
            entered.set()
            time.sleep(0.3)
            raise OSError("the disk")

    def want() -> None:
        with lock:
            had.set()

    holder = tasks.spawn("holder", hold)
    assert entered.wait(10)
    waiting = [tasks.spawn(f"waiting-{number}", want) for number in range(4)]
    assert not had.wait(0.1)
    assert had.wait(10)
    assert all(task.join(10_000) for task in (holder, *waiting))
    assert holder.failure is None
    assert tries <= len(pauses) <= 4 * tries, "who waits tries for a while, and not all the time"


def test_threads_started_inside_pinned_run_on_one_processor() -> None:
    before = os.sched_getaffinity(0)
    seen: list[set[int]] = []
    with pinned_to_processor() as chosen:
        task = ThreadTasks().spawn("turn", lambda: seen.append(os.sched_getaffinity(0)))
        assert task.join(10_000)
    assert chosen in before
    assert seen == [{chosen}]
    assert os.sched_getaffinity(0) == before


def test_pinned_does_nothing_if_forbidden_or_without_the_gil(monkeypatch: pytest.MonkeyPatch) -> None:
    def forbid(*_: object) -> None:
        raise PermissionError("a sandbox says no")

    before = os.sched_getaffinity(0)
    with monkeypatch.context() as patch:
        patch.setattr(sys, "_is_gil_enabled", lambda: False, raising=False)
        with pinned_to_processor() as chosen:
            assert chosen is None
            assert os.sched_getaffinity(0) == before
    with monkeypatch.context() as patch:
        patch.setattr(os, "sched_setaffinity", forbid)
        with pinned_to_processor() as chosen:
            assert chosen is None
