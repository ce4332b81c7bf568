"""The result of `sweep` and `analyze`: pass rates, detections, latencies and coverage."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...scenarios.campaigns.coverage import faults_of
from ...scenarios.campaigns.pairs import Pair
from ...scenarios.claims.catalogue import SCENARIOS
from ..cli.reporting import FailureLinks
from ..quantities import PER_MILLE, count_text, duration_text, rate_text
from ..results.coverage import coverage_blocks, promises_matrix
from ..results.model import (
    FailureGroup,
    Failures,
    Lines,
    On,
    Picture,
    Result,
    ResultBlock,
    ResultTable,
    Row,
    TableCell,
    Tone,
    Verdict,
)

_OUTCOMES = ("seeds", "held", "violated", "other")
_WORST_SHOWN = 20
_WITHOUT = "-"
"""Replaces the name of the disk if the process of a seed died before it chose a disk."""
_HELD = ("scenario without a broken promise", "scenarios without a broken promise")
_RATE_COLUMNS = ("seeds", "broken", "no verdict", "held, %")
Fields = dict[str, Any]


@dataclass(frozen=True, slots=True)
class SweepResults:
    """Totals of one or several sweeps. The tables are those of `pipeline.analysis`."""

    command_name: str
    command: str
    seconds: float
    pass_rates: Sequence[Fields]
    put_latency: Sequence[Fields]
    detections: Sequence[Fields]
    injected: Mapping[str, int]
    marks: Mapping[str, int]
    pairs: Mapping[Pair, int] = field(default_factory=dict)
    """Seeds in which two features or faults occurred together."""
    judged: Mapping[str, int] = field(default_factory=dict)
    """Seeds with a verdict, by disk."""
    tried: Mapping[tuple[str, str], int] = field(default_factory=dict)
    """By invariant and disk: seeds that checked the invariant after a fault that could break it."""
    broken: Mapping[tuple[str, str], int] | None = None
    """By invariant and disk: seeds that broke the invariant; None if not counted."""
    signatures: Mapping[str, int] = field(default_factory=dict)
    """Signature -> number of failures."""
    failures: Mapping[str, FailureLinks] = field(default_factory=dict)
    """The smallest failure of each signature."""
    left: int = 0
    """Number of requested seeds without a row."""
    damaged: int = 0
    """Number of unreadable row files."""
    mutants: Sequence[Fields] = ()
    trends: Sequence[Fields] = ()

    @property
    def on(self) -> On:
        """Return where tables are shown: for `sweep` only on the page."""
        return On.PAGE | On.VERBOSE if self.command_name == "analyze" else On.PAGE


def sweep_result(results: SweepResults, headline: str = "", exit_code: int = 0, document: Any = None) -> Result:
    mutants = {row["mutant"] for row in results.pass_rates}
    mutant = mutants.pop() if len(mutants) == 1 else None
    verdict = _verdict(results)
    return Result(
        results.command_name,
        headline or verdict.text,
        verdict,
        exit_code,
        document,
        results.command,
        _sweep_facts(results),
        list(_blocks(results)),
        subject="" if mutant is None else f"with the bug {mutant}",
    )


def _blocks(results: SweepResults) -> Iterator[ResultBlock]:
    clean = [row for row in results.pass_rates if row["mutant"] is None]
    mutated = [row for row in results.pass_rates if row["mutant"] is not None]
    groups = []
    for signature, left in results.failures.items():
        failure, violation = left.failure, left.failure.violations[0]
        times = count_text(results.signatures[signature], "time")
        about = f"{failure.scenario}, seed {failure.seed}, {times} in all"
        groups.append(FailureGroup([left.text(f"{violation.invariant} {violation.field}", about)]))
    yield Failures("Failures", On.PAGE, "failures", "The smallest run of each kind of failure, by scenario.", groups)
    note = (
        "In percent, with bounds of the true rate: Wilson's score bounds, each one-sided at 95 %. If all seeds held, or"
        " none, there is one bound."
    )
    if results.pass_rates:
        yield Lines("Pass rates", anchor="rates", lines=[note])
    for store, rows in (("Unmodified store", clean), ("Mutants", mutated)):
        if rows:
            yield from _rate_tables(store, rows, results.on)
    yield _mutants_table(results.mutants, results.on)
    yield _detections_table(results.detections)
    if results.broken is not None:
        yield promises_matrix(results.judged, results.tried, results.broken)
    if results.put_latency:
        yield from _latency_blocks(results.put_latency, results.on)
    known = [SCENARIOS[row["scenario"]] for row in results.pass_rates if row["scenario"] in SCENARIOS]
    yield from coverage_blocks(results.injected, results.marks, results.pairs, known or SCENARIOS.values())
    if len({row["code"] for row in results.trends}) > 1:
        yield _trends_table(results.trends, results.on)


def _outcome_totals(rows: Iterable[Fields]) -> Counter[str]:
    return sum((Counter({name: row[name] for name in _OUTCOMES}) for row in rows), Counter())


def _verdict(results: SweepResults) -> Verdict:
    """Return the verdict on the unmodified store if it has seeds, because mutants are expected to break promises."""
    clean = [row for row in results.pass_rates if row["mutant"] is None]
    totals = _outcome_totals(clean or results.pass_rates)
    more = [f"{count_text(results.left, 'seed')} left: repeat the call to continue"] if results.left else []
    if results.damaged:
        more.append(f"{count_text(results.damaged, 'damaged file')} of rows not counted")
    if clean and len(clean) < len(results.pass_rates):
        mutated = _outcome_totals(row for row in results.pass_rates if row["mutant"] is not None)
        seeds = count_text(mutated["seeds"], "seed")
        more.append(f"in addition, {mutated['violated']:,} of {seeds} of mutants broke a promise")
    if totals["other"]:
        more.insert(0, f"{count_text(totals['other'], 'seed')} without a verdict")
    seeds = count_text(totals["seeds"], "seed")
    if totals["violated"]:
        return Verdict(Tone.BROKEN, f"{totals['violated']:,} of {seeds} broke a promise", tuple(more))
    if totals["other"]:
        return Verdict(Tone.BROKEN, f"No promise broken in {seeds}, but some have no verdict", tuple(more))
    if not totals["seeds"]:
        return Verdict(Tone.UNSURE, "No seed has been run", tuple(more))
    text = f"Every promise held in {seeds}"
    if results.damaged:
        return Verdict(Tone.UNSURE, f"{text}, but some rows could not be read", tuple(more))
    return Verdict(Tone.HELD, text, tuple(more))


def _sweep_facts(results: SweepResults) -> list[tuple[str, str]]:
    clean = [row for row in results.pass_rates if row["mutant"] is None]
    totals = _outcome_totals(clean or results.pass_rates)
    names = {"seeds": "seeds", "held": "held", "violated": "broke a promise", "other": "no verdict"}
    return [
        *((text, f"{totals[name]:,}") for name, text in names.items()),
        ("scenarios", f"{len({row['scenario'] for row in results.pass_rates}):,}"),
        ("faults injected", f"{faults_of(results.injected).total():,}"),
        ("seconds of the last call", f"{results.seconds:,.1f}"),
    ]


def _rate_tables(store: str, rows: Sequence[Fields], on: On) -> Iterator[ResultTable]:
    of_cells: defaultdict[tuple[str, str], list[Fields]] = defaultdict(list)
    by_scenario: defaultdict[str, list[Fields]] = defaultdict(list)
    by_run: defaultdict[tuple[str, str, str], list[Fields]] = defaultdict(list)
    for row in rows:
        cell = (row["disk"] or _WITHOUT, row["policy"] or _WITHOUT)
        of_cells[cell].append(row)
        by_scenario[row["scenario"]].append(row)
        if row["held"] < row["seeds"]:
            by_run[row["scenario"], *cell].append(row)
    scenarios = [
        _rate_row(name, SCENARIOS[name].claim if name in SCENARIOS else "", some)
        for name, some in sorted(by_scenario.items())
    ]
    title = f"{store} by scenario"
    yield ResultTable(
        title, on, "", "", ("scenario",), _RATE_COLUMNS, scenarios, only_bad=True, is_titled=True, folded_as=_HELD
    )
    disks, policies = (sorted({cell[number] for cell in of_cells}) for number in (0, 1))
    grid = [Row((disk, *(_rate_cell(of_cells.get((disk, policy))) for policy in policies))) for disk in disks]
    columns = [f"{policy}, %" for policy in policies]
    yield ResultTable(f"{store} by disk and policy", texts=("disk",), figures=columns, rows=grid)
    worst = sorted(by_run, key=lambda run: (_pass_share(by_run[run]), run))
    title = f"Broken: {len(worst[:_WORST_SHOWN])} of {count_text(len(worst), 'combination')}, worst first"
    broken = [_rate_row(run[0], "", by_run[run], run[1:]) for run in worst[:_WORST_SHOWN]]
    texts = ("scenario", "disk", "policy")
    yield ResultTable(title, on, texts=texts, figures=_RATE_COLUMNS, rows=broken, is_titled=True, is_stacked=True)


def _pass_share(rows: Iterable[Fields]) -> float:
    totals = _outcome_totals(rows)
    return totals["held"] / totals["seeds"]


def _rate_row(name: str, about: str, rows: Iterable[Fields], more: Sequence[str] = ()) -> Row:
    totals = _outcome_totals(rows)
    broken, other = totals["violated"], totals["other"]
    cells = (totals["seeds"], TableCell(broken, is_bad=broken > 0), other, rate_text(totals["held"], totals["seeds"]))
    return Row((TableCell(name, about), *more, *cells), bool(broken or other))


def _rate_cell(rows: Sequence[Fields] | None) -> TableCell:
    if not rows:
        return TableCell(_WITHOUT)
    totals = _outcome_totals(rows)
    share, seeds = rate_text(totals["held"], totals["seeds"]), count_text(totals["seeds"], "seed")
    return TableCell(share, seeds, is_bad=totals["held"] < totals["seeds"])


def _detections_table(detections: Sequence[Fields]) -> ResultTable:
    rows = [
        Row((row["mutant"], row["scenario"], row["invariant"] or "not found", row["seeds"], f"{row['seconds']:.1f}"))
        for row in detections
    ]
    note = "Seeds in numerical order up to the first that broke a promise, and their summed time."
    texts = ("mutant", "scenario", "found by")
    return ResultTable("Detections", On.PAGE, "detections", note, texts, ("seeds", "seconds"), rows)


def _mutants_table(mutants: Sequence[Fields], on: On) -> ResultTable:
    rows = []
    for row in mutants:
        median = "-" if row["median_seeds"] is None else f"{row['median_seeds']:,.0f}"
        counts = (row["seeds"], f"{row['seconds']:.1f}", f"{row['found_in']} of {row['scenarios']}", median)
        rows.append(Row((row["mutant"], row["invariant"] or "not found", *counts), not row["found"]))
    title = f"Mutants: {sum(row['found'] for row in mutants)} of {len(mutants)} found"
    note = "Seeds and seconds until found, with scenarios taking turns; the median is over scenarios."
    figures = ("seeds", "seconds", "found\nin", "median\nseeds")
    return ResultTable(title, on, "mutants", note, ("mutant", "found by"), figures, rows, is_titled=True)


def _trends_table(trends: Sequence[Fields], on: On) -> ResultTable:
    groups: dict[tuple[str, str], list[Fields]] = {}
    for row in trends:
        groups.setdefault((row["code"], row["mutant"] or _WITHOUT), []).append(row)
    rows = []
    for cell, some in groups.items():
        figures = (sum(row[name] for row in some) for name in ("seeds", "violated", "again", "broke", "mended"))
        seconds = sum(row["seconds_per_seed"] * row["seeds"] for row in some)
        mean_ms = 1000 * seconds / sum(row["seeds"] for row in some)
        rows.append(Row((*cell, *figures, f"{mean_ms:,.1f}")))
    note = "Oldest first. Repeated: seeds that an earlier version also ran. Of these, some now break, others are fixed."
    columns = ("seeds", "broken", "repeated", "now\nbroken", "fixed", "ms a\nseed")
    title = "Versions of the code"
    return ResultTable(title, on, "trends", note, ("code", "mutant"), columns, rows, is_titled=True)


def _latency_blocks(rows: Sequence[Fields], on: On) -> Iterator[ResultBlock]:
    note = (
        "Acknowledged puts of the unmodified store, in virtual time with disk faults. The picture shows the median as"
        " a dot, and a line to the 99th percentile; puts that took no virtual time are drawn at 1 µs."
    )

    def draw() -> str:
        from ..plotting import inline_svg, put_latency_figure

        return inline_svg(lambda: put_latency_figure(rows), "latency")

    yield Picture("Put latency", anchor="latency", note=note, draw=draw)
    cells = []
    for row in rows:
        times = (duration_text(row[name]) for name in (*PER_MILLE, "max_us"))
        cells.append((row["disk"], "sync" if row["sync_flush"] else "async", row["producers"], row["puts"], *times))
    figures = ("producers", "puts", "p50", "p90", "p99", "p99.9", "max")
    title, rows_shown = "Latency of acknowledged puts, virtual time", list(map(Row, cells))
    yield ResultTable(title, on, texts=("disk", "flush"), figures=figures, rows=rows_shown, is_titled=True)
