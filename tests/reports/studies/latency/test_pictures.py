import pytest
from matplotlib.figure import Figure

from tornlog.reports.studies.latency.pictures import distribution_axes
from tornlog.reports.studies.latency.tables import curve_of


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
