from array import array

import pytest

from tornlog.reports.studies.latency.real.memory_limit import NO_PRESSURE
from tornlog.reports.studies.latency.real.pictures import knee_of, turns_figure
from tornlog.reports.studies.latency.real.puts import MeasuredPuts
from tornlog.reports.studies.latency.real.tables import by_cell, curve_rows
from tornlog.reports.studies.latency.real.turns import (
    MODEL_SOURCE,
    OWN_SOURCE,
    MachineCondition,
    MeasuredCell,
    MeasuredTurn,
    Mode,
)
from tornlog.reports.studies.latency.simulated import SlowPut
from tornlog.reports.studies.latency.tables import Curve, curve_of

USUAL = [40_000 + 10 * number for number in range(990)]
SLOW = [1_000_000 * (number + 1) for number in range(10)]


def turn(source: str, latencies_ns: list[int], slowest: tuple[SlowPut, ...] = ()) -> MeasuredTurn:
    cell = MeasuredCell(source, Mode("async"), MachineCondition(), 4)
    puts = MeasuredPuts(array("q", latencies_ns), array("q", latencies_ns))
    return MeasuredTurn(cell, 0, puts, NO_PRESSURE, None, 1.5, slowest)


def test_the_knee_of_a_curve_is_where_its_rare_long_waits_begin() -> None:
    curve = curve_of(USUAL + SLOW)
    place = knee_of(curve)

    assert place is not None
    assert curve.us[place] <= 50
    assert curve.share[place] == pytest.approx(0.01, rel=0.2)


def test_a_curve_that_falls_again_after_many_long_waits_has_its_knee_before_them() -> None:
    usual = [100_000 + 100 * number for number in range(9_000)]
    waits = [1_000_000 + 30_000 * number for number in range(1_000)]  # a tenth, up to 31 ms
    curve = curve_of(usual + waits)
    place = knee_of(curve)

    assert place is not None
    assert curve.share[place] == pytest.approx(0.1, rel=0.2)


def test_a_straight_curve_has_no_knee() -> None:
    straight = Curve([10.0**number for number in range(5)], [10.0**-number for number in range(5)])

    assert knee_of(straight) is None
    assert knee_of(curve_of([7_000] * 100)) is None


@pytest.mark.parametrize(
    ("cause", "text"), [("dirty limit", "dirty limit reached"), ("journal commit", "journal commit")]
)
def test_the_main_wait_beyond_the_knee_is_written_on_the_models_curve(cause: str, text: str) -> None:
    slowest = tuple(SlowPut(0, ns, {cause: ns}) for ns in SLOW)
    # Waits before the knee do not count.
    slowest += tuple(SlowPut(0, ns, {"device": 1_000 * ns}) for ns in USUAL[:20])
    figure = turns_figure(by_cell([turn(MODEL_SOURCE, USUAL + SLOW, slowest), turn(OWN_SOURCE, USUAL + SLOW)]))
    (axes,) = figure.axes

    assert [one.get_text() for one in axes.texts] == [text]
    assert "1 turn, load average 1.5" in figure.get_suptitle()


def test_panels_name_the_number_of_producers_if_there_are_several() -> None:
    few = turn(OWN_SOURCE, USUAL)
    many = few._replace(cell=few.cell._replace(producers=16))
    titles = [[axes.get_title() for axes in turns_figure(by_cell(turns)).axes] for turns in ([few], [few, many])]

    assert titles == [
        ["async: memory free"],
        ["async, 4 producers: memory free", "async, 16 producers: memory free"],
    ]


def test_the_curves_of_a_picture_are_in_a_table() -> None:
    (cell,) = by_cell([turn(OWN_SOURCE, USUAL + SLOW)])
    rows = [row[-2:] for row in curve_rows([cell])]

    assert rows[0] == (40.0, 1.0)
    assert rows[-1] == (10_000.0, 0.001)
