"""Terminal writer: prints the verdict, tables of up to 80 columns, failures, file paths, and the verdict again.

If standard output contains JSON, only alarms are printed, on standard error.
"""

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console, Group, RenderableType
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table as RichTable

from ...faults.simulation.failure_text import print_failure
from ...faults.simulation.prose import print_line
from ..cli.console import ERR, OUT, plain_table, print_paths
from .model import Bars, Failures, Lines, On, Result, ResultBlock, ResultTable, Row, TableCell


def print_result(result: Result, json_file: str | None, paths: Sequence[Path] = (), *, verbose: bool = False) -> None:
    is_shown = json_file != "-"
    wanted = On.ALARM
    if is_shown:
        wanted |= On.VERBOSE if verbose else On.TERMINAL
        OUT.print(result.headline, markup=False, soft_wrap=True)
    if is_shown and verbose and result.facts:
        print_line(OUT, 2, ", ".join(f"{name} {value}" for name, value in result.facts))
    blocks = [block for block in result.blocks if not block.is_empty]
    for block in blocks:
        if block.on & wanted:
            print_block(OUT if is_shown else ERR, block, verbose=verbose)
        elif block.on & On.STDERR:
            print_block(ERR, block)
    if is_shown:
        print_paths(paths)
    if is_shown and (result.last_line or any(block.on & wanted for block in blocks)):
        OUT.print(result.last_line or result.headline, markup=False, soft_wrap=True)


def print_block(console: Console, block: ResultBlock, *, verbose: bool = False) -> None:
    match block:
        case ResultTable():
            _print_table(console, block, verbose=verbose)
        case Bars():
            _print_bars(console, block)
        case Lines():
            _print_lines(console, block)
        case Failures():
            for failure in (one for group in block.groups for one in group.failures):
                print_failure(console, failure)
            if block.groups and block.note:
                console.print(f"\n{block.note}", markup=False, soft_wrap=True)


def _print_table(console: Console, block: ResultTable, *, verbose: bool) -> None:
    rows = [row for row in block.rows if verbose or row.is_bad or not block.only_bad]
    if rows:
        if block.note and not block.on & On.PAGE:
            print_line(console, 0, block.note)
        console.print(_rich_table(block, rows))
    if block.is_stacked and len(rows) < len(block.rows):
        left_out = len(block.rows) - len(rows)
        console.print(f"{left_out:,} more {block.title.lower()}: --verbose shows them", soft_wrap=True)


def _rich_table(block: ResultTable, rows: Sequence[Row]) -> RichTable:
    title = f"\n{block.title}" if block.is_titled else ""
    table = plain_table(title, block.texts[:1] if block.is_stacked else block.texts, block.figures)
    if block.is_stacked:
        table.columns[0].no_wrap, table.columns[0].overflow = False, "fold"  # a path may be longer than a line
        for column in table.columns[1:]:
            column.no_wrap = True
    for row in rows:
        cells = row.full_cells
        texts, figures = cells[: len(block.texts)], cells[len(block.texts) :]
        shown = [_stacked(texts)] if block.is_stacked else [escape(one.text) for one in texts]
        style = "red" if row.is_bad else "yellow" if row.is_open else ""
        table.add_row(*shown, *(escape(one.text) for one in figures), style=style)
    return table


def _stacked(texts: Sequence[TableCell]) -> RenderableType:
    """Return texts one below the other in one cell. Lines after the first, also wrapped ones, are indented."""
    first, *others = (escape(one.text) for one in texts if one.text)
    return Group(first, *(Padding(one, (0, 0, 0, 2)) for one in others))


def _print_bars(console: Console, block: Bars) -> None:
    for group in block.groups:
        table = plain_table("", ("",), ("",))
        table.show_header = False
        for bar in group.bars:
            table.add_row(escape(bar.name), f"{bar.times:,}")
        if group.bars:
            console.print(f"\n{group.title}", markup=False)
            console.print(table)
        if group.never:
            print_line(console, 2, f"{group.noun} that never occurred: {', '.join(one.name for one in group.never)}")


def _print_lines(console: Console, block: Lines) -> None:
    if block.lines and block.title:
        console.print(f"\n{block.title}:", style=block.style, markup=False, soft_wrap=True)
    for line in block.lines:
        if block.is_text:
            console.print(line, style=block.style, markup=False, soft_wrap=True)
        else:
            text = line.lstrip(" ")
            print_line(console, len(line) - len(text) + (2 if block.title else 0), text)
