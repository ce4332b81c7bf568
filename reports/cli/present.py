"""How results read on a terminal: the tables, and the telling of a failure.

Everything fits 80 columns. In a pipe, prose is not wrapped: lines there are for grep.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from rich import box
from rich.console import Console
from rich.table import Table

from ...faults.crashes.profiles import CrashProfile
from ...faults.kinds import FAULTS
from ...scenarios.campaigns.coverage import ends_of, faults_of
from ...scenarios.campaigns.failures.print_failure import prose
from ...scenarios.campaigns.mutation_run import SIZES_SHOWN, MutantResult
from ...scenarios.campaigns.runner import ALL, Reach, Tally, reach_words, verdict_of
from ...scenarios.runs.marks import MARKS


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


def print_fired(console: Console, tallies: Iterable[Tally]) -> None:
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


def mutants_table(mutant_results: Iterable[MutantResult], reach: Reach = ALL) -> Table:
    """Return one row a mutant: whether it was found, by what, after how long."""
    rows = list(mutant_results)
    found = sum(mutant_result.found for mutant_result in rows)
    small = ("msg", "pre", "sec") if any(mutant_result.shrunk for mutant_result in rows) else ()
    table = plain_table(
        _mutants_verdict(found, len(rows), reach), ("mutant", "found", "by"), ("seeds", "seconds", *small)
    )
    for mutant_result in rows:
        verdict = "[green]yes[/green]" if mutant_result.found else "[red]no[/red]"
        if mutant_result.clean_violation:
            verdict = "[red]clean store broke[/red]"
        size = [str(mutant_result.shrunk[name]) for name in SIZES_SHOWN] if mutant_result.shrunk else []
        table.add_row(
            mutant_result.id,
            verdict,
            mutant_result.invariant,
            f"{mutant_result.seeds:,}",
            f"{mutant_result.seconds:.1f}",
            *size,
        )
    for name in reach.not_run:
        table.add_row(name, "not run", style="yellow")
    return table


def _mutants_verdict(found: int, run: int, reach: Reach) -> str:
    return ", ".join([*reach_words(reach, "mutant"), f"{found} of {run} mutants found"])


def print_survivors(
    console: Console, mutant_results: Iterable[MutantResult], survivors: Mapping[str, str]
) -> None:
    """Print why mutants live that were not found, and which were found although it is said that they live."""
    for mutant_result in mutant_results:
        verdict = survivors.get(mutant_result.id)
        if not mutant_result.found:
            prose(console, 0, f"{mutant_result.id}: {verdict or 'nobody knows why it lives'}")
        elif verdict is not None:
            prose(console, 0, f"{mutant_result.id}: found, although it is said of it: {verdict}")


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
