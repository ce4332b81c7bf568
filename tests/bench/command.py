"""`python -m tests.bench`: measurements, floors, and the command.

Floors are the project's budget for one core of a two-core CI machine. Noisy neighbours can halve any figure, so rounds
are interleaved: each goes through all measurements once, and ratios compare figures of one round. Floors of puts,
simulated and real, are for asynchronous flush, a store's default; synchronous flush is shown next to them.
"""

import os
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Annotated, NamedTuple, NoReturn

import typer

from tornlog.reports.cli.console import OUT, show_progress
from tornlog.reports.cli.options import EXIT_HELD, JsonFile, ResultFiles, results_written, write_json
from tornlog.reports.studies.closed_loop import Latency, Sample
from tornlog.store.config import FlushDiskType

from .against import OtherCheckoutError, compare, table_of
from .broker import measure_broker_pulls, measure_broker_sends
from .figure import Figure, cpu_seconds_spent
from .history import Histories
from .probe import measure_empty_check, measure_verdict
from .real_store import (
    measure_real_pulls,
    measure_real_puts,
    measure_real_queries,
    measure_real_recovery_scan,
    why_missing,
)
from .recorded_programs import PROGRAMS, missing_tool
from .recorder import (
    is_recordable,
    measure_comparison,
    measure_recorded,
    measure_under_strace,
    measure_without_recording,
    why_no_strace,
)
from .simulated import (
    measure_crash_runs,
    measure_crash_states,
    measure_digest_overhead,
    measure_kernel_steps,
    measure_simulated_messages,
)
from .store_measurements import (
    measure_batch_puts,
    measure_clean_load,
    measure_dispatch,
    measure_load_of_queues,
    measure_memory_copy,
    measure_page_sync,
    measure_pulls,
    measure_puts,
    measure_queries,
    measure_recovery_scan,
    measure_sequential_write,
)
from .tables import fill_page, page_text, print_bench
from .workplace import BenchSettings, Workplace

_BODIES = ((1024, "1 KiB"), (100, "100 B"))
_FLUSHES = ((FlushDiskType.ASYNC_FLUSH, "async"), (FlushDiskType.SYNC_FLUSH, "sync"))
_PRODUCERS = (1, 4, 16)
_BROKER_CONNECTIONS = (1, 16)
_BROKER_FLOORS = {("async", 16): 5_000.0}
_HISTORIES = Histories()


class Measurement(NamedTuple):
    """One measurement; floor and ceiling are None if not set. A ceiling is for figures where less is better."""

    name: str
    unit: str
    floor: float | None
    measure: Callable[[Workplace], Sample]
    ceiling: float | None = None


@dataclass(frozen=True, slots=True)
class Ratio:
    """Two measurements, compared round by round."""

    name: str
    floor: float | None
    over: str
    under: str
    ceiling: float | None = None


def _put_name(body: str, flush: str, producers: int) -> str:
    return f"put {body} {flush}, by {producers}"


def _real_name(what: str) -> str:
    return f"real store, {what}"


def _batch_name(body: str, flush: str) -> str:
    return f"put {body} {flush}, batches"


_PUT_FLOORS = {_put_name("1 KiB", "async", 1): 40_000.0, _batch_name("1 KiB", "async"): 120_000.0}


def _broker_sends() -> list[Measurement]:
    return [
        Measurement(
            f"broker send {flush}, by {connections}",
            "sends/s",
            _BROKER_FLOORS.get((flush, connections)),
            partial(measure_broker_sends, flush=flush_type, connections=connections),
        )
        for flush_type, flush in _FLUSHES
        for connections in _BROKER_CONNECTIONS
    ]


def _simulated(measure: Callable[[], float]) -> Callable[[Workplace], Sample]:
    return lambda place: Sample(measure())


def _puts() -> list[Measurement]:
    found = []
    for body_bytes, body in _BODIES:
        for flush_type, flush in _FLUSHES:
            for producers in _PRODUCERS:
                name = _put_name(body, flush, producers)
                measure = partial(measure_puts, body_bytes=body_bytes, flush=flush_type, producers=producers)
                found.append(Measurement(name, "puts/s", _PUT_FLOORS.get(name), measure))
            name = _batch_name(body, flush)
            measure = partial(measure_batch_puts, body_bytes=body_bytes, flush=flush_type)
            found.append(Measurement(name, "messages/s", _PUT_FLOORS.get(name), measure))
    return found


_REAL_STORE = (
    *(
        Measurement(_real_name(f"put {flush}"), "puts/s", None, partial(measure_real_puts, body_bytes=1024, flush=how))
        for how, flush in _FLUSHES
    ),
    Measurement(
        _real_name("put sync by 16"),
        "puts/s",
        None,
        partial(measure_real_puts, body_bytes=1024, flush=FlushDiskType.SYNC_FLUSH, producers=16),
    ),
    Measurement(
        _real_name("put in batches"),
        "messages/s",
        None,
        partial(measure_real_puts, body_bytes=1024, flush=FlushDiskType.ASYNC_FLUSH, batch=True),
    ),
    Measurement(_real_name("get"), "messages/s", None, partial(measure_real_pulls, body_bytes=1024)),
    Measurement(_real_name("query by key"), "queries/s", None, measure_real_queries),
    Measurement(_real_name("recovery"), "MB/s", None, measure_real_recovery_scan),
)

_WAYS = {
    "bare": measure_without_recording,
    **({} if why_no_strace() else {"under strace": measure_under_strace}),
    "recorded": measure_recorded,
}
_INSTALLED = tuple(name for name in PROGRAMS if not missing_tool(name))
_RECORDER = (
    *(
        Measurement(f"{what}, {way}", "µs", None, partial(measure, kind=kind))
        for what, kind in (("call", "calls"), ("sync", "syncs"), ("promise", "promises"))
        for way, measure in _WAYS.items()
    ),
    *(
        Measurement(f"{name} write, {way}", "µs", None, partial(measure, kind=name))
        for name in _INSTALLED
        for way, measure in _WAYS.items()
    ),
    Measurement("call, compared", "µs", None, measure_comparison),
    Measurement("store, recorded", "µs", None, partial(measure_recorded, kind="stores")),
    Measurement("verdict on SQLite", "s", None, measure_verdict, ceiling=40.0),
    Measurement("states of SQLite", "states/s", 7_500.0, measure_empty_check),
)

MEASUREMENTS = (
    Measurement("kernel steps", "steps/s", 400_000.0, _simulated(measure_kernel_steps)),
    *(
        Measurement(name, "messages/s", floor, _simulated(partial(measure_simulated_messages, **how)))
        for name, floor, how in (
            ("simulated messages, async", 15_000.0, {"sync_flush": False}),
            ("simulated messages, sync", None, {"sync_flush": True}),
            ("simulated messages, keyed", None, {"sync_flush": False, "keyed": True}),
        )
    ),
    Measurement(
        "complete crash runs, async", "runs/s", 150.0, _simulated(partial(measure_crash_runs, sync_flush=False))
    ),
    Measurement("complete crash runs, sync", "runs/s", None, _simulated(partial(measure_crash_runs, sync_flush=True))),
    Measurement("crash states", "states/s", 500.0, _simulated(measure_crash_states)),
    Measurement("digest overhead", "%", None, _simulated(measure_digest_overhead), ceiling=8.0),
    Measurement("history judged", "puts/s", 100_000.0, _HISTORIES.rate),
    Measurement("history judged, a tenth", "puts/s", None, _HISTORIES.rate_of_a_tenth),
    Measurement("history in memory", "bytes/put", None, _HISTORIES.peak_memory, ceiling=1_000.0),
    Measurement("memory: copy", "MB/s", None, measure_memory_copy),
    Measurement("disk: sequential write", "MB/s", None, measure_sequential_write),
    Measurement("disk: fdatasync of 4 KiB", "syncs/s", None, measure_page_sync),
    *_puts(),
    Measurement("get 1 KiB, 32 at a time", "messages/s", 60_000.0, partial(measure_pulls, body_bytes=1024)),
    Measurement("get 100 B, 32 at a time", "messages/s", None, partial(measure_pulls, body_bytes=100)),
    Measurement("query by key", "queries/s", None, measure_queries),
    Measurement("dispatch", "messages/s", 60_000.0, measure_dispatch),
    Measurement("dispatch, a key each", "messages/s", None, partial(measure_dispatch, keyed=True)),
    Measurement("recovery scan with CRC", "MB/s", 400.0, measure_recovery_scan),
    Measurement("recovery, a key each", "MB/s", None, partial(measure_recovery_scan, keyed=True)),
    Measurement("load after a clean exit", "ms", None, measure_clean_load),
    Measurement("load of 1,000 queues", "queues/s", None, partial(measure_load_of_queues, queues=1_000)),
    Measurement("load of 10,000 queues", "queues/s", None, partial(measure_load_of_queues, queues=10_000)),
    *_broker_sends(),
    Measurement("broker pull, by 8", "messages/s", None, partial(measure_broker_pulls, connections=8)),
    *(() if why_missing() else _REAL_STORE),
    *(_RECORDER if is_recordable() else ()),
)

RATIOS = (
    Ratio("history, 10 times over 1", 0.7, "history judged", "history judged, a tenth"),
    Ratio("queues, 10,000 over 1,000", 0.83, "load of 10,000 queues", "load of 1,000 queues"),
    Ratio("batches over single puts", None, _batch_name("1 KiB", "async"), _put_name("1 KiB", "async", 1)),
    Ratio("group commit, by 16 over 1", 6.0, _put_name("1 KiB", "sync", 16), _put_name("1 KiB", "sync", 1)),
    *(
        Ratio(f"{what} over real store", None, ours, _real_name(theirs))
        for what, ours, theirs in (
            ("put async", _put_name("1 KiB", "async", 1), "put async"),
            ("put sync", _put_name("1 KiB", "sync", 1), "put sync"),
            ("sync by 16", _put_name("1 KiB", "sync", 16), "put sync by 16"),
            ("batches", _batch_name("1 KiB", "async"), "put in batches"),
            ("get", "get 1 KiB, 32 at a time", "get"),
            ("query", "query by key", "query by key"),
            ("recovery", "recovery scan with CRC", "recovery"),
        )
    ),
    Ratio("recorded call over strace", None, "call, recorded", "call, under strace", ceiling=2.0),
    Ratio("recorded store over strace", None, "store, recorded", "call, under strace", ceiling=4.0),
    Ratio("sync over strace", None, "sync, recorded", "sync, under strace", ceiling=2.0),
    Ratio("promise over strace", None, "promise, recorded", "promise, under strace", ceiling=2.0),
    Ratio("sync over bare", None, "sync, recorded", "sync, bare"),
    Ratio("promise over bare", None, "promise, recorded", "promise, bare"),
    *(
        Ratio(
            f"{name} write over {way.split()[-1]}",
            None,
            f"{name} write, recorded",
            f"{name} write, {way}",
            ceiling=most,
        )
        for name, ceiling in (("go", 4.0), ("sqlite", 3.5), ("redis", 2.5), ("jvm", 1.8))
        for way, most in (("bare", ceiling), ("under strace", None))
    ),
)


def select(only: Sequence[str]) -> list[Measurement]:
    """Return the measurements whose names contain one of the texts; without texts, all.

    A ratio's name selects both its sides. ValueError for a text that no name contains.
    """
    wanted: set[str] = set()
    for text in only:
        hits = {one.name for one in MEASUREMENTS if text.lower() in one.name.lower()}
        for ratio in RATIOS:
            if text.lower() in ratio.name.lower():
                hits |= {ratio.over, ratio.under}
        if not hits:
            raise ValueError(f"no figure has {text!r} in its name")
        wanted |= hits
    return [one for one in MEASUREMENTS if not only or one.name in wanted]


def run_bench(
    rounds: int, on_begin: Callable[[str], None], settings: BenchSettings | None = None, only: Sequence[str] = ()
) -> list[Figure]:
    """Measure in rounds, and compare; on_begin is called with the next measurement."""
    figures = measured(select(only), rounds, on_begin, settings or BenchSettings())
    samples = {figure.name: figure.samples for figure in figures}
    return figures + [_compare(ratio, samples) for ratio in RATIOS if {ratio.over, ratio.under} <= set(samples)]


def measured(
    wanted: Sequence[Measurement], rounds: int, on_begin: Callable[[str], None], settings: BenchSettings
) -> list[Figure]:
    """Measure each, round after round; on_begin is called with the next measurement."""
    samples: defaultdict[str, list[float]] = defaultdict(list)
    latencies: defaultdict[str, list[Latency]] = defaultdict(list)
    loads: defaultdict[str, list[float]] = defaultdict(list)
    per_second: defaultdict[str, list[Mapping[str, float]]] = defaultdict(list)
    cpu_us: defaultdict[str, list[float]] = defaultdict(list)
    with Workplace(settings) as place:
        for number in range(rounds):
            for one in wanted:
                on_begin(f"round {number + 1} of {rounds}: {one.name}")
                cpu_seconds, began = cpu_seconds_spent(), perf_counter()
                sample = one.measure(place)
                cpu_seconds, took_seconds = cpu_seconds_spent() - cpu_seconds, perf_counter() - began
                if one.unit.endswith("/s") and sample.rate:
                    cpu_us[one.name].append(cpu_seconds / (sample.rate * took_seconds) * 1e6)
                samples[one.name].append(sample.rate)
                if sample.latency is not None:
                    latencies[one.name].append(sample.latency)
                if sample.per_second:
                    per_second[one.name].append(sample.per_second)
                loads[one.name].append(round(os.getloadavg()[0], 2))
    return [
        Figure(
            one.name,
            one.unit,
            one.floor,
            tuple(samples[one.name]),
            tuple(latencies[one.name]),
            tuple(loads[one.name]),
            one.ceiling,
            tuple(per_second[one.name]),
            tuple(cpu_us[one.name]),
        )
        for one in wanted
    ]


def _compare(ratio: Ratio, samples: Mapping[str, Sequence[float]]) -> Figure:
    pairs = zip(samples[ratio.over], samples[ratio.under], strict=True)
    return Figure(ratio.name, "x", ratio.floor, tuple(over / under for over, under in pairs), ceiling=ratio.ceiling)


def bench(
    rounds: Annotated[int, typer.Option(min=1, help="Measurements of each figure; the median counts.")] = 5,
    only: Annotated[
        list[str] | None, typer.Option(metavar="TEXT", help="Only figures with TEXT in their name; repeatable.")
    ] = None,
    quick: Annotated[bool, typer.Option(help="One round of everything in small: a look, not a record.")] = False,
    directory: Annotated[
        Path | None, typer.Option("--dir", exists=True, file_okay=False, help="Measure below DIR, not in /tmp.")
    ] = None,
    log_bytes: Annotated[int, typer.Option(min=1, help="Size of the log that recovery scans.")] = 1 << 30,
    against: Annotated[
        Path | None,
        typer.Option(exists=True, file_okay=False, help="Another checkout: measure both, in turns, and compare."),
    ] = None,
    page: Annotated[
        Path | None, typer.Option(metavar="FILE", dir_okay=False, help="Write the figures as Markdown to FILE, dated.")
    ] = None,
    json_file: JsonFile = None,
) -> None:
    """Measure what the harness and the store do in a second."""
    if against is not None:
        arguments = [*(["--quick"] if quick else []), "--log-bytes", str(log_bytes)]
        arguments += [] if directory is None else ["--dir", str(directory.resolve())]
        _compare_checkouts(against, 1 if quick else rounds, only or (), arguments, json_file)
    settings = BenchSettings(None if directory is None else str(directory.resolve()), log_bytes=log_bytes)
    if quick:
        settings, rounds = settings.quick(), 1
    try:
        select(only or ())
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--only") from error
    with show_progress() as update:
        figures = run_bench(rounds, lambda name: update(description=name), settings, tuple(only or ()))
    written = ResultFiles()
    with written.writing():
        write_json(json_file, {"format": "tornlog-bench/1", "figures": [figure.to_json() for figure in figures]})
    if json_file != "-":
        print_bench(OUT, figures, rounds)
    if page is not None:
        with written.writing(), results_written("--page"):
            try:
                fill_page(page, page_text(figures, rounds, date.today()))
            except ValueError as error:
                raise typer.BadParameter(str(error), param_hint="--page") from error
    written.exit(EXIT_HELD)


def _compare_checkouts(
    other: Path, rounds: int, only: Sequence[str], arguments: Sequence[str], json_file: str | None
) -> NoReturn:
    try:
        with show_progress() as update:
            compared = compare(other, rounds, only, arguments, lambda what: update(description=what))
    except OtherCheckoutError as error:
        raise typer.BadParameter(str(error), param_hint="--against") from error
    written = ResultFiles()
    with written.writing():
        write_json(json_file, {"format": "tornlog-bench-against/1", "figures": [one.to_json() for one in compared]})
    if json_file != "-":
        OUT.print(table_of(compared, rounds))
    written.exit(EXIT_HELD)
