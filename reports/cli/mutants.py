"""The command that runs known bugs.

JSON: a list of `{"id", "found", "scenario", "invariant", "expected": whether the mutant names that invariant, "seeds",
"core_seconds", "reached": seeds in which its code ran or null for a constant, "bit": seeds in which it reported that it
did otherwise or null if it does not report, "differing": null or `{"seeds", "of"}`, "missed_because", "finds":
[{"scenario", "seed", "invariant", "seeds", "core_seconds"}], "shrunk", "clean_violation", "error"}`. seeds and
core_seconds are until the first find. shrunk is null without --shrink, else `{"messages", "preemptions", "switches",
"sectors", "faults", "lives", "tries", "seconds"}`. Of one that an interruption left out: `{"id", "not_run":
true}`.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from .options import Jobs, JsonFile, JunitFile, complete_mutant, complete_scenario


@dataclass(frozen=True)
class MutantsOptions:
    """Put bugs into the store, one at a time, and see which scenario finds each, and in how many core-seconds.

    The catalogue's are known from real stores. MODULE:ID is a mutant of a module of your own, FILE.py:ID of a file.
    """

    context: typer.Context
    ids: Annotated[
        list[str] | None,
        typer.Argument(help="Mutants; all of the set without any.", autocompletion=complete_mutant),
    ] = None
    brought: Annotated[
        list[str] | None,
        typer.Option("--mutant", metavar="FILE.py", help="The mutants of a file, or FILE.py:ID; repeatable."),
    ] = None
    module: Annotated[
        str | None,
        typer.Option(
            "--set",
            metavar="MODULE",
            help="The MUTANTS of a module that can be imported, not the catalogue's.",
        ),
    ] = None
    scenarios: Annotated[
        list[str] | None,
        typer.Option(
            "--scenario",
            metavar="NAME",
            help="In this scenario only; repeatable.",
            autocompletion=complete_scenario,
        ),
    ] = None
    narrowed: Annotated[
        bool, typer.Option("--narrowed", help="In ranges narrowed to each mutant: to work on it, not for the figure.")
    ] = False
    all_scenarios: Annotated[
        bool, typer.Option("--all-scenarios", help="Go on until each scenario has found it, or a limit is met.")
    ] = False
    seeds: Annotated[int | None, typer.Option(min=1, help="Seeds per mutant and scenario at most.")] = None
    time: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Core-seconds per mutant at most, as in 10m. 60s without --seeds."),
    ] = None
    jobs: Jobs = 1
    shrink: Annotated[bool, typer.Option(help="Make what finds each small, for 15 s at most.")] = False
    verbose: Annotated[bool, typer.Option("--verbose", help="Show a row for every mutant.")] = False
    out: Annotated[
        Path | None, typer.Option(file_okay=False, help="Leave report.html, failures and timelines in DIR.")
    ] = None
    junit: JunitFile = None
    json_file: JsonFile = None
