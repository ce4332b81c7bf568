import threading

import pytest

from tornlog.store.real.world import ThreadTasks


def test_a_task_is_a_daemon_thread_of_its_name() -> None:
    seen: list[threading.Thread] = []
    task = ThreadTasks().spawn("flush-service", lambda: seen.append(threading.current_thread()))

    assert task.join(10_000)
    assert task.name == seen[0].name == "flush-service"
    assert seen[0].daemon
    assert task.failure is None


def test_what_escapes_a_body_is_kept_and_given_to_the_excepthook(monkeypatch: pytest.MonkeyPatch) -> None:
    printed: list[threading.ExceptHookArgs] = []
    monkeypatch.setattr(threading, "excepthook", printed.append)
    failure = OSError("the disk is gone")

    def fail() -> None:
        raise failure

    task = ThreadTasks().spawn("doomed", fail)

    assert task.join(10_000)
    assert task.failure is failure
    assert [args.exc_value for args in printed] == [failure]


def test_one_wait_uses_up_the_notices_of_many_tasks_and_none_is_lost() -> None:
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
        assert signal.wait(10_000), taken  # with work left, somebody notified or still will
        while count := pending.get():
            pending.add(-count)
            taken += count

    assert all(producer.join(10_000) for producer in producers)
    assert taken == 6000


def test_a_timeout_of_any_length_is_taken() -> None:
    tasks = ThreadTasks()
    signal = tasks.signal("wake-up")

    assert not signal.wait(-5)
    signal.notify()
    assert signal.wait((1 << 63) - 1)
    assert tasks.spawn("brief", lambda: None).join((1 << 63) - 1)
