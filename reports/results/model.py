"""Result model: describes the result of a command, for all writers.

A command builds one result, and five writers read only this result.

    Result      the verdict, the exit code, the figures, and the fields of `--json`
      ResultBlock     ResultTable, Bars, Matrix, Failures, Lines or Picture; `on` lists the writers that show the block
      Case      a test case of JUnit XML, with its properties

Each count of a seed is declared once, as a field of `RunOutcome` (`counted`), from which all writers and the columns of
a sweep are derived.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, Flag, auto
from math import log1p
from types import MappingProxyType
from typing import Any, NamedTuple

from ...faults.simulation.failure_text import FailureText


class Tone(Enum):
    """The rating of a verdict or a text. UNSURE: neither HELD nor BROKEN."""

    HELD = "held"
    BROKEN = "broken"
    UNSURE = "unsure"


class On(Flag):
    """The writers that show a block."""

    TERMINAL = auto()
    VERBOSE = auto()
    """The terminal, with --verbose or for commands without this option."""
    ALARM = auto()
    """The terminal; standard error if standard output contains JSON."""
    STDERR = auto()
    SUMMARY = auto()
    PAGE = auto()


class Verdict(NamedTuple):
    """The verdict for a page."""

    tone: Tone
    text: str
    more: tuple[str, ...] = ()


class TableCell(NamedTuple):
    """A table cell that contains more than a value."""

    value: str | int
    small: str = ""
    """Text that a page shows below the value."""
    link: str = ""
    """Anchor on the page to which the value links."""
    links: Sequence[tuple[str, str]] = ()
    is_bad: bool = False

    @property
    def text(self) -> str:
        return f"{self.value:,}" if isinstance(self.value, int) else self.value


class Row(NamedTuple):
    """A row of a table. The first cell is its name."""

    cells: Sequence[str | int | TableCell]
    is_bad: bool = False
    is_open: bool = False
    """Whether the work of this row was not done."""

    @property
    def full_cells(self) -> list[TableCell]:
        return [one if isinstance(one, TableCell) else TableCell(one) for one in self.cells]


@dataclass(frozen=True, slots=True)
class ResultBlock:
    """A part of a result, such as a table."""

    title: str
    on: On = On.PAGE
    anchor: str = ""
    """If set, the block starts a section of the page with this anchor."""
    note: str = ""
    is_folded: bool = field(default=False, kw_only=True)
    """Whether a page hides the block until a reader clicks its title."""

    @property
    def kind(self) -> str:
        return type(self).__name__

    @property
    def is_empty(self) -> bool:
        return False


@dataclass(frozen=True, slots=True)
class ResultTable(ResultBlock):
    """Columns of text (`texts`), then columns of numbers (`figures`)."""

    texts: Sequence[str] = ()
    figures: Sequence[str] = ()
    rows: Sequence[Row] = ()
    only_bad: bool = False
    """Whether a page hides rows without problems until a click, and a terminal without --verbose omits them."""
    is_stacked: bool = False
    """Whether a terminal shows the other text columns below the first, because rows exceed 80 columns."""
    is_titled: bool = False
    folded_as: tuple[str, str] = ("row", "rows")
    """Noun for the hidden rows, in singular and plural."""

    def __post_init__(self) -> None:
        width = len(self.texts) + len(self.figures)
        assert all(row.is_open or len(row.cells) == width for row in self.rows), f"{self.title}: rows of {width} cells"

    @property
    def shown_rows(self) -> Sequence[Row]:
        return [row for row in self.rows if row.is_bad or row.is_open] if self.only_bad else self.rows

    @property
    def folded_rows(self) -> Sequence[Row]:
        return [row for row in self.rows if not (row.is_bad or row.is_open)] if self.only_bad else ()

    @property
    def is_empty(self) -> bool:
        return not self.rows


class Bar(NamedTuple):
    """The number of times a fault or mark occurred. percent: logarithmic length relative to the longest bar."""

    name: str
    meaning: str
    times: int
    percent: int


class NeverOccurred(NamedTuple):
    """A fault or mark that never occurred."""

    name: str
    meaning: str


class Group(NamedTuple):
    """A group of bars, such as all faults."""

    title: str
    bars: Sequence[Bar]
    never: Sequence[NeverOccurred]
    noun: str = "others"


@dataclass(frozen=True, slots=True)
class Bars(ResultBlock):
    """Counts drawn as bars."""

    groups: Sequence[Group] = ()

    @property
    def is_empty(self) -> bool:
        return not self.groups


def bar_group(
    title: str, counts: Mapping[str, int], known: Mapping[str, str] = MappingProxyType({}), noun: str = "others"
) -> Group:
    """known: name -> meaning. The group lists the names that never occurred."""
    most = max(counts.values(), default=0)
    bars = [
        Bar(name, known.get(name, ""), times, round(100 * log1p(times) / log1p(most)))
        for name, times in sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
        if times
    ]
    assert all(0 < bar.percent <= 100 for bar in bars), bars
    never = [NeverOccurred(name, meaning) for name, meaning in known.items() if not counts.get(name)]
    return Group(title, bars, never, noun)


class MatrixCell(NamedTuple):
    """The verdict on one promise on one disk. state: held, intact, broken, none (not promised), untried, unjudged."""

    state: str
    seeds: int
    """Number of seeds that checked the promise after a fault that can break it."""
    broken: int


class MatrixRow(NamedTuple):
    """The verdicts on one promise."""

    name: str
    meaning: str
    cells: Sequence[MatrixCell]


class MatrixColumn(NamedTuple):
    """A disk, with its number of seeds with a verdict."""

    name: str
    meaning: str
    seeds: int


@dataclass(frozen=True, slots=True)
class Matrix(ResultBlock):
    """A row for each promise and a column for each disk."""

    columns: Sequence[MatrixColumn] = ()
    rows: Sequence[MatrixRow] = ()

    @property
    def broken_rows(self) -> list[MatrixRow]:
        return [row for row in self.rows if any(cell.broken for cell in row.cells)]

    @property
    def kept_rows(self) -> list[MatrixRow]:
        return [row for row in self.rows if not any(cell.broken for cell in row.cells)]


class FailureGroup(NamedTuple):
    """Failures under one optional heading of a page."""

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
    """Number of failure groups that a page shows open."""

    @property
    def is_empty(self) -> bool:
        return not any(group.failures for group in self.groups)


@dataclass(frozen=True, slots=True)
class Lines(ResultBlock):
    """Lines of text. is_text: whether a program has printed them."""

    lines: Sequence[str] = ()
    is_text: bool = False
    style: str = ""
    """Terminal style of the title, or of the lines of a program."""

    @property
    def is_empty(self) -> bool:
        return not self.lines


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture(ResultBlock):
    """A picture, with the note below it."""

    draw: Callable[[], str]
    """Returns the picture as SVG. Raises ImportError without matplotlib."""


class Outcome(NamedTuple):
    """A test case that did not pass. tag: failure, error or skipped."""

    tag: str
    kind: str
    message: str
    text: str = ""


class Case(NamedTuple):
    """A test case of JUnit XML."""

    name: str
    seconds: float = 0.0
    properties: Mapping[str, object] = MappingProxyType({})
    outcomes: Sequence[Outcome] = ()
    system_out: str = ""


@dataclass(frozen=True, slots=True)
class Result:
    """The result of a command."""

    command: str
    headline: str
    verdict: Verdict
    exit_code: int
    document: Any
    """The fields of `--json`."""
    line: str = ""
    """The command line."""
    facts: Sequence[tuple[str, str]] = ()
    """Figures of the result: name and value."""
    blocks: Sequence[ResultBlock] = ()
    cases: Sequence[Case] = ()
    seconds: float | None = None
    """Total time, if it differs from the sum over all cases."""
    subject: str = ""
    """Text that a page shows after the name of the command."""
    last_line: str = ""
    """The last line on the terminal, if it is not the headline."""

    def __post_init__(self) -> None:
        is_page_only = self.command in ("sweep", "analyze")
        assert self.verdict.tone is not Tone.BROKEN or self.exit_code or is_page_only, self.verdict
