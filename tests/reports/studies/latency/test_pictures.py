import pytest
from matplotlib.figure import Figure

from tornlog.reports.quantities import duration_text
from tornlog.reports.studies.latency.host import REFERENCE
from tornlog.reports.studies.latency.machine import SystemConfig
from tornlog.reports.studies.latency.pictures import conditions_figure, distribution_axes
from tornlog.reports.studies.latency.simulated import LatencySeries, simulate
from tornlog.reports.studies.latency.tables import curve_of, main_cause, slowest_rows, slowest_text
from tornlog.reports.studies.latency.traffic import Setup


def test_a_latency_curve_has_the_share_of_slower_puts() -> None:
    curve = curve_of(range(1_000, 1_001_000, 1_000))
    share_of = dict(zip(curve.us, curve.share, strict=True))

    assert share_of[1.0] == 1.0
    assert min(curve.share) == pytest.approx(0.001)
    assert all(share == pytest.approx(1 - (us - 1) / 1_000) for us, share in share_of.items())


def test_a_latency_curve_of_many_puts_has_few_points_and_a_complete_tail() -> None:
    curve = curve_of(range(1_000_000))

    assert len(curve.us) <= 401
    assert list(curve.us[-3:]) == [999.997, 999.998, 999.999]
    assert list(curve.us) == sorted(curve.us)


def test_a_latency_curve_of_one_put_has_one_point() -> None:
    assert curve_of([5_000]) == ([5.0], [1.0])


def test_axis_labels_are_percentiles_and_durations() -> None:
    axes = Figure().subplots()
    distribution_axes(axes, 5.0, 2e6, 1e-3)

    assert [tick.get_text() for tick in axes.get_yticklabels()] == ["p50", "p90", "p99", "p99.9"]
    assert "10 ms" in [tick.get_text() for tick in axes.get_xticklabels()]


def test_slow_puts_are_a_timeline_with_a_row_for_each_cause_and_the_picture_names_the_main_one() -> None:
    series = simulate(Setup("sync", 1, 20.0, 20), REFERENCE, SystemConfig("hdd"))
    measured = [LatencySeries("hdd", "free", Setup("sync", 1, 20.0, 20), series)]
    rows = list(slowest_rows(measured))
    arrived = [row[4] for row in rows]

    assert arrived == sorted(arrived)
    assert sum(row[7] for row in rows) == pytest.approx(sum(series.latencies_ns) / 1_000)
    assert main_cause(series) in ("journal commit", "device")
    texts = [text.get_text() for text in conditions_figure(measured).axes[0].texts]
    assert texts == [main_cause(series)]
    slowest = series.slowest[0]
    assert slowest_text(measured).startswith("the slowest put (hdd, free, sync, 1 producer) arrived after ")
    assert f"took {duration_text(slowest.latency_ns / 1_000)}: {next(iter(slowest.causes))} " in slowest_text(measured)
