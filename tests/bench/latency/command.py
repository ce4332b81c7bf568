"""`python -m tests.bench.latency`: this store and the real one in turns, in one picture and one table."""

from pathlib import Path
from typing import Annotated

import typer

from tests.conformance.maven import JavaMissing
from tornlog.reports.cli.console import with_progress
from tornlog.reports.cli.options import JsonFile, PicturesDir
from tornlog.reports.studies.latency.real.command import measured_plan, report_turns, size_named
from tornlog.reports.studies.latency.real.model import MachineModel, simulated_turns
from tornlog.reports.studies.latency.real.turns import OWN_SOURCES, Source, TurnPlan, conditions_with

from .measurement import MEASUREMENT_NAME, read_measurement, write_measurement
from .real_source import VERSION, RealSource, real_store_program


def latency(
    memory: Annotated[str, typer.Option(metavar="SIZE", help="Memory limit of each store's process.")] = "256MiB",
    load: Annotated[str, typer.Option(metavar="RATE", help="Bytes a second that a neighbour writes.")] = "50MiB",
    producers: Annotated[
        list[int] | None, typer.Option(min=1, help="Number of concurrent producers; repeatable.")
    ] = None,
    turns: Annotated[int, typer.Option(min=1, help="Turns, fewer if the machine is slow.")] = 20,
    seconds: Annotated[float, typer.Option(min=0.05, help="Duration of one mode's arrivals in one turn.")] = 1.0,
    minutes: Annotated[float, typer.Option(min=0.1, help="Time for all turns.")] = 18.0,
    directory: Annotated[
        Path | None, typer.Option("--dir", exists=True, file_okay=False, help="Measure in DIR.")
    ] = None,
    model: Annotated[bool, typer.Option(help="Also simulate each turn on the disk measured in it.")] = True,
    again: Annotated[
        Path | None,
        typer.Option(
            exists=True, dir_okay=False, help="Measure nothing: simulate and report this earlier measurement."
        ),
    ] = None,
    out: PicturesDir = Path("out"),
    json_file: JsonFile = None,
) -> None:
    """Measure put latencies of this store and of RocketMQ's own, with free memory and under pressure.

    The stores, their flush modes and all conditions alternate in short turns, over the same arrivals.
    """
    if again is not None:
        try:
            plan, found, parts = read_measurement(again)
        except (OSError, ValueError) as error:
            raise typer.BadParameter(str(error), param_hint="--again") from error
        simulated = (turn for each in parts.items() for turn in simulated_turns(plan, *each))
        found += with_progress("simulating", simulated, len(parts) * len(plan.cells()) // len(plan.sources))
        report_turns(plan, found, out, json_file)
    conditions = conditions_with(size_named(memory, "--memory"), size_named(load, "--load"))
    try:
        sources: dict[str, Source] = {**OWN_SOURCES, VERSION: RealSource(real_store_program())}
    except JavaMissing as missing:
        raise typer.BadParameter(str(missing)) from missing
    plan = TurnPlan(conditions, producers or [4], turns, seconds, sources=sources, seconds_max=60 * minutes)
    if model:
        plan = plan._replace(extra=MachineModel)
    plan, found = measured_plan(plan, directory)
    write_measurement(plan, found, out / MEASUREMENT_NAME)
    report_turns(plan, found, out, json_file)
