"""Markdown writer: appends a summary to a file such as GITHUB_STEP_SUMMARY."""

from collections.abc import Iterator
from pathlib import Path

from ...faults.simulation.failure_text import FailureText, LineKind, plain_text
from ..quantities import count_text
from .model import Bars, Failures, Lines, On, Result, ResultTable, Row

_FENCE = "~~~~"
_LINES_MAX = 20


def append_summary(file: Path, result: Result) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("a", encoding="utf-8") as page:
        page.writelines(f"{line}\n" for line in _markdown_lines(result))


def _markdown_lines(result: Result) -> Iterator[str]:
    yield f"### tornlog {result.command}: {result.headline}"
    if result.line:
        yield from _code_block(result.line)
    yield from (", ".join(f"{name} {value}" for name, value in result.facts), "")
    for block in result.blocks:
        if block.is_empty or not block.on & On.SUMMARY:
            continue
        match block:
            case ResultTable():
                yield from _table_lines(block)
            case Bars():
                yield from _bars_lines(block)
            case Lines():
                yield from (f"#### {block.title}", *_code_block("\n".join(block.lines[-_LINES_MAX:])))
            case Failures():
                for group in block.groups:
                    for failure in group.failures:
                        yield from _failure_lines(failure)
                if block.note:
                    yield from (block.note, "")


def _table_lines(block: ResultTable) -> Iterator[str]:
    yield f"| {' | '.join((*block.texts, *block.figures))} |".replace("\n", " ")
    yield f"| {' | '.join([*['---'] * len(block.texts), *['---:'] * len(block.figures)])} |"
    yield from map(_row_line, block.rows)
    yield ""


def _row_line(row: Row) -> str:
    name, *texts = (one.text.replace("\n", " ") for one in row.full_cells)
    return f"| {' | '.join([f'**{name}**' if row.is_bad else name, *texts])} |"


def _bars_lines(block: Bars) -> Iterator[str]:
    for group in block.groups:
        total = sum(bar.times for bar in group.bars)
        yield from (f"<details><summary>{group.title}: {total:,}, {count_text(len(group.bars), 'kind')}</summary>", "")
        if group.bars:
            yield from ("| kind | times |", "| --- | ---: |")
            yield from (f"| {bar.name} | {bar.times:,} |" for bar in group.bars)
            yield ""
        if group.never:
            yield from (f"Never: {', '.join(one.name for one in group.never)}.", "")
        yield from ("</details>", "")


def _failure_lines(failure: FailureText) -> Iterator[str]:
    first = next((line.text for line in failure.lines if line.kind is LineKind.TEXT), "")
    yield f"#### {failure.title}{f': {first}' if failure.about else ''}"
    if failure.again:
        yield from _code_block(failure.again)
    yield from ("<details><summary>What happened</summary>", *_code_block(plain_text(failure)), "</details>", "")


def _code_block(text: str) -> Iterator[str]:
    yield from ("", _FENCE, text, _FENCE, "")
