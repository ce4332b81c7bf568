from tests.bench.figure import Figure
from tornlog.reports.studies.closed_loop import Latency


def test_a_figure_is_the_median_of_its_samples() -> None:
    figure = Figure("sheep counted", "sheep/s", 100.0, (90.0, 1250.0, 120.0))
    assert figure.median == 120.0
    assert not figure.is_missed
    assert figure.latency is None
    assert figure.to_json() == {
        "name": "sheep counted",
        "unit": "sheep/s",
        "floor": 100.0,
        "median": 120.0,
        "samples": [90.0, 1250.0, 120.0],
    }


def test_a_figure_without_a_floor_is_never_missed() -> None:
    assert not Figure("sheep counted", "sheep/s", None, (0.0,)).is_missed
    assert Figure("sheep counted", "sheep/s", 0.5, (0.0,)).is_missed


def test_a_figure_above_its_ceiling_is_missed_and_the_ceiling_is_shown() -> None:
    figure = Figure("wolves", "wolves", None, (3.0,), ceiling=2.0)
    assert figure.is_missed
    assert figure.to_json()["ceiling"] == 2.0
    assert not Figure("wolves", "wolves", None, (2.0,), ceiling=2.0).is_missed


def test_other_rates_of_a_figure_are_medians_too() -> None:
    per_second = tuple({"steps": steps, "jumps": 1.0} for steps in (3.0, 9.0, 4.0))
    figure = Figure("sheep counted", "sheep/s", None, (1.0, 2.0, 3.0), per_second=per_second)
    assert figure.median_per_second("steps") == 4.0
    assert figure.to_json()["per_second"] == {"steps": 4.0, "jumps": 1.0}


def test_latencies_are_taken_over_all_workers_calls() -> None:
    series = [range(1_000, 51_000, 1_000), range(51_000, 101_000, 1_000)]  # 1 to 100 µs
    assert Latency.from_series(series) == (51.0, 99.0, 100.0)
    assert Latency.from_series([[7_000], []]) == (7.0, 7.0, 7.0)


def test_json_has_the_medians_of_the_latencies_the_longest_call_and_each_rounds_load() -> None:
    latencies = (Latency(1.0, 9.0, 30.0), Latency(2.0, 5.0, 90.0), Latency(3.0, 7.0, 60.0))
    figure = Figure("sheep counted", "sheep/s", None, (1.0, 2.0, 3.0), latencies, (0.5, 0.6, 0.7))
    fields = figure.to_json()
    assert fields["latency_us"] == {"p50": 2.0, "p99": 7.0, "max": 90.0}
    assert fields["load_average"] == [0.5, 0.6, 0.7]
    assert fields["floor"] is None
