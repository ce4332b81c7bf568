from array import array

import pytest

from tornlog.reports.studies.latency.real.puts import Interval, MeasuredPuts, measure

MS = 1_000_000


def puts(*pairs_ms: tuple[int, int]) -> MeasuredPuts:
    """Puts with (time of the answer, latency)."""
    answered, latencies = zip(*pairs_ms, strict=True)
    return MeasuredPuts(array("q", (ms * MS for ms in latencies)), array("q", (ms * MS for ms in answered)))


def test_a_percentile_without_a_slower_put_is_not_reported() -> None:
    few = MeasuredPuts(array("q", range(1_000, 9_999_000, 1_000)), array("q"))
    enough = MeasuredPuts(array("q", range(1_000, 10_001_000, 1_000)), array("q"))

    assert few.tail_us() == [5_000, 8_999, 9_899, 9_989, None]
    assert enough.tail_us() == [5_001, 9_001, 9_901, 9_991, 10_000]


def test_a_stall_is_an_interval_without_answers_and_the_pause_that_ends_after_it() -> None:
    # one producer answers at 90 and 390 ms, another one, whose put arrived at 120 ms, at 391 ms
    found = puts((20, 5), (90, 1), (390, 295), (391, 271)).intervals()

    assert [one.puts for one in found] == [2, 0, 0, 2]
    assert found[0] == Interval(2, 5 * MS, 5 * MS)
    assert found[3] == Interval(2, 295 * MS, 295 * MS)  # no put waited before 95 ms


def test_time_without_arrivals_is_no_pause() -> None:
    assert [one.pause_ns for one in puts((50, 1), (950, 2)).intervals() if one.puts] == [1 * MS, 2 * MS]


def test_each_answer_of_each_producer_is_timed() -> None:
    found = measure([array("q", [0, 1_000]), array("q", [0])], lambda: None)

    assert len(found.latencies_ns) == len(found.answered_ns) == 3
    assert all(0 <= latency <= answered for latency, answered in zip(*found, strict=True))


def test_an_error_of_a_put_is_raised() -> None:
    def refuse() -> None:
        raise RuntimeError("a put was answered SERVICE_NOT_AVAILABLE")

    with pytest.raises(RuntimeError, match="SERVICE_NOT_AVAILABLE"):
        measure([array("q", [0])], refuse)
