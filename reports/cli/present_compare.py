"""How comparing reads on a terminal: how many directories of each kind, and what explains differences."""

from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.markup import escape

from ...scenarios.campaigns.failures.print_failure import prose
from ...scenarios.conformance.campaign import ConformanceReport
from ...scenarios.conformance.cases import WRITTEN_HERE, WRITTEN_THERE, CaseResult
from ...scenarios.conformance.deviations import DEVIATIONS
from .present import plain_table

OUTCOMES = ("agreed", "explained", "unexplained")
DIFFERENCES_TOLD = 5
_WRITERS = {True: "written here", False: "written by the real store"}


def print_campaign(console: Console, campaign: ConformanceReport, against: str, seconds: float) -> None:
    """Print the sum of a campaign."""
    failed = len(campaign.failures)
    verdict = f"{failed:,} not explained" if failed else "all agreed or explained"
    table = plain_table(
        f"{campaign.cases:,} directories, {campaign.records:,} records, against {against}, "
        f"in {seconds:.1f} s: {verdict}",
        ("directory", "ended in"),
        OUTCOMES,
    )
    for (writer, kind), outcomes in sorted(campaign.outcomes.items()):
        figures = (f"{outcomes[name]:,}" for name in OUTCOMES)
        style = "red" if outcomes["unexplained"] else ""
        table.add_row(_WRITERS[writer == WRITTEN_HERE], kind, *figures, style=style)
    console.print(table)
    if campaign.answers:
        prose(
            console, 0, f"{campaign.answers:,} puts that the real store had answered OK were looked for here"
        )
    if campaign.deviations:
        table = plain_table(
            "what explains differences: what the real store does instead, in directories of",
            ("deviation", "what"),
            ("ours", "its own"),
        )
        for name, (ours, real) in _deviations(campaign).items():
            table.add_row(name, DEVIATIONS[name].there, f"{ours:,}", f"{real:,}")
        console.print(table)


def _deviations(campaign: ConformanceReport) -> dict[str, tuple[int, int]]:
    """Return in how many directories of ours and of the real store each was seen, the most frequent first."""
    found = campaign.deviations
    seen = {name: (found[WRITTEN_HERE, name], found[WRITTEN_THERE, name]) for name in DEVIATIONS}
    frequent = sorted(seen.items(), key=lambda one: -sum(one[1]))
    return {name: counts for name, counts in frequent if any(counts)}


def print_failure(console: Console, compared: CaseResult, again: str) -> None:
    """Print one case that is not explained, and how to see it again."""
    case = compared.case
    facts = ", ".join(text for text in (case.scenario, case.kind, case.disk) if text)
    console.print(f"\n[red]{case.name}[/red] {escape(facts)}", soft_wrap=True)
    for one in compared.unexplained[:DIFFERENCES_TOLD]:
        prose(console, 2, f"{one.place}: ours {one.ours}, real {one.real}")
    more = len(compared.unexplained) - DIFFERENCES_TOLD
    if more > 0:
        prose(console, 2, f"and {more:,} more")
    console.print(f"  again: [bold]{escape(again)}[/bold]", soft_wrap=True)


def campaign_json(
    campaign: ConformanceReport, against: str, seeds: range, seconds: float
) -> Mapping[str, Any]:
    """Return what `--json` writes."""
    return {
        "format": "tornlog-compare/1",
        "against": against,
        "seeds": [seeds.start, seeds.stop],
        "directories": [
            {"writer": writer, "kind": kind, **{name: outcomes[name] for name in OUTCOMES}}
            for (writer, kind), outcomes in sorted(campaign.outcomes.items())
        ],
        "disks": [
            {"kind": kind, "disk": disk, "directories": count}
            for (kind, disk), count in sorted(campaign.disks.items())
            if disk
        ],
        "records": campaign.records,
        "answers": campaign.answers,
        "deviations": [
            {"name": name, "ours": ours, "real": real} for name, (ours, real) in _deviations(campaign).items()
        ],
        "failures": [failure_json(one) for one in campaign.failures],
        "seconds": round(seconds, 3),
    }


def failure_json(compared: CaseResult) -> Mapping[str, Any]:
    """Return one case with its differences."""
    case = compared.case
    return {
        "writer": case.writer,
        "seed": case.seed,
        "kind": case.kind,
        "disk": case.disk,
        "scenario": case.scenario,
        "outcome": compared.outcome,
        "differences": [one.to_json() for one in compared.differences],
    }
