"""What `tornlog probe` prints: counts by disk, each breach with its moment and its losses, what was refused."""

import shlex
from collections.abc import Iterable, Sequence
from io import StringIO
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from ....faults.crashes.profiles import NOTHING_LOST
from ....faults.probe.failure import ProbeFinding
from ....faults.probe.probe import ProbeReport
from ....faults.probe.record import ProgramRecord
from ....faults.probe.recovery import Recoveries
from ....faults.probe.reruns import Reruns
from ....faults.probe.shrink import CrashCaseView, loss_note
from ....faults.probe.story import crash_text, step_text, story
from ....faults.simulation.prose import prose
from ...html.probe_results import ProbeBreach, amount, kinds_of_breach
from ..console import plain_table

_TEXT_WIDTH = 120
_ROWS_MAX, _REASONS_SHOWN_MAX, _DISCARDED_SHOWN_MAX = 20, 3, 5
_VIOLATIONS_SHOWN_MAX, _LOSSES_SHOWN_MAX, _ACKNOWLEDGED_SHOWN_MAX = 3, 8, 3


def print_probed(console: Console, found: ProbeReport, record: ProgramRecord) -> None:
    """Print what was tried, and what is broken."""
    broken = sum(count.broken for count in found.counts.values())
    held = "every promise held" if found.is_finished else "no promise was broken so far"
    verdict = f"{broken:,} states broken" if broken else held
    acknowledged = len(record.acknowledged)
    console.print(
        f"{found.operations:,} operations, {acknowledged:,} promises, {found.points:,} crash points: {verdict}",
        soft_wrap=True,
    )
    for note in found.notes(record):
        prose(console, 0, f"note: {note}")
    console.print(_disks_table(found))
    console.print(
        f"{found.states:,} states, {len(found.images):,} different ones, "
        f"{found.judged:,} checked with what was promised by then, in {found.seconds:.1f} s",
        soft_wrap=True,
    )
    never = found.never_injected
    if never:
        prose(console, 0, f"never happened on these disks: {', '.join(never)}")
    if found.breaches:
        console.print(_breaches_table(found))
        more = len(found.breaches) - _ROWS_MAX
        if more > 0:
            console.print(f"and {kinds_of_breach(more)} more", soft_wrap=True)


def _verdict(breaches: int, gaps: Sequence[str]) -> str:
    if breaches:
        return kinds_of_breach(breaches)
    return f"no promise was broken, but {'; '.join(gaps)}" if gaps else "every promise held"


def print_recoveries(console: Console, recoveries: Recoveries, gaps: Sequence[str], hint: str) -> None:
    """Print the counts of crashes in recoveries. gaps: parts that were not tried; hint: a remedy."""
    verdict = _verdict(len(recoveries.breaches), gaps)
    console.print(
        f"crashes in recovery: {recoveries.recorded:,} recoveries, {recoveries.writing:,} of them write, "
        f"{recoveries.points:,} crash points, {recoveries.states:,} states, {recoveries.judged:,} checked: {verdict}",
        soft_wrap=True,
    )
    for reason, times in recoveries.refused.most_common(_REASONS_SHOWN_MAX):
        prose(console, 2, f"{amount(times, 'recovery', 'recoveries')} could not be recorded: {reason}")
    if recoveries.refused and hint:
        prose(console, 2, hint)


def print_reruns(console: Console, reruns: Reruns, gaps: Sequence[str]) -> None:
    """Print the counts of runs with faults, and in other orders. gaps: parts that were not tried."""
    verdict = _verdict(len(reruns.breaches), gaps)
    console.print(
        f"run again: {reruns.runs:,} runs, {reruns.failed:,} ended with an error, {reruns.points:,} crash points, "
        f"{reruns.states:,} states, {reruns.judged:,} checked: {verdict}",
        soft_wrap=True,
    )
    if reruns.injected:
        prose(console, 2, f"faults: {', '.join(f'{kind} {times:,}' for kind, times in reruns.injected.items())}")
    if reruns.never_injected:
        prose(console, 2, f"never happened, for want of a call: {', '.join(reruns.never_injected)}")
    if reruns.cut:
        prose(console, 2, f"only the first calls were struck, by --fault-runs: {', '.join(reruns.cut)}")
    if reruns.seeds:
        hurry = f", {reruns.hurried:,} of them while another thread still ran" if reruns.hurried else ""
        prose(
            console, 2, f"{reruns.seeds:,} seeds, {reruns.orders:,} other orders, by {reruns.choices:,} choices{hurry}"
        )
    for reason, controls in list(reruns.discarded.items())[:_REASONS_SHOWN_MAX]:
        names = ", ".join(map(str, controls[:_DISCARDED_SHOWN_MAX]))
        more = ", …" if len(controls) > _DISCARDED_SHOWN_MAX else ""
        prose(console, 2, f"{amount(len(controls), 'run', 'runs')} could not be recorded ({names}{more}): {reason}")


def _disks_table(found: ProbeReport) -> Table:
    table = plain_table("", ("disk",), ("crashes", "all states\ntried of", "cut by\n--limit", "states", "broken"))
    for disk, count in found.counts.items():
        figures = (count.crashes, count.exhausted, count.cut, count.states, count.broken)
        table.add_row(disk, *(f"{figure:,}" for figure in figures), style="red" if count.broken else "")
    return table


def _breaches_table(found: ProbeReport) -> Table:
    table = plain_table("", ("what", "disks"), ("states", "crash\npoints", "losses"))
    for signature, group in found.in_order[:_ROWS_MAX]:
        disks = dict.fromkeys([group.smallest.disk, *group.disks])
        figures = (group.states, len(group.points), group.smallest.losses)
        table.add_row(escape(signature), "\n".join(disks), *(f"{figure:,}" for figure in figures))
    return table


def print_breach(console: Console, found: ProbeFinding, place: Path | None, disks: Sequence[str] = ()) -> None:
    """Print one case: what is broken, on which disk and when, what is lost, how it came to that.

    place: where it is kept, if it is; disks: on which it was met.
    """
    record, shown, case = found.record, found.shown, found.shown.case
    is_crash = case.disk != NOTHING_LOST
    heading = "broken by a crash in recovery" if found.recovery else "broken" if is_crash else "broken without a crash"
    console.print(f"\n[red]{heading}[/red]: {escape(case.verdict.signature)}", soft_wrap=True)
    if found.rerun:
        prose(console, 2, f"with {found.rerun}")
    for line in case.verdict.lines[:_VIOLATIONS_SHOWN_MAX]:
        prose(console, 2, line)
    more = len(case.verdict.lines) - _VIOLATIONS_SHOWN_MAX
    if more > 0 and case.verdict.outcome == "broken":
        prose(console, 2, f"and {more} more like it")
    also = [disk for disk in disks if disk != case.disk]
    if is_crash:
        prose(console, 2, f"on {case.disk}{'; also on ' if also else ''}{', '.join(also)}")
    if found.recovery:
        prose(console, 2, "the program:")
        for line in found.recovery:
            prose(console, 4, line)
        prose(console, 2, "then the check, as it recovers from that:")
    prose(console, 2, crash_text(record, case.point, case.disk))
    _print_losses(console, record, shown)
    promised = record.acknowledged[: case.point.acknowledged]
    if promised:
        few = ", ".join(repr(one) for one in promised[-_ACKNOWLEDGED_SHOWN_MAX:])
        prose(console, 2, f"acknowledged: {'…, ' if len(promised) > _ACKNOWLEDGED_SHOWN_MAX else ''}{few}")
    prose(console, 2, "before it:")
    for line in story(record, case.point.step):
        prose(console, 2, line, style="dim")
    again = "the same again, with --out DIR"
    if place is not None:
        again = shlex.join(["tornlog", "probe", "--replay", str(place / "failure.json")])
        console.print(f"  what is left: [bold]{escape(str(place / 'files'))}[/bold]", soft_wrap=True)
    console.print(f"  again: [bold]{escape(again)}[/bold]", soft_wrap=True)


def _print_losses(console: Console, record: ProgramRecord, shown: CrashCaseView) -> None:
    note = loss_note(record, shown.case, shown.losses)
    if note:
        prose(console, 2, note)
    if not shown.losses:
        return
    prose(console, 2, "what is lost:")
    for loss in shown.losses[:_LOSSES_SHOWN_MAX]:
        prose(console, 4, loss.what)
        prose(console, 6, f"by {step_text(record, loss.step).strip()}", style="dim")
    more = len(shown.losses) - _LOSSES_SHOWN_MAX
    if more > 0:
        prose(console, 4, f"and {more} more")


def breach_text(breach: ProbeBreach, place: Path | None) -> str:
    """Return a breach as it is printed, as plain text."""
    text = StringIO()
    console = Console(file=text, width=_TEXT_WIDTH, color_system=None)
    print_breach(console, breach.finding, place, breach.disks)
    return text.getvalue().strip()


def print_refusal(console: Console, reasons: Iterable[str], hint: str) -> None:
    """Print why a program cannot be probed."""
    console.print("[red]refused[/red]: the program did what the recorder does not see", soft_wrap=True)
    for reason in reasons:
        prose(console, 2, reason)
    if hint:
        prose(console, 0, hint)


def print_unfinished(console: Console, gaps: Iterable[str]) -> None:
    """Print the parts of the probe that have no verdict."""
    console.print("\n[yellow]not finished[/yellow]:", soft_wrap=True)
    for gap in gaps:
        prose(console, 2, gap)


def print_output(console: Console, said: str, lines_max: int = 20) -> None:
    """Print the end of what the check has written."""
    lines = said.splitlines()
    if not lines:
        return
    console.print("\nwhat the check wrote, of all states together:", soft_wrap=True)
    if len(lines) > lines_max:
        prose(console, 2, f"… {len(lines) - lines_max:,} lines before")
    for line in lines[-lines_max:]:
        prose(console, 2, line, style="dim")
