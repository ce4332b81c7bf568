"""Tables of figures: on a console, and as a dated page.

Machines of one kind differ by a factor of two from day to day. So the page begins with figures of the machine itself:
the cost of a kernel step, a copy in memory and a sync on that day. They make pages of two days comparable.
"""

import os
import platform
import sysconfig
from collections.abc import Sequence
from datetime import date
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tornlog.reports.cli.console import plain_table
from tornlog.store.real.native import load_core

from .figure import Figure
from .real_store import why_missing
from .recorded_programs import PROGRAMS, missing_tool
from .recorder import why_no_strace

CALIBRATION = ("kernel steps", "memory: copy", "disk: sequential write", "disk: fdatasync of 4 KiB")
"""Figures of the machine, not of this code, except the first, which is pure Python."""
BEGIN, END = "<!-- figures of tests.bench -->", "<!-- end of figures -->"
"""Marks around the figures on a page; the rest of the page stays as it is."""
_OPTIMISED = "--enable-optimizations"
_HEADER = "| what | median | least | most | limit | unit |\n| --- | --: | --: | --: | --: | --- |\n"


def print_bench(console: Console, figures: Sequence[Figure], rounds: int) -> None:
    """Print the rates, then the durations of single calls."""
    console.print(bench_table(figures, rounds))
    for note in notes_on_missing():
        console.print(note, soft_wrap=True)
    if any(figure.latency for figure in figures):
        console.print()
        console.print(latency_table(figures))
    console.print()
    console.print(machine_text(), soft_wrap=True)


def notes_on_missing() -> list[str]:
    """Return a sentence for each group of figures that cannot be measured here."""
    notes = [f"the real store was not measured: {why_missing()}"] if why_missing() else []
    if why_no_strace():
        notes.append(f"recording was not measured beside strace: {why_no_strace()}")
    tools = {name: missing_tool(name) for name in PROGRAMS}
    return notes + [f"{name} was not recorded: {tool} is not on the PATH" for name, tool in tools.items() if tool]


def bench_table(figures: Sequence[Figure], rounds: int) -> Table:
    """Return one row per figure, red if it misses its limit; the title shows the load of the machine."""
    table = plain_table(_title(figures, rounds), ("what",), ("median", "least", "most", "limit", "unit"))
    for figure in figures:
        style = "red" if figure.is_missed else ""
        table.add_row(*_row(figure), style=style)
    return table


def _title(figures: Sequence[Figure], rounds: int) -> str:
    loads = [load for figure in figures for load in figure.loads]
    busy = f", load average {min(loads):.1f} to {max(loads):.1f}" if loads else ""
    return f"medians of {rounds}{busy}"


def _row(figure: Figure) -> tuple[str, ...]:
    rates = (figure.median, min(figure.samples), max(figure.samples))
    limit = "" if figure.floor is None else rate_text(figure.floor)
    if figure.ceiling is not None:
        limit = f"< {rate_text(figure.ceiling)}"
    return figure.name, *map(rate_text, rates), limit, figure.unit


def latency_table(figures: Sequence[Figure]) -> Table:
    """Return one row per figure with timed calls, in µs."""
    title = "µs a call: medians of p50 and p99, the longest of all"
    table = plain_table(title, ("what",), ("p50", "p99", "max"))
    for figure in figures:
        if figure.latency is not None:
            table.add_row(figure.name, *(f"{one:,.0f}" for one in figure.latency))
    return table


def rate_text(rate: float) -> str:
    """Return a rate rounded to its significant digits."""
    return f"{rate:,.0f}" if rate >= 100 or rate.is_integer() else f"{rate:,.2f}"


def machine_text() -> str:
    """Return the environment of the figures: processors, Python and its build, and whether the core is in C.

    Only a build option proves a profile-optimised Python; some are optimised without showing it.
    """
    options = sysconfig.get_config_var("CONFIG_ARGS") or ""
    built = f"built {'with' if _OPTIMISED in options else 'without'} {_OPTIMISED}"
    core = "core in C" if load_core() is not None else "pure Python"
    python = f"{platform.python_implementation()} {platform.python_version()}"
    return f"{os.cpu_count()} processors, {platform.machine()}; {python}, {built}; {core}"


def page_text(figures: Sequence[Figure], rounds: int, day: date) -> str:
    """Return the figures as a Markdown table with a date, the machine's own first; a star marks a missed limit."""
    front = [figure for name in CALIBRATION for figure in figures if figure.name == name]
    rest = [figure for figure in figures if figure not in front]
    rows = []
    for figure in (*front, *rest):
        what, *values = _row(figure)
        mark = " *" if figure.is_missed else ""
        rows.append(f"| {' | '.join((what + mark, *values))} |\n")
    return f"{day.isoformat()}: {machine_text()}; {_title(figures, rounds)}.\n\n{_HEADER}{''.join(rows)}"


def fill_page(path: Path, text: str) -> None:
    """Put a text between the two marks of a page. A page without marks, or a missing page, becomes the text alone.

    ValueError if only one of the marks exists.
    """
    marked = f"{BEGIN}\n\n{text}\n{END}"
    before = path.read_text() if path.exists() else ""
    if BEGIN not in before and END not in before:
        path.write_text(f"{marked}\n")
        return
    head, begin, left = before.partition(BEGIN)
    _, end, tail = left.partition(END)
    if not begin or not end:
        raise ValueError(f"{path}: expected {BEGIN} and behind it {END}")
    path.write_text(f"{head}{marked}{tail}")
