"""How a replay, and a failure that has become smaller, read on a terminal."""

from dataclasses import fields

from rich.console import Console
from rich.table import Table

from ...scenarios.campaigns.failures.failing_run import FailingRun, Size
from ...scenarios.campaigns.failures.failure import Failure
from ...scenarios.campaigns.failures.print_failure import print_failure
from ...scenarios.campaigns.failures.replay import RunReplay
from ...scenarios.campaigns.failures.shrink import Shrunk
from .present import plain_table

SWITCHES_TOLD_MAX = 20
GONE_TOLD_MAX = 20


def print_replay(console: Console, replayed: RunReplay, breach: FailingRun) -> None:
    """Print whether a replay was what was recorded, and which of its decisions no longer exist."""
    outcome = replayed.outcome
    if replayed.is_same(breach):
        verdict = "the same violation"
    elif not outcome.violations:
        verdict = "this time every promise held"
    elif outcome.violations[0].signature == breach.violations[0].signature:
        verdict = "the same breach by another way"
    else:
        verdict = f"something else broke this time: {outcome.violations[0]}"
    console.print(f"replayed: digest {outcome.digest}, {verdict}", soft_wrap=True, markup=False)
    _print_lines(console, "gone:", replayed.gone, GONE_TOLD_MAX)
    _print_lines(console, "changed:", replayed.changed, GONE_TOLD_MAX)


def print_shrunk(console: Console, shrunk: Shrunk, seconds: float, again: str) -> None:
    """Print how much smaller a failure has become, what decides the small one, its story, how to see it again."""
    failure = shrunk.failure
    console.print(_sizes_table(failure, f"{shrunk.tries:,} runs, {seconds:.1f} s"))
    record = failure.smallest.record
    _print_lines(console, "schedule:", [str(switch) for switch in record.schedule], SWITCHES_TOLD_MAX)
    _print_lines(console, "draws:", [str(decision) for decision in record.decisions], SWITCHES_TOLD_MAX)
    print_failure(console, failure, again)


def _sizes_table(failure: Failure, title: str) -> Table:
    table = plain_table(title, ("",), ("before", "after"))
    for field in fields(Size):
        before, after = (getattr(breach.size, field.name) for breach in (failure.original, failure.smallest))
        table.add_row(field.name, f"{before:,}", f"{after:,}")
    return table


def _print_lines(console: Console, title: str, lines: list[str], told_max: int) -> None:
    """Print some lines under a title; nothing without any."""
    if not lines:
        return
    console.print(title)
    for line in lines[:told_max]:
        console.print(f"  {line}", soft_wrap=True, markup=False)
    if len(lines) > told_max:
        console.print(f"  and {len(lines) - told_max:,} more")
