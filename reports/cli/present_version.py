"""How a run as a real version reads on a terminal: which bugs are in, what broke, why, and how to see it again."""

from collections.abc import Callable, Iterable
from typing import Any

from rich.console import Console
from rich.markup import escape

from ...scenarios.campaigns.blame import ViolationKind, cause_text, likeliest_names
from ...scenarios.campaigns.failures.print_failure import prose
from ...scenarios.mutants.versions import BugPresence, Version
from .present import plain_table

_CAUSES_TOLD = 3


def print_version(
    console: Console, version: Version, rows: Iterable[ViolationKind], again: Callable[[ViolationKind], str]
) -> None:
    """Print one row for each broken promise, then for each where it broke, its causes and the command that shows it."""
    broken = list(rows)
    _print_bugs(console, version)
    if not broken:
        console.print("every promise held")
        return
    table = plain_table(
        f"{len(broken)} promises that {version.id} breaks",
        ("promise", "shows in", "likeliest cause"),
        ("times", "seed"),
    )
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
        for cause in row.causes[:_CAUSES_TOLD]:
            prose(console, 2, f"cause: {cause_text(cause)}")
        if row.clean:
            prose(console, 2, f"without any of them, too: {row.clean} of those that were tried")
        console.print(f"  again: [bold]{escape(again(row))}[/bold]", soft_wrap=True)


def _print_bugs(console: Console, version: Version) -> None:
    on = sum(fact.is_on for fact in version.facts)
    deviations = len(version.deviations)
    catalogue = f"{on} of the {len(version.facts)} bugs of the catalogue"
    console.print()
    prose(console, 0, f"{version.id}: {catalogue} and {deviations} other deviations are in")
    for fact in version.facts:
        if fact.left_out:
            prose(console, 2, f"left out, {fact.id}: {fact.left_out}")
        elif fact.verdict is BugPresence.UNCERTAIN:
            prose(console, 2, f"not certain, {fact.id}: {fact.reason}")


def version_json(
    version: Version, rows: Iterable[ViolationKind], again: Callable[[ViolationKind], str]
) -> dict[str, Any]:
    """Return the same as JSON takes it."""
    return {
        "id": version.id,
        "bugs": [
            {
                "id": fact.id,
                "verdict": fact.verdict.value,
                "on": fact.is_on,
                "reason": fact.reason,
                "left_out": fact.left_out,
            }
            for fact in version.facts
        ],
        "deviations": {mutant.id: mutant.summary for mutant in version.deviations},
        "broken": [row.to_json(again(row)) for row in rows],
    }
