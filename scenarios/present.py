"""How results read on a terminal: the tables, and the telling of a failure.

Everything fits 80 columns. In a pipe, prose is not wrapped: lines there are for grep.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from io import StringIO

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from ..faults.kinds import FAULTS
from ..faults.profiles import CrashProfile
from .failures.failure import Failure
from .hunt import Hunted
from .judging.evidence import Violation
from .marks import MARKS
from .mutants.systematic.survivors import SURVIVORS
from .plan import MOMENTS
from .runner import ALL, Reach, Tally

VIOLATIONS_TOLD, STORY_TOLD = 3, 10
SIZE_TOLD = ("messages", "preemptions", "sectors")


def runs_table(tallies: Iterable[Tally], seconds: float, reach: Reach = ALL) -> Table:
    """Return one row a scenario: what ran, what was thrown at it, what broke; and those that were not run."""
    rows = list(tallies)
    seeds = sum(tally.seeds for tally in rows)
    table = plain_table(
        f"{seeds:,} seed{'' if seeds == 1 else 's'} in {seconds:.1f} s: {verdict_of(rows, reach)}",
        ("scenario",),
        ("seeds", "crash\npoints", "fired", "violations"),
    )
    for tally in rows:
        broken = tally.violations + len(tally.errors) + len(tally.nondeterministic)
        table.add_row(
            tally.scenario.name,
            f"{tally.seeds:,}",
            f"{tally.crash_points:,}",
            f"{faults_of(tally.fired).total():,}",
            f"{broken:,}",
            style="red" if broken else "",
        )
    for name in reach.not_run:
        table.add_row(name, "not run", "-", "-", "-", style="yellow")
    return table


def verdict_of(tallies: Sequence[Tally], reach: Reach = ALL) -> str:
    """Return what campaigns came to, in a few words: what broke, and what was never run."""
    counts = (
        (sum(tally.violations for tally in tallies), "broken"),
        (sum(len(tally.nondeterministic) for tally in tallies), "not deterministic"),
        (sum(len(tally.errors) for tally in tallies), "lost to errors of the harness"),
    )
    words = [f"{count:,} {what}" for count, what in counts if count]
    if not words:
        words.append("every promise held" if reach == ALL else "no promise broken")
    return ", ".join([*reach_words(reach, "scenario"), *words])


def reach_words(reach: Reach, what: str) -> list[str]:
    """Return what a verdict begins with if not all was run."""
    words = ["interrupted"] if reach.interrupted else []
    return [*words, f"{len(reach.not_run)} of {reach.asked} {what}s not run"] if reach.not_run else words


def tell_fired(console: Console, tallies: Iterable[Tally]) -> None:
    """Print how often each fault, each kind of end and each mark came about, and which never did."""
    fired: Counter[str] = Counter()
    marks: Counter[str] = Counter()
    for tally in tallies:
        fired += tally.fired
        marks += tally.marks
    table = Table(title="what fired", title_justify="left", show_header=False, box=box.SIMPLE)
    table.add_column(no_wrap=True)
    table.add_column(justify="right")
    for counts in (faults_of(fired), ends_of(fired), marks):
        for kind, times in counts.most_common():
            table.add_row(kind, f"{times:,}")
        table.add_section()
    if fired:
        console.print(table)
    for what, names, counts in (("faults", FAULTS, fired), ("marks", MARKS, marks)):
        never = [name for name in names if not counts[name]]
        if never:
            prose(console, 2, f"{what} that never did: {', '.join(never)}")


def faults_of(fired: Mapping[str, int]) -> Counter[str]:
    """Return how often each kind of fault fired: what is counted, but for the ends of machines."""
    return Counter({kind: times for kind, times in fired.items() if not kind.startswith("crash")})


def ends_of(fired: Mapping[str, int]) -> Counter[str]:
    """Return how machines died: in which operations, summed up by moment, and under which profile."""
    ends: Counter[str] = Counter()
    for kind, times in fired.items():
        crash, _, rest = kind.partition(" ")
        first, _, operation = rest.partition(" ")
        if crash == "crash" and rest:
            in_operation = bool(operation) and first in MOMENTS
            ends[f"died {first} an operation" if in_operation else f"crash under {rest}"] += times
    return ends


def tell_failure(console: Console, failure: Failure, again: str = "", *, original: bool = False) -> None:
    """Print one failure: the claim, what was promised and found, the end of the story, how to see it again.

    It is told as the shrunk run had it, if there is one; original: as the run that was found did.
    """
    breach = failure.original if original else failure.smallest
    seed = f"{'' if breach is failure.original else 'shrunk from '}seed {failure.seed}"
    console.print(f"\n[red]broken[/red]: {escape(failure.scenario)}, {seed}", soft_wrap=True)
    prose(console, 2, f"claim: {failure.claim}")
    for violation in breach.violations[:VIOLATIONS_TOLD]:
        _tell_violation(console, violation)
    more = len(breach.violations) - VIOLATIONS_TOLD
    if more > 0:
        prose(console, 2, f"and {more} more like it")
    prose(console, 2, "before it:")
    for line in breach.story[-STORY_TOLD:]:
        prose(console, 2, line, style="dim")
    if again:
        console.print(f"  again: [bold]{escape(again)}[/bold]", soft_wrap=True)


def failure_text(failure: Failure, again: str = "") -> str:
    """Return what `tell_failure` prints, as plain text."""
    text = StringIO()
    tell_failure(Console(file=text, force_terminal=False, highlight=False), failure, again)
    return text.getvalue().strip()


def _tell_violation(console: Console, violation: Violation) -> None:
    reason, *waits = violation.summary.splitlines()
    prose(console, 2, f"{violation.invariant}: {reason}")
    for line in (*waits, *violation.detail.splitlines()):
        prose(console, 4, line.strip())
    if violation.file:
        prose(console, 4, f"file:     {violation.file} @ {violation.offset}")
    if violation.expected or violation.found:
        prose(console, 4, f"field:    {violation.field}")
        prose(console, 4, f"expected: {violation.expected}")
        prose(console, 4, f"found:    {violation.found}")


def prose(console: Console, indent: int, line: str, *, style: str = "") -> None:
    """Print one line, indented, its control characters as dots, and on a terminal wrapped within the indent."""
    line = printable(line)
    if console.is_terminal:
        console.print(Padding(Text(line, style), (0, 0, 0, indent)))
    else:
        console.print(Text(" " * indent + line, style), soft_wrap=True)


def printable(line: str) -> str:
    """Return a line with a dot for whatever is no character that can be seen."""
    return "".join(char if char.isprintable() else "·" for char in line)


def names_table(title: str, members: Mapping[str, str]) -> Table:
    """Return names beside what they mean."""
    table = Table(title=title, title_justify="left", show_header=False, box=box.SIMPLE)
    table.add_column(no_wrap=True)
    table.add_column()
    for name, text in members.items():
        table.add_row(name, text)
    return table


def disk_text(profile: CrashProfile) -> str:
    """Return what a crash profile takes, in a line."""
    if profile.page_cache_survives:
        return "the page cache survives, and with it every write, name and size"
    pages = "lost" if profile.whole_pages else "lost or torn"
    return f"unsynced pages may be {pages}; of unsynced names and sizes survive {profile.metadata.value}"


def hunts_table(hunts: Iterable[Hunted], reach: Reach = ALL) -> Table:
    """Return one row a mutant: whether it was found, by what, after how long."""
    rows = list(hunts)
    found = sum(hunted.found for hunted in rows)
    small = ("msg", "pre", "sec") if any(hunted.shrunk for hunted in rows) else ()
    table = plain_table(
        _hunts_verdict(found, len(rows), reach), ("mutant", "found", "by"), ("seeds", "seconds", *small)
    )
    for hunted in rows:
        verdict = "[green]yes[/green]" if hunted.found else "[red]no[/red]"
        if hunted.clean_violation:
            verdict = "[red]clean store broke[/red]"
        size = [str(hunted.shrunk[name]) for name in SIZE_TOLD] if hunted.shrunk else []
        table.add_row(
            hunted.id, verdict, hunted.invariant, f"{hunted.seeds:,}", f"{hunted.seconds:.1f}", *size
        )
    for name in reach.not_run:
        table.add_row(name, "not run", style="yellow")
    return table


def _hunts_verdict(found: int, hunted: int, reach: Reach) -> str:
    return ", ".join([*reach_words(reach, "mutant"), f"{found} of {hunted} mutants found"])


def tell_survivors(console: Console, hunts: Iterable[Hunted]) -> None:
    """Print why mutants live that were not found, and which were found although it is said that they live."""
    for hunted in hunts:
        verdict = SURVIVORS.get(hunted.id)
        if not hunted.found:
            prose(console, 0, f"{hunted.id}: {verdict or 'nobody knows why it lives'}")
        elif verdict is not None:
            prose(console, 0, f"{hunted.id}: found, although it is said of it: {verdict}")


def plain_table(title: str, texts: Sequence[str], figures: Sequence[str]) -> Table:
    """Return a table without lines: columns of text first, columns of figures behind them."""
    table = Table(
        title=title,
        title_justify="left",
        box=box.SIMPLE,
        show_edge=False,
        pad_edge=False,
        collapse_padding=True,
    )
    for name in texts:
        table.add_column(name, no_wrap=name != "what")
    for name in figures:
        table.add_column(name, justify="right")
    return table
