"""`tornlog run --check-determinism --processes N`: the same seeds in other processes.

JSON: `{"format": "tornlog-determinism/1", "witnesses": [names], "runs", "digests": {scenario: digest}, "differences":
[lines], "errors": [texts], "seconds"}`.
"""

from typing import NoReturn

import typer

from ...scenarios.campaigns.amounts import seeds_in
from ...scenarios.campaigns.determinism import DeterminismReport, WitnessError, WitnessProcess, compare
from ...scenarios.campaigns.interpreters import InterpreterError, furnished, installed
from .console import OUT, findings_console, print_error, progress_shown
from .named import scenarios_named
from .options import EXIT_HARNESS, EXIT_HELD, EXIT_NONDETERMINISTIC, ResultFiles, write_json

SEEDS = "20"
"""Of each scenario, where nobody says how many."""
_DIFFERENCES_SHOWN_MAX = 10


def check_processes(
    names: list[str], seeds: str | None, processes: int, python: tuple[str, ...], json_file: str | None
) -> NoReturn:
    """Run seeds here, and again in another order in processes with other hashes; say what differs, and exit."""
    scenarios, wanted = scenarios_named(names, None, None), seeds_in(seeds or SEEDS, None)
    assert wanted is not None, seeds
    pythons = [path for one in python for path in (installed() if one == "all" else [one])]
    with progress_shown("running everything again", len(scenarios) * len(wanted)) as update:
        try:
            with furnished(pythons) as others:
                witnesses = [WitnessProcess("another process"), *others]
                found = compare(
                    [scenario.name for scenario in scenarios],
                    wanted,
                    witnesses,
                    jobs=processes,
                    on_progress=lambda runs: update(advance=runs),
                )
        except (InterpreterError, WitnessError) as error:
            print_error(error)
            raise typer.Exit(EXIT_HARNESS) from error
    files = ResultFiles()
    _print_comparison(found, [one.name for one in witnesses], json_file, files)
    if found.errors:
        files.exit(EXIT_HARNESS)
    files.exit(EXIT_NONDETERMINISTIC if found.differences else EXIT_HELD)


def _print_comparison(
    found: DeterminismReport, witnesses: list[str], json_file: str | None, files: ResultFiles
) -> None:
    document = {
        "format": "tornlog-determinism/1",
        "witnesses": witnesses,
        "runs": found.runs,
        "digests": found.digests,
        "differences": [str(difference) for difference in found.differences],
        "errors": found.errors,
        "seconds": round(found.seconds, 3),
    }
    with files.attempt():
        write_json(json_file, document)
    if json_file != "-":
        differ = f"{len(found.differences)} differ" if found.differences else "the same digests"
        again = f"{found.runs:,} runs, again with {', '.join(witnesses)}: {differ}, {found.seconds:.0f} s"
        OUT.print(again, soft_wrap=True)
    for line in [*found.errors[:1], *map(str, found.differences[:_DIFFERENCES_SHOWN_MAX])]:
        findings_console(json_file).print(line, style="red", markup=False, soft_wrap=True)
