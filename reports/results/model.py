"""Result model: a verdict, figures, blocks and test cases. A command builds it once; five writers know only this.

    Result      the verdict, its exit code, the figures, and the fields of `--json`
      ResultBlock     ResultTable, Bars, Matrix, Failures, Lines or Picture; `on` says which writers show it
      Case      a test case of JUnit XML, with its properties

A count of a seed is declared once, as a field of `RunOutcome` (`counted`). All writers and the sweep's columns follow.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, Flag, auto
from math import log1p
from types import MappingProxyType
from typing import Any, NamedTuple

from ...faults.simulation.failure_text import FailureText


class Tone(Enum):
    """How good the news is; neither held nor broken is UNSURE."""

    HELD = "held"
    BROKEN = "broken"
    UNSURE = "unsure"


class On(Flag):
    """The writers that show a block."""

    TERMINAL = auto()
    VERBOSE = auto()
    """The terminal with --verbose; of commands without that option, the terminal."""
    ALARM = auto()
    """Standard error, where standard output is taken by JSON; else the terminal."""
    STDERR = auto()
    """Standard error, always."""
    SUMMARY = auto()
    PAGE = auto()


class Verdict(NamedTuple):
    """The verdict as a page has it, with more lines."""

    tone: Tone
    text: str
    more: tuple[str, ...] = ()


class TableCell(NamedTuple):
    """A cell of a table with more than its value."""

    value: str | int
    small: str = ""
    """A text below the value, on a page."""
    link: str = ""
    """The place on the page that the value leads to."""
    links: Sequence[tuple[str, str]] = ()
    is_bad: bool = False

    @property
    def text(self) -> str:
        return f"{self.value:,}" if isinstance(self.value, int) else self.value


class Row(NamedTuple):
    """A row of a table. The first cell names it."""

    cells: Sequence[str | int | TableCell]
    is_bad: bool = False
    is_open: bool = False
    """Whether the work of the row was not done."""

    @property
    def full_cells(self) -> list[TableCell]:
        return [one if isinstance(one, TableCell) else TableCell(one) for one in self.cells]


@dataclass(frozen=True, slots=True)
class ResultBlock:
    """A part of a result."""

    title: str
    on: On = On.PAGE
    anchor: str = ""
    """Begins a section of a page."""
    note: str = ""
    is_folded: bool = field(default=False, kw_only=True)
    """Whether a page shows only the title until a reader opens the block."""

    @property
    def kind(self) -> str:
        """Return the name of the block's class, for the template."""
        return type(self).__name__

    @property
    def is_empty(self) -> bool:
        return False


@dataclass(frozen=True, slots=True)
class ResultTable(ResultBlock):
    """Rows with typed columns: `texts` first, then `figures`."""

    texts: Sequence[str] = ()
    figures: Sequence[str] = ()
    rows: Sequence[Row] = ()
    only_bad: bool = False
    """Whether only bad rows are shown: a page folds the others, a terminal leaves them out without --verbose."""
    is_stacked: bool = False
    """Whether a terminal has the further texts below the first, for rows that are longer than 80 columns."""
    is_titled: bool = False
    """Whether a terminal shows the title."""
    folded_as: tuple[str, str] = ("row", "rows")
    """Words for the folded rows, in singular and plural."""

    def __post_init__(self) -> None:
        width = len(self.texts) + len(self.figures)
        assert all(row.is_open or len(row.cells) == width for row in self.rows), f"{self.title}: rows of {width} cells"

    @property
    def shown_rows(self) -> Sequence[Row]:
        """Return the rows that a page always shows."""
        return [row for row in self.rows if row.is_bad or row.is_open] if self.only_bad else self.rows

    @property
    def folded_rows(self) -> Sequence[Row]:
        return [row for row in self.rows if not (row.is_bad or row.is_open)] if self.only_bad else ()

    @property
    def is_empty(self) -> bool:
        """Return whether there are no rows."""
        return not self.rows


class Bar(NamedTuple):
    """How often one thing occurred; percent: of the longest bar, by logarithm."""

    name: str
    meaning: str
    times: int
    percent: int


class Never(NamedTuple):
    """A thing that never occurred."""

    name: str
    meaning: str


class Group(NamedTuple):
    """Things of one sort."""

    title: str
    bars: Sequence[Bar]
    never: Sequence[Never]
    noun: str = "others"
    """The things in one word."""


@dataclass(frozen=True, slots=True)
class Bars(ResultBlock):
    """Counts as bars."""

    groups: Sequence[Group] = ()

    @property
    def is_empty(self) -> bool:
        """Return whether there are no groups."""
        return not self.groups


def bar_group(
    title: str, counts: Mapping[str, int], known: Mapping[str, str] = MappingProxyType({}), noun: str = "others"
) -> Group:
    """Return counts as bars. known: the meanings of all things that can occur; those that did not are named."""
    most = max(counts.values(), default=0)
    bars = [
        Bar(name, known.get(name, ""), times, round(100 * log1p(times) / log1p(most)))
        for name, times in sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
        if times
    ]
    assert all(0 < bar.percent <= 100 for bar in bars), bars
    never = [Never(name, meaning) for name, meaning in known.items() if not counts.get(name)]
    return Group(title, bars, never, noun)


class MatrixCell(NamedTuple):
    """One promise on one disk. state: held, intact, broken, none (not promised), untried, unjudged."""

    state: str
    seeds: int
    """Seeds that reached the check with something that could break the promise."""
    broken: int


class MatrixRow(NamedTuple):
    """One promise."""

    name: str
    meaning: str
    cells: Sequence[MatrixCell]


class MatrixColumn(NamedTuple):
    """One disk, and the seeds judged there."""

    name: str
    meaning: str
    seeds: int


@dataclass(frozen=True, slots=True)
class Matrix(ResultBlock):
    """Promises by disk."""

    columns: Sequence[MatrixColumn] = ()
    rows: Sequence[MatrixRow] = ()

    @property
    def broken_rows(self) -> list[MatrixRow]:
        """Return the promises that broke on any disk."""
        return [row for row in self.rows if any(cell.broken for cell in row.cells)]

    @property
    def kept_rows(self) -> list[MatrixRow]:
        """Return the other promises."""
        return [row for row in self.rows if not any(cell.broken for cell in row.cells)]


class FailureGroup(NamedTuple):
    """Failures with something in common, under a heading if there is one."""

    failures: Sequence[FailureText]
    anchor: str = ""
    title: str = ""
    about: str = ""
    notes: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Failures(ResultBlock):
    """Broken promises."""

    groups: Sequence[FailureGroup] = ()
    opened: int = 3
    """How many groups a page opens."""

    @property
    def is_empty(self) -> bool:
        return not any(group.failures for group in self.groups)


@dataclass(frozen=True, slots=True)
class Lines(ResultBlock):
    """Lines of text. With `is_text`, they are output of a program."""

    lines: Sequence[str] = ()
    is_text: bool = False
    style: str = ""
    """Of the title, or of the lines of a program."""

    @property
    def is_empty(self) -> bool:
        return not self.lines


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture(ResultBlock):
    """A picture. The note is below it."""

    draw: Callable[[], str]
    """Returns it as SVG. Raises ImportError without matplotlib."""


class Outcome(NamedTuple):
    """The outcome of a test case. tag: failure, error or skipped."""

    tag: str
    kind: str
    message: str
    text: str = ""


class Case(NamedTuple):
    """A test case."""

    name: str
    seconds: float = 0.0
    properties: Mapping[str, object] = MappingProxyType({})
    outcomes: Sequence[Outcome] = ()
    said: str = ""


@dataclass(frozen=True, slots=True)
class Result:
    """The result of a command."""

    command: str
    """The name of the command."""
    headline: str
    """The verdict in one line."""
    verdict: Verdict
    exit_code: int
    document: Any
    """The fields of `--json`."""
    line: str = ""
    """The command line."""
    facts: Sequence[tuple[str, str]] = ()
    """Figures: their meaning, and their value."""
    blocks: Sequence[ResultBlock] = ()
    cases: Sequence[Case] = ()
    seconds: float | None = None
    """The time of all cases, if that is not their sum."""
    subject: str = ""
    """Words that a page adds to the name of the command."""

    def __post_init__(self) -> None:
        is_page_only = self.command in ("sweep", "analyze")
        assert self.verdict.tone is not Tone.BROKEN or self.exit_code or is_page_only, self.verdict
