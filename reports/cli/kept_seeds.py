"""Corpus of a campaign: runs seeds first that failed in earlier runs."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from ...scenarios.campaigns.runner import Tally
from ...scenarios.campaigns.seeds import SeedResult, run_seed
from ...scenarios.claims.catalogue import SCENARIOS
from ...scenarios.claims.scenario import Scenario
from ...sim.guard import leak_guard
from ...sim.interruption import Interruption
from .corpus import CorpusOutcome, FailureCorpus
from .options import options_text
from .run import RunOptions


class SeedCorpus:
    """The stored seeds for one combination of disk, policy and mutant. A run with --seed or --as has no corpus."""

    def __init__(self, options: RunOptions, scenarios: Sequence[Scenario]) -> None:
        is_search = options.as_ is None and options.seed is None
        self._corpus = FailureCorpus(options.corpus if is_search and not options.no_corpus else None, "run")
        points = " --attribute-points" if options.attribute_points else ""
        self._subject = f"run{options_text(disk=options.disk, policy=options.policy, mutant=options.mutant)}{points}"
        self._scenarios = {one.name: one for one in scenarios}
        self._mutant = options.mutant
        self._checks_determinism = options.check_determinism
        self._results: dict[str, SeedResult] = {}

    def try_first(self, interruption: Interruption) -> None:
        """Run the stored seeds of the requested scenarios."""
        with leak_guard():
            for case in self._corpus.cases(self._subject):
                name, _, seed = case.partition(" --seed ")
                if name not in self._scenarios:
                    continue
                run = partial(
                    run_seed,
                    self._scenarios[name],
                    int(seed),
                    mutant=self._mutant,
                    check_determinism=self._checks_determinism,
                )
                result = interruption.result_unless_requested(run)
                if result is None:
                    return
                self._results[case] = result

    def add_to(self, tallies: dict[str, Tally]) -> None:
        """Add the results of the stored seeds that the campaign itself has not run."""
        for result in self._results.values():
            tally = tallies.setdefault(result.scenario, Tally(self._scenarios[result.scenario]))
            if not tally.has_seed(result.seed):
                tally.add(result, in_turn=False)

    def record_run(self, tallies: Mapping[str, Tally]) -> CorpusOutcome | None:
        """Store the failed seeds of a campaign, and return the results of the seeds stored before."""
        tried = self._results.items()
        failed = [case for case, result in tried if result.outcome != "held"]
        failed += [case for tally in tallies.values() for case in _first_failures(tally)]
        gone = [case for case in self._corpus.cases(self._subject) if case.partition(" --seed ")[0] not in SCENARIOS]
        return self._corpus.record_run(self._subject, failed, [case for case, _ in tried], gone)


def _first_failures(tally: Tally) -> Iterator[str]:
    firsts = {failure.signature: failure for failure in reversed(tally.failures)}
    yield from (f"{failure.scenario} --seed {failure.seed}" for failure in reversed(firsts.values()))
