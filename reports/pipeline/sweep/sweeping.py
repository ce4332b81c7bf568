"""Implementation of `run_sweep`: opens the engine, shows progress, writes report and output."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, NoReturn

import typer

from ....scenarios.campaigns.amounts import parse_seconds, parse_seeds
from ....scenarios.campaigns.failures.failure import Failure
from ....scenarios.campaigns.failures.failure_text import failure_text
from ....sim.interruption import interruptible
from ....store.errors import install_command
from ...cli.console import show_progress
from ...cli.named import require_mutant, scenarios_named
from ...cli.options import (
    EXIT_BROKEN,
    EXIT_HARNESS,
    EXIT_HELD,
    IN_PROCESS,
    PAGE,
    ResultFiles,
    command_line,
    results_written,
)
from ...cli.reporting import FailureLinks, replay_command, write_failures, write_timelines
from ...html.sweep_report import SweepResults, sweep_result
from ...quantities import count_text
from ...results.leaving import write_result_and_exit
from ...results.model import FailureGroup, Failures, Lines, On, Result, ResultBlock, ResultTable, Row, Tone, Verdict
from ..spark.engine import is_in_this_environment
from ..spark.options import engine_for, place_of
from .command import SweepOptions

if TYPE_CHECKING:
    from .sweep import SweepProgress
    from .table import Table

_UI = "spark.ui.enabled"
_BAD = ("harness-error", "nondeterministic", "timed-out", "crashed")


def sweep_seeds(asked: SweepOptions) -> NoReturn:
    out, mutant, json_file = asked.out, asked.mutant, asked.json_file
    names = [one.name for one in scenarios_named(asked.scenario, asked.disk, asked.policy)]
    require_mutant(mutant)
    wanted, seconds = parse_seeds(asked.seeds, None), parse_seconds(asked.shrink, "--shrink")
    assert wanted is not None, "an option that must be given"
    try:
        from .request import SweepFileError, SweepRequest
        from .sweep import run_sweep, shrunk_failures, smallest_failures
        from .table import MergeError, Table, merge_table
    except ImportError as error:
        raise typer.BadParameter(f"{error}; {install_command('spark')} installs it") from error
    request = SweepRequest(tuple(names), wanted.start, wanted.stop, asked.disk, asked.policy, mutant)
    here = Path(out) if "://" not in out else None
    if (
        here is not None
        and (here / PAGE).exists()
        and not any((here / each).exists() for each in ("sweep.json", "rows"))
    ):
        raise typer.BadParameter(f"{out}: it holds the report of something else", param_hint="--out")
    table, began = Table(place_of(out, "--out")), perf_counter()
    latest: list[SweepProgress] = []

    def work() -> tuple["SweepProgress", list[Failure], int | None]:
        with engine_for(asked.master, asked.ship, spark_properties_with_ui(asked.master, asked.conf)) as engine:
            try:
                with show_progress("sweeping", request.seeds, ticks=False) as update:

                    def on_progress(progress: "SweepProgress") -> None:
                        latest[:] = [progress]
                        rate = progress.done / (perf_counter() - began)
                        facts = f"{rate:.0f}/s, {progress.failures} broken"
                        update(completed=progress.done_before + progress.done, facts=facts, refresh=True)

                    done = run_sweep(request, table, engine, stop_after=asked.stop_after, on_progress=on_progress)
                files = merge_table(table, engine) if asked.compact else None
            except SweepFileError as error:
                raise typer.BadParameter(f"{out}: {error}", param_hint="--out") from error
            except MergeError as error:
                raise typer.BadParameter(f"{out}: {error}", param_hint="--compact") from error
            except OSError as error:
                typer.echo(f"{error.filename or out}: {error.strerror or error}", err=True)
                raise typer.Exit(EXIT_HARNESS) from None
            small = shrunk_failures(smallest_failures(table), engine, seconds)
            return done, sorted(small, key=lambda failure: failure.signature), files

    with interruptible() as interruption:
        worked = interruption.result_unless_requested(work)
    interrupted, files = worked is None, None
    if worked is not None:
        done, small, files = worked
    elif latest:
        (done,), small = latest, smallest_failures(table)
    else:
        raise typer.Exit(interruption.exit_code)  # no seed has run yet
    paths, files_left = dict[str, Path](), ResultFiles()
    with files_left.writing(), results_written("--out"):
        paths = write_failures(small, here)
    took = perf_counter() - began
    title = f"{'interrupted: ' if interrupted else ''}{done.done:,} seeds in {took:.1f} s"
    if done.done_before:
        title += f", {done.done_before:,} done before"
    exit_code = EXIT_BROKEN if small else EXIT_HELD
    if any(done.outcomes[outcome] for outcome in _BAD):
        exit_code = EXIT_HARNESS
    if interrupted:
        exit_code = interruption.exit_code
    document = {
        "format": "tornlog-sweep-result/1",
        "out": out,
        "seeds": done.seeds,
        "rows": done.done_before + done.done,
        "complete": done.is_complete,
        "interrupted": interrupted,
        "outcomes": dict(sorted(done.outcomes.items())),
        "signatures": dict(sorted(done.signatures.items())),
        "failures": [str(path) for path in paths.values()],
        "files": files,
        "report": None,
        "seconds": round(took, 3),
        "work_seconds": round(done.work_seconds, 3),
    }
    blocks = list(_terminal_blocks(done, files, small, paths))
    result = Result("sweep", title, Verdict(Tone.BROKEN if small else Tone.HELD, title), exit_code, document)
    page = here if len(paths) == len({one.signature for one in small}) else None
    if page is not None:
        links = write_timelines(
            small, paths, page, lambda one: replay_command(paths[one.signature]), draws=not interrupted
        )
        sums = _sweep_results(done, table, mutant, command_line(asked.context), took, links)
        result = sweep_result(sums, title, exit_code, document)
    write_result_and_exit(
        replace(result, blocks=[*blocks, *result.blocks]), json_file=json_file, page=page, files=files_left
    )


def _terminal_blocks(
    done: "SweepProgress", files: int | None, small: Sequence[Failure], paths: Mapping[str, Path]
) -> Iterator[ResultBlock]:
    rows = [Row((name, count)) for name, count in sorted(done.outcomes.items(), key=lambda pair: -pair[1])]
    yield ResultTable("Outcomes", On.TERMINAL, texts=("outcome",), figures=("seeds",), rows=rows)
    lines = [] if files is None else [f"all rows are in {count_text(files, 'file')}"]
    if not done.is_complete:
        lines.append(f"{count_text(done.left, 'seed')} left: repeat the call to continue")
    yield Lines("", On.TERMINAL, lines=lines)
    again = {signature: replay_command(path) for signature, path in paths.items()}
    texts = [failure_text(one, again.get(one.signature, "")) for one in small]
    yield Failures("Failures", On.ALARM, groups=[FailureGroup(texts)])


def spark_properties_with_ui(master: str, conf: list[str] | None) -> list[str] | None:
    """Switch Spark's UI on, unless the properties set it or the master is local.

    A sweep on a cluster takes hours; the UI shows executors, tasks and failures.
    """
    if master == IN_PROCESS or is_in_this_environment(master) or any(one.startswith(f"{_UI}=") for one in conf or ()):
        return conf
    return [f"{_UI}=true", *(conf or ())]


def _sweep_results(
    done: "SweepProgress",
    table: "Table",
    mutant: str | None,
    command: str,
    seconds: float,
    failures: Mapping[str, FailureLinks],
) -> SweepResults:
    from .summed import detections, sum_sweep

    sums = sum_sweep(table)
    return SweepResults(
        "sweep",
        command,
        seconds,
        sums.pass_rates(),
        sums.put_latency(),
        [] if mutant is None else detections(table, mutant),
        sums.injected,
        sums.marks,
        sums.pairs,
        sums.judged,
        sums.tried,
        sums.broken,
        sums.signatures,
        failures,
        done.left,
    )
