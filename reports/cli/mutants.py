"""Options of `mutants`, which runs the scenarios on stores with known bugs.

JSON: a list of `{"id", "found", "scenario", "invariant", "expected": whether the mutant declares that invariant,
"seeds", "core_seconds", "reached": seeds in which the changed code ran, or null for a changed constant, "bit": seeds in
which the mutant reported a changed behaviour, or null if it does not report, "differing": null or `{"seeds", "of"}`,
"missed_because", "finds": [{"scenario", "seed", "invariant", "seeds", "core_seconds"}], "shrunk", "clean_violation",
"error"}`. seeds and core_seconds count up to the first scenario seed that finds the mutant. shrunk: null without
--shrink, else `{"messages", "preemptions", "switches", "sectors", "faults", "lives", "tries", "seconds"}`. `{"id",
"not_run": true}` is a mutant that did not run because of an interruption.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from .options import Jobs, JsonFile, JunitFile, complete_mutant, complete_scenario


@dataclass(frozen=True)
class MutantsOptions:
    """Put known bugs into the store; show which scenarios find them.

    The catalogue has bugs of real stores. MODULE:ID names a mutant in a module of your own, FILE.py:ID one in a file.
    """

    context: typer.Context
    ids: Annotated[
        list[str] | None,
        typer.Argument(help="Mutants. Default: all mutants of the set.", autocompletion=complete_mutant),
    ] = None
    brought: Annotated[
        list[str] | None,
        typer.Option("--mutant", metavar="FILE.py", help="The mutants of a file, or FILE.py:ID; repeatable."),
    ] = None
    module: Annotated[
        str | None,
        typer.Option("--set", metavar="MODULE", help="The MUTANTS of an importable module instead of the catalogue."),
    ] = None
    scenarios: Annotated[
        list[str] | None,
        typer.Option(
            "--scenario", metavar="NAME", help="Run only this scenario; repeatable.", autocompletion=complete_scenario
        ),
    ] = None
    narrowed: Annotated[
        bool,
        typer.Option(
            "--narrowed", help="Narrow the drawn ranges to suit each mutant: to develop a mutant, not to measure."
        ),
    ] = False
    all_scenarios: Annotated[
        bool,
        typer.Option("--all-scenarios", help="Continue until each scenario has found the mutant, or up to a limit."),
    ] = False
    seeds: Annotated[int | None, typer.Option(min=1, help="Maximum of seeds per mutant and scenario.")] = None
    time: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="Maximum of core-seconds per mutant, such as 10m. Default: 60s, unless --seeds is given.",
        ),
    ] = None
    jobs: Jobs = 1
    shrink: Annotated[bool, typer.Option(help="Shrink the failure that finds each mutant, for up to 15 s.")] = False
    verbose: Annotated[bool, typer.Option("--verbose", help="Show a row for every mutant.")] = False
    out: Annotated[
        Path | None, typer.Option(file_okay=False, help="Write report.html, failures and timelines to DIR.")
    ] = None
    junit: JunitFile = None
    json_file: JsonFile = None
