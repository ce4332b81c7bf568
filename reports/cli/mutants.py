"""Options of `mutants`, which runs the scenarios on stores with known bugs."""

from dataclasses import dataclass
from pathlib import Path

import typer

from .options import Jobs, JsonFile, JunitFile, argument, complete_mutant, complete_scenario, option


@dataclass(frozen=True)
class MutantsOptions:
    """Put known bugs into the store; show which scenarios find them.

    The catalogue has bugs of real stores. MODULE:ID names a mutant in a module of your own, FILE.py:ID one in a file.
    """

    context: typer.Context
    ids: list[str] | None = argument(
        None, metavar="[MUTANT]...", help="Mutants. Default: all mutants of the set.", autocompletion=complete_mutant
    )
    brought: list[str] | None = option(
        None, "--mutant", metavar="FILE.py", help="The mutants of a file, or FILE.py:ID; repeatable."
    )
    module: str | None = option(
        None, "--set", metavar="MODULE", help="The MUTANTS of an importable module instead of the catalogue."
    )
    scenarios: list[str] | None = option(
        None, "--scenario", help="Run only this scenario; repeatable.", autocompletion=complete_scenario
    )
    narrowed: bool = option(
        False, "--narrowed", help="Narrow the drawn ranges to suit each mutant: to develop a mutant, not to measure."
    )
    all_scenarios: bool = option(
        False, "--all-scenarios", help="Continue until each scenario has found the mutant, or up to a limit."
    )
    seeds: int | None = option(None, min=1, help="Maximum number of seeds per mutant and scenario.")
    time: str | None = option(
        None,
        help="Maximum CPU time per mutant, such as 10m. Default: 60s, unless --seeds is given.",
    )
    measured: Path | None = option(
        None,
        metavar="FILE",
        exists=True,
        dir_okay=False,
        help="Run first those runs of FILE (of `make conditions`) that reach most conditions of the code with the bug.",
    )
    jobs: Jobs = 1
    shrink: bool = option(False, "--shrink", help="Shrink the failure that finds each mutant, for up to 15 s.")
    verbose: bool = option(False, "--verbose", help="Show a row for every mutant.")
    out: Path | None = option(None, file_okay=False, help="Write report.html, failures and timelines to DIR.")
    junit: JunitFile = None
    json_file: JsonFile = None
