import threading
import time

import pytest

from tornlog.reports.studies.closed_loop import ClosedLoop


def test_every_worker_calls_again_and_again_and_each_call_counts_as_often_as_it_says() -> None:
    calls = [0, 0]

    def caller(number: int) -> None:
        calls[number] += 1
        time.sleep(0.001)

    began = time.perf_counter()
    sample = ClosedLoop([lambda: caller(0), lambda: caller(1)], 0.5).run(per_call=10)
    took = time.perf_counter() - began
    assert min(calls) > 1
    assert sample.rate >= sum(calls) * 10 / took
    assert sample.latency is not None
    assert 1_000 <= sample.latency.p50_us <= sample.latency.p99_us <= sample.latency.max_us


def test_a_call_that_takes_longer_than_the_loop_is_waited_for() -> None:
    done = []

    def slow() -> None:
        time.sleep(0.05)
        done.append(True)

    ClosedLoop([slow], 0.001).run()
    assert done == [True]


def test_what_a_call_raises_ends_all_workers_and_is_raised() -> None:
    def fail() -> None:
        raise RuntimeError("no sheep left")

    began = time.perf_counter()
    with pytest.raises(RuntimeError, match="no sheep left"):
        ClosedLoop([fail, lambda: time.sleep(0.001)], 60).run()
    assert time.perf_counter() - began < 30


def test_no_worker_calls_any_more_once_the_loop_was_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    loop = ClosedLoop([lambda: (calls.append(1), time.sleep(0.001))], 60)
    join, interrupted = threading.Thread.join, []

    def interrupted_join(thread: threading.Thread, timeout: float | None = None) -> None:
        if not interrupted:
            interrupted.append(True)
            raise KeyboardInterrupt
        join(thread, timeout)

    monkeypatch.setattr(threading.Thread, "join", interrupted_join)
    with pytest.raises(KeyboardInterrupt):
        loop.run()
    made = len(calls)
    time.sleep(0.02)
    assert len(calls) == made
