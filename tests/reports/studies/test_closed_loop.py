import threading
import time

import pytest

from tornlog.reports.studies.closed_loop import ClosedLoop


def test_every_worker_repeats_its_call_and_each_call_counts_several_times() -> None:
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


def test_the_closed_loop_waits_for_a_call_longer_than_its_duration() -> None:
    done = []

    def slow() -> None:
        time.sleep(0.05)
        done.append(True)

    ClosedLoop([slow], 0.001).run()
    assert done == [True]


def test_an_error_of_a_call_ends_all_workers_and_is_raised() -> None:
    def fail() -> None:
        raise RuntimeError("no sheep left")

    began = time.perf_counter()
    with pytest.raises(RuntimeError, match="no sheep left"):
        ClosedLoop([fail, lambda: time.sleep(0.001)], 60).run()
    assert time.perf_counter() - began < 30


def test_no_worker_makes_a_call_after_an_interruption(monkeypatch: pytest.MonkeyPatch) -> None:
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
