import sysconfig
from datetime import date
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from tests.bench.command import MEASUREMENTS, RATIOS
from tests.bench.figure import Figure
from tests.bench.tables import (
    BEGIN,
    END,
    bench_table,
    fill_page,
    machine_text,
    notes_on_missing,
    page_text,
    print_bench,
)
from tornlog.reports.studies.closed_loop import Latency


def printed_lines(figures: list[Figure]) -> list[str]:
    printed = StringIO()
    print_bench(Console(file=printed, width=80), figures, 3)
    return [line.rstrip() for line in printed.getvalue().splitlines()]


def test_a_table_shows_rates_floors_and_latencies() -> None:
    latencies = (Latency(8.4, 36.0, 25_990.0),)
    lines = printed_lines(
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


def test_without_timed_calls_there_is_no_latency_table() -> None:
    lines = printed_lines([Figure("sheep counted", "sheep/s", None, (90.0,))])
    assert lines[0] == "medians of 3"
    assert "p99" not in "".join(lines)


def test_every_figure_fits_one_line_of_80_columns() -> None:
    figures = [Figure(one.name, one.unit, one.floor, (1_234_567.0,)) for one in MEASUREMENTS]
    figures += [Figure(one.name, "messages/s", one.floor, (1_234_567.0,)) for one in RATIOS]
    lines = printed_lines(figures)
    assert len(lines) == 5 + len(figures) + len(notes_on_missing())
    assert lines[-1] == machine_text()


def test_a_figure_below_its_floor_is_highlighted() -> None:
    printed = StringIO()
    coloured = Console(file=printed, width=80, force_terminal=True, color_system="standard")
    coloured.print(bench_table([Figure("slow", "x/s", 2.0, (1.0,)), Figure("fast", "x/s", 2.0, (3.0,))], 1))
    red = [line for line in printed.getvalue().splitlines() if "\x1b[31m" in line]
    assert ["slow" in line for line in red] == [True]


def test_a_page_begins_with_its_date_and_the_figures_of_the_machine() -> None:
    figures = [
        Figure("sheep counted", "sheep/s", 100.0, (90.0,)),
        Figure("kernel steps", "steps/s", None, (2.0,)),
        Figure("memory: copy", "MB/s", None, (9_000.5,)),
    ]
    lines = page_text(figures, 3, date(2026, 11, 24)).splitlines()

    assert lines[0].startswith("2026-11-24: ")
    assert machine_text() in lines[0]
    assert lines[0].endswith("; medians of 3.")
    assert lines[4:] == [
        "| kernel steps | 2 | 2 | 2 |  | steps/s |",
        "| memory: copy | 9,000 | 9,000 | 9,000 |  | MB/s |",
        "| sheep counted * | 90 | 90 | 90 | 100 | sheep/s |",
    ]


def test_new_figures_replace_earlier_ones_and_the_rest_of_the_page_stays(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    fill_page(page, "old")
    page.write_text(f"# Head\n{page.read_text()}tail\n")
    fill_page(page, "new")
    assert page.read_text() == f"# Head\n{BEGIN}\n\nnew\n{END}\ntail\n"
    page.write_text(f"# Head\n{BEGIN}\n")
    with pytest.raises(ValueError, match=r"expected .* and behind it"):
        fill_page(page, "newer")


@pytest.mark.parametrize(("options", "said"), [("'--enable-optimizations'", "with"), (None, "without")])
def test_the_machine_description_has_the_build_of_python(
    options: str | None, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sysconfig, "get_config_var", lambda name: options)
    assert f"built {said} --enable-optimizations" in machine_text()
