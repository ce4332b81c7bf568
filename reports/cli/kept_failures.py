"""Failures of earlier runs, which a run with a drawn first seed tries first."""

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from ...faults.simulation.artefact import ArtefactError
from ...scenarios.campaigns.failures.failure import Failure
from ...scenarios.campaigns.failures.replay import replay, verified_run
from ...scenarios.campaigns.runner import Tally
from ...scenarios.claims.scenario import Scenario
from ...scenarios.mutants.known import applied_mutant
from ...sim.interruption import Interruption
from ...sim.process import CPU_SECONDS_MAX, NoEndInSight, cpu_limit
from .console import print_note


def tallies_of_kept(
    out: Path | None, scenarios: Sequence[Scenario], mutant: str | None, interruption: Interruption
) -> dict[str, Tally]:
    """Return tallies with the kept failures of some scenarios that still break a promise; report each of the others."""
    tallies: dict[str, Tally] = {}
    named = {scenario.name: scenario for scenario in scenarios}
    for path, failure in _kept(out):
        if failure.scenario not in named or failure.mutant != mutant or interruption.is_wanted:
            continue
        again = interruption.unless_wanted(partial(_again, failure))
        if isinstance(again, Failure):
            tally = tallies.setdefault(failure.scenario, Tally(named[failure.scenario]))
            tally.add_kept(again)
            print_note(f"{path}: still breaks")
        elif again is not None:
            print_note(f"{path}: {again}")
    return tallies


def _kept(out: Path | None) -> Iterator[tuple[Path, Failure]]:
    for path in sorted((out / "failures").glob("*.json")) if out is not None else ():
        try:
            yield path, Failure.from_json(path.read_text())
        except (OSError, UnicodeDecodeError, ArtefactError) as error:
            print_note(f"{path}: not tried again: {error}")


def _again(failure: Failure) -> Failure | str:
    """Return the failure as it is with the present code, or why it is none."""
    try:
        with applied_mutant(failure.mutant), cpu_limit(CPU_SECONDS_MAX):
            replayed = replay(failure.smallest.record)
            if not replayed.result.violations:
                return "no longer breaks"
            run = verified_run(replayed.record)
    except NoEndInSight:
        return f"not tried again: it takes more than {CPU_SECONDS_MAX:g} s"
    return Failure(failure.scenario, failure.claim, failure.seed, failure.mutant, run)
