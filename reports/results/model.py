"""Result model: describes a command's result by verdict, figures, blocks and test cases.

A command builds a result once, and five writers use nothing else.

    Result      the verdict, its exit code, the figures, and the fields of `--json`
      ResultBlock     ResultTable, Bars, Matrix, Failures, Lines or Picture; `on` tells which writers show the block
      Case      a test case of JUnit XML, with its properties

Each count of a seed is declared once, as a field of `RunOutcome` (`counted`). All writers and the columns of a sweep
are derived from these fields.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, Flag, auto
from math import log1p
from types import MappingProxyType
from typing import Any, NamedTuple

from ...faults.simulation.failure_text import FailureText


class Tone(Enum):
    """Rating of a verdict or a text. UNSURE is neither HELD nor BROKEN."""

    HELD = "held"
    BROKEN = "broken"
    UNSURE = "unsure"


class On(Flag):
    """The writers that show a block."""

    TERMINAL = auto()
    VERBOSE = auto()
    """The terminal, if --verbose is set or the command has no such option."""
    ALARM = auto()
    """The terminal, or standard error if JSON is written to standard output."""
    STDERR = auto()
    SUMMARY = auto()
    PAGE = auto()


class Verdict(NamedTuple):
    """The verdict for a page: a tone, a title and further lines."""

    tone: Tone
    text: str
    more: tuple[str, ...] = ()


class TableCell(NamedTuple):
    """A table cell that contains more than a value."""

    value: str | int
    small: str = ""
    """A page shows this text below the value."""
    link: str = ""
    """The anchor on the page to which the value links."""
    links: Sequence[tuple[str, str]] = ()
    is_bad: bool = False

    @property
    def text(self) -> str:
        return f"{self.value:,}" if isinstance(self.value, int) else self.value


class Row(NamedTuple):
    """The first cell of a row is its name."""

    cells: Sequence[str | int | TableCell]
    is_bad: bool = False
    is_open: bool = False
    """Whether the work of the row was not done."""

    @property
    def full_cells(self) -> list[TableCell]:
        return [one if isinstance(one, TableCell) else TableCell(one) for one in self.cells]


@dataclass(frozen=True, slots=True)
class ResultBlock:
    """A part of a result, such as a table."""

    title: str
    on: On = On.PAGE
    anchor: str = ""
    """If set, the block begins a section of the page, with this anchor."""
    note: str = ""
    is_folded: bool = field(default=False, kw_only=True)
    """Whether a page hides the block below its title until a reader opens the block."""

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
    """Whether a page folds the rows that are not bad, and a terminal shows them only with --verbose."""
    is_stacked: bool = False
    """Whether a terminal shows the other texts below the first, because the rows exceed 80 columns."""
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
    """The occurrences of a fault or mark. percent: logarithmic length relative to the longest bar."""

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
    """known: the meanings of all names; the group lists the names that never occurred."""
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
    """The verdict on one promise for one disk. state: held, intact, broken, none (not promised), untried, unjudged."""

    state: str
    seeds: int
    """Number of seeds that checked the promise after a fault that could break it."""
    broken: int


class MatrixRow(NamedTuple):
    """The verdicts on one promise."""

    name: str
    meaning: str
    cells: Sequence[MatrixCell]


class MatrixColumn(NamedTuple):
    """One disk, and the number of seeds with a verdict on that disk."""

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
    """Failures that a page shows together, with an optional heading."""

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
    """Number of groups of failures that a page shows opened."""

    @property
    def is_empty(self) -> bool:
        return not any(group.failures for group in self.groups)


@dataclass(frozen=True, slots=True)
class Lines(ResultBlock):
    """Lines of text. `is_text` marks the output of a program."""

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
    said: str = ""


@dataclass(frozen=True, slots=True)
class Result:
    """The result of a command."""

    command: str
    headline: str
    """The verdict in one line."""
    verdict: Verdict
    exit_code: int
    document: Any
    """The fields of `--json`."""
    line: str = ""
    """The command line."""
    facts: Sequence[tuple[str, str]] = ()
    """Figures of the result: meaning and value."""
    blocks: Sequence[ResultBlock] = ()
    cases: Sequence[Case] = ()
    seconds: float | None = None
    """The time of all cases, if it differs from the sum of their times."""
    subject: str = ""
    """Text that a page shows after the name of the command."""
    last_line: str = ""
    """The last line on the terminal, if it is not the headline."""

    def __post_init__(self) -> None:
        is_page_only = self.command in ("sweep", "analyze")
        assert self.verdict.tone is not Tone.BROKEN or self.exit_code or is_page_only, self.verdict
