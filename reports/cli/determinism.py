"""Implementation of `run --check-determinism`: repeats seeds in other processes."""

from typing import NoReturn

import typer

from ...scenarios.campaigns.amounts import parse_seeds
from ...scenarios.campaigns.determinism import WitnessError, WitnessProcess, compare_digests
from ...scenarios.campaigns.interpreters import InterpreterError, installed_pythons, witnesses_on
from ..results.model import Lines, On, Result, Tone, Verdict
from ..results.output import write_result_and_exit
from .console import print_error, show_progress
from .named import scenarios_named
from .options import EXIT_HARNESS, EXIT_HELD, EXIT_NONDETERMINISTIC
from .run import RunOptions

SEEDS = "20"
_DIFFERENCES_SHOWN_MAX = 10


def check_processes(options: RunOptions) -> NoReturn:
    scenarios, wanted = scenarios_named(options.names, None, None), parse_seeds(options.seeds or SEEDS, None)
    assert wanted is not None, options.seeds
    pythons = [path for one in options.python or () for path in (installed_pythons() if one == "all" else [one])]
    with show_progress("running everything again", len(scenarios) * len(wanted)) as update:
        try:
            with witnesses_on(pythons) as others:
                witnesses = [WitnessProcess("another process"), *others]
                found = compare_digests(
                    [scenario.name for scenario in scenarios],
                    wanted,
                    witnesses,
                    jobs=options.processes or 1,
                    on_progress=lambda runs: update(advance=runs),
                )
        except (InterpreterError, WitnessError) as error:
            print_error(error)
            raise typer.Exit(EXIT_HARNESS) from error
    names = [one.name for one in witnesses]
    differ = f"{len(found.differences)} differ" if found.differences else "the same digests"
    again = f"{found.runs:,} runs, again with {', '.join(names)}: {differ}, {found.seconds:.0f} s"
    lines = [*found.errors[:1], *map(str, found.differences[:_DIFFERENCES_SHOWN_MAX])]
    exit_code = EXIT_NONDETERMINISTIC if found.differences else EXIT_HELD
    document = {
        "format": "tornlog-determinism/1",
        "witnesses": names,
        "runs": found.runs,
        "digests": found.digests,
        "differences": [str(difference) for difference in found.differences],
        "errors": found.errors,
        "seconds": round(found.seconds, 3),
    }
    result = Result(
        "run",
        again,
        Verdict(Tone.BROKEN if lines else Tone.HELD, differ),
        EXIT_HARNESS if found.errors else exit_code,
        document,
        blocks=[Lines("", On.ALARM, lines=lines, is_text=True, style="red")] if lines else (),
    )
    write_result_and_exit(result, json_file=options.json_file)
