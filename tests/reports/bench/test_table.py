"""Tables show medians beside floors, and how busy the machine was."""

from io import StringIO

from rich.console import Console

from tornlog.reports.bench.command import MEASUREMENTS, RATIOS, bench_table, print_bench
from tornlog.reports.bench.figure import Figure, Latency


def told(figures: list[Figure]) -> list[str]:
    printed = StringIO()
    print_bench(Console(file=printed, width=80), figures, 3)
    return [line.rstrip() for line in printed.getvalue().splitlines()]


def test_rates_stand_beside_floors_and_latencies_below() -> None:
    latencies = (Latency(8.4, 36.0, 25_990.0),)
    lines = told(
        [
            Figure("sheep counted", "sheep/s", 100.0, (90.0, 1250.0, 120.0), latencies, (0.5, 2.25, 1.0)),
            Figure("fences", "x", None, (1.234,)),
        ]
    )
    assert lines[0] == "medians of 3, load average 0.5 to 2.2"
    (sheep, timed) = [line.split() for line in lines if "sheep counted" in line]
    assert sheep == ["sheep", "counted", "120", "90", "1,250", "100", "sheep/s"]
    assert timed == ["sheep", "counted", "8", "36", "25,990"]
    (fences,) = [line.split() for line in lines if "fences" in line]
    assert fences == ["fences", "1.23", "1.23", "1.23", "x"]


def test_without_timed_calls_there_is_one_table() -> None:
    lines = told([Figure("sheep counted", "sheep/s", None, (90.0,))])
    assert lines[0] == "medians of 3"
    assert "p99" not in "".join(lines)


def test_every_figure_fits_one_line_of_80_columns() -> None:
    figures = [Figure(one.name, one.unit, one.floor, (1_234_567.0,)) for one in MEASUREMENTS]
    figures += [Figure(one.name, "messages/s", one.floor, (1_234_567.0,)) for one in RATIOS]
    lines = told(figures)
    assert len(lines) == 3 + len(figures)


def test_a_figure_below_its_floor_stands_out() -> None:
    printed = StringIO()
    coloured = Console(file=printed, width=80, force_terminal=True, color_system="standard")
    coloured.print(bench_table([Figure("slow", "x/s", 2.0, (1.0,)), Figure("fast", "x/s", 2.0, (3.0,))], 1))
    red = [line for line in printed.getvalue().splitlines() if "\x1b[31m" in line]
    assert ["slow" in line for line in red] == [True]
