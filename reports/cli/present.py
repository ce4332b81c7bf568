"""Results on a terminal: runs, mutants, and runs as a real version.

Everything fits 80 columns. In a pipe, prose is not wrapped: lines there are for grep.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from ...faults.simulation.prose import prose
from ...scenarios.campaigns.blame import ViolationKind, cause_text, likeliest_names
from ...scenarios.campaigns.coverage import ends_of, faults_of, never_hit, never_injected
from ...scenarios.campaigns.failures.failure import Failure
from ...scenarios.campaigns.mutation_run import SIZES_SHOWN, MutantResult, core_seconds_texts
from ...scenarios.campaigns.pairs import Pair, PairsMet, pairs_met
from ...scenarios.campaigns.runner import ALL, Reach, Tally, reach_words, verdict_of
from ...scenarios.mutants.versions import BugPresence, Version
from ...scenarios.runs.marks import MARKS
from .console import plain_table

_CAUSES_SHOWN_MAX = 3
_LACKING_SHOWN_MAX = 8
_NAMES_SHOWN_MAX = 3
"""Of most faults, so that a line fits 80 columns."""


def runs_verdict(tallies: Sequence[Tally], seconds: float, reach: Reach = ALL) -> str:
    """Return the verdict of a campaign in one line."""
    seeds = sum(tally.seeds for tally in tallies)
    return f"{seeds:,} seed{'' if seeds == 1 else 's'} in {seconds:.1f} s: {verdict_of(tallies, reach)}"


def print_runs(console: Console, tallies: Sequence[Tally], reach: Reach, *, verbose: bool) -> None:
    """Print a summary of a campaign and each scenario that broke or was not run; verbose: all rows of all tables."""
    if verbose:
        console.print(runs_table(tallies, reach))
        print_injected(console, tallies)
        return
    for name, text in _tried(tallies):
        prose(console, 2, f"{name:<8} {text}")
    if reach.not_run:
        prose(console, 2, f"not run  {', '.join(reach.not_run)}")
    broken = [tally for tally in tallies if _broken_seeds(tally)]
    if broken:
        console.print()
        console.print(runs_table(broken))


def _tried(tallies: Sequence[Tally]) -> Iterator[tuple[str, str]]:
    injected: Counter[str] = sum((tally.injected for tally in tallies), Counter())
    marks: Counter[str] = sum((tally.marks for tally in tallies), Counter())
    faults, never = faults_of(injected), never_injected(tallies)
    points = sum(tally.crash_points for tally in tallies)
    yield "ran", f"{_counted(len(tallies), 'scenario')}, {_counted(points, 'crash point')}"
    yield "faults", f"{faults.total():,} of {_counted(len(faults), 'kind')}{_most(faults)}"
    if never:
        yield "never", f"{_counted(len(never), 'kind')} that can occur here{_listed(never)}"
    yield "marks", f"{len(marks)} of {len(MARKS)} rare states{_most(marks)}"
    yield "more", "--verbose shows every scenario, fault and mark"


def _most(counts: Counter[str]) -> str:
    return _listed([f"{name} {times:,}" for name, times in counts.most_common()])


def _listed(names: Sequence[str]) -> str:
    more = ", ..." if len(names) > _NAMES_SHOWN_MAX else ""
    return f": {', '.join(names[:_NAMES_SHOWN_MAX])}{more}" if names else ""


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def _broken_seeds(tally: Tally) -> int:
    return tally.violations + len(tally.errors) + len(tally.nondeterministic)


def runs_table(tallies: Iterable[Tally], reach: Reach = ALL) -> Table:
    """Return a row for each scenario, of how many seeds, crash points and faults it had, and how many seeds broke."""
    table = plain_table("", ("scenario",), ("seeds", "crash\npoints", "faults", "broken"))
    for tally in tallies:
        broken = _broken_seeds(tally)
        counts = (tally.seeds, tally.crash_points, faults_of(tally.injected).total(), broken)
        style = "red" if broken else ""
        table.add_row(tally.scenario.name, *(f"{count:,}" for count in counts), style=style)
    for name in reach.not_run:
        table.add_row(name, "not run", "-", "-", "-", style="yellow")
    return table


def print_injected(console: Console, tallies: Sequence[Tally]) -> None:
    """Print how often each fault, each kind of end and each mark came about, which never did, and what never met."""
    injected: Counter[str] = Counter()
    marks: Counter[str] = Counter()
    pairs: Counter[Pair] = Counter()
    for tally in tallies:
        injected += tally.injected
        marks += tally.marks
        pairs += tally.pairs
    table = Table(title="injected", title_justify="left", show_header=False, box=box.SIMPLE)
    table.add_column(no_wrap=True)
    table.add_column(justify="right")
    for counts in (faults_of(injected), ends_of(injected), marks):
        for kind, times in counts.most_common():
            table.add_row(kind, f"{times:,}")
        table.add_section()
    if injected:
        console.print(table)
    for what, never in (("faults", never_injected(tallies)), ("marks", never_hit(tallies))):
        if never:
            prose(console, 2, f"{what} that never did: {', '.join(never)}")
    print_pairs(console, 2, pairs_met(pairs))


def print_pairs(console: Console, indent: int, pairs: PairsMet) -> None:
    """Print how many pairs of features and faults never met, and what most of them are of."""
    if pairs.never:
        lacking = [f"{name} ({len(others)})" for name, others in pairs.partners().items()]
        more = ", ..." if len(lacking) > _LACKING_SHOWN_MAX else ""
        counts = f"{len(pairs.never):,} of {pairs.can:,} that can meet"
        names = ", ".join(lacking[:_LACKING_SHOWN_MAX])
        prose(console, indent, f"pairs of features and faults that never did: {counts}, most of {names}{more}")


def mutants_verdict(mutant_results: Sequence[MutantResult], reach: Reach = ALL) -> str:
    """Return the verdict of mutation runs in one line."""
    found = sum(result.found for result in mutant_results)
    return ", ".join([*reach_words(reach, "mutant"), f"{found} of {len(mutant_results)} mutants found"])


def mutants_table(mutant_results: Iterable[MutantResult]) -> Table:
    """Return a row for each mutant, and below it the scenario that found it, or the reason why none did.

    seeds and core-seconds: until then; reached and bit: in how many of these seeds its code ran, and did otherwise.
    """
    table = plain_table("", ("mutant",), ("seeds", "core s", "reached", "bit"))
    table.columns[0].no_wrap, table.columns[0].overflow = False, "fold"  # a path may be longer than a line
    for column in table.columns[1:]:
        column.no_wrap = True
    for result in mutant_results:
        counts = (_or_dash(result.reached), _or_dash(result.bit))
        figures = (f"{result.seeds:,}", f"{result.core_seconds:.1f}", *counts)
        small = f"\n  {_size_text(result.shrunk)}" if result.shrunk else ""
        table.add_row(f"{escape(result.id)}\n  {_found_by(result)}{small}", *figures)
    return table


def _found_by(result: MutantResult) -> str:
    if result.error:
        return "[red]harness failed[/red]"
    if result.clean_violation:
        return "[red]clean store broke[/red]"
    if not result.found:
        return "[red]not found[/red]"
    expected = "" if result.is_expected else " [yellow](not expected)[/yellow]"
    return f"{result.invariant}{expected} in {result.scenario}"


def _size_text(shrunk: Mapping[str, Any]) -> str:
    return f"shrunk to {', '.join(f'{shrunk[name]} {name}' for name in SIZES_SHOWN)}"


def _or_dash(count: int | None) -> str:
    return "-" if count is None else f"{count:,}"


def print_core_seconds(console: Console, mutant_results: Sequence[MutantResult]) -> None:
    """Print in how many core-seconds mutants were found."""
    if any(result.found for result in mutant_results):
        figures = ", ".join(f"{name} {text}" for name, text in core_seconds_texts(mutant_results).items())
        console.print(f"core-seconds until found: {figures}")


def print_finds(console: Console, mutant_results: Iterable[MutantResult]) -> None:
    """Print of each mutant which scenarios found it, each by which seed and promise."""
    for result in mutant_results:
        prose(console, 0, f"{result.id}: {len(result.finds)} scenario{'' if len(result.finds) == 1 else 's'}")
        for find in result.finds:
            prose(console, 2, f"{find.scenario} --seed {find.seed}: {find.invariant}")


def print_survivors(console: Console, mutant_results: Iterable[MutantResult], survivors: Mapping[str, str]) -> None:
    """Print why mutants live that were not found, and which were found although it is said that they live."""
    for result in mutant_results:
        verdict = survivors.get(result.id)
        if not result.found:
            prose(console, 0, f"{result.id}: {verdict or result.missed_because}")
        elif verdict is not None:
            prose(console, 0, f"{result.id}: found, although it is said of it: {verdict}")


def print_version(
    console: Console, version: Version, rows: Iterable[ViolationKind], again: Callable[[Failure], str]
) -> None:
    """Print one row for each broken promise, then for each where it broke, its causes and the command that shows it."""
    broken = list(rows)
    _print_bugs(console, version)
    if not broken:
        console.print("every promise held")
        return
    promises = len({row.promise for row in broken})
    ways = f"{promises} promise{'' if promises == 1 else 's'} that {version.id} breaks"
    title = f"{ways}, in {len(broken)} way{'' if len(broken) == 1 else 's'}"
    table = plain_table(title, ("promise", "shows in", "likeliest cause"), ("times", "seed"))
    for row in broken:
        first, *others = likeliest_names(row)
        table.add_row(row.promise, row.kind, first, f"{row.times:,}", str(row.first.seed))
        for other in others:
            table.add_row("", "", other, "", "")
    console.print(table)
    for row in broken:
        console.print(f"\n[red]{row.promise}[/red] {escape(row.kind)}")
        prose(console, 2, str(row.first.violations[0]))
        prose(console, 2, f"in: {', '.join(f'{name} ({times})' for name, times in row.scenarios.items())}")
        for cause in row.causes[:_CAUSES_SHOWN_MAX]:
            prose(console, 2, f"cause: {cause_text(cause)}")
        if row.clean:
            prose(console, 2, f"without any of them, too: {row.clean} of those that were tried")
        console.print(f"  again: [bold]{escape(again(row.first))}[/bold]", soft_wrap=True)


def _print_bugs(console: Console, version: Version) -> None:
    on = sum(fact.is_on for fact in version.facts)
    deviations = len(version.deviations)
    catalogue = f"{on} of the {len(version.facts)} bugs of the catalogue"
    console.print()
    prose(console, 0, f"{version.id}: {catalogue} and {deviations} other deviations are in")
    for fact in version.facts:
        if fact.left_out:
            prose(console, 2, f"left out, {fact.id}: {fact.left_out}")
    uncertain = [fact.id for fact in version.facts if not fact.left_out and fact.verdict is BugPresence.UNCERTAIN]
    if uncertain:
        prose(console, 2, f"not certain, and not in, for reasons that --json has: {', '.join(uncertain)}")


def version_json(version: Version, rows: Iterable[ViolationKind], again: Callable[[Failure], str]) -> dict[str, Any]:
    """Return the same as JSON takes it."""
    return {
        "id": version.id,
        "bugs": [
            {"id": fact.id, "verdict": fact.verdict.value, "on": fact.is_on}
            | {"reason": fact.reason, "left_out": fact.left_out}
            for fact in version.facts
        ],
        "deviations": {mutant.id: mutant.summary for mutant in version.deviations},
        "broken": [row.to_json(again(row.first)) for row in rows],
    }
