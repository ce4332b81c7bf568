"""Chronicles: of a stored failure, or of a seed."""

from ....scenarios.campaigns.failures.breach import Record
from ....scenarios.campaigns.failures.replay import Replayed, replay
from ....scenarios.campaigns.seeds import draw
from ....scenarios.claims.scenario import Scenario
from ....scenarios.mutants.known import applied_mutant
from ....scenarios.runs.run_of import run_of
from ....sim.garbage import garbage_kept
from ....sim.policies import Policy
from .record import Chronicle, Subject
from .recorder import Recorder


def replay_with_chronicle(subject: Subject, record: Record) -> tuple[Replayed, Chronicle]:
    """Replay a record as `replay` does, and return its chronicle too. The subject's mutant is not applied here."""
    recorder = Recorder()
    replayed = replay(record, recorder, ledger=recorder.ledger)
    return replayed, recorder.chronicle(subject, replayed.outcome)


def chronicle_of_seed(
    scenario: Scenario, seed: int, *, mutant: str | None = None, policy: Policy | None = None
) -> Chronicle:
    """Run one seed, with a mutant if there is one to apply, and return its chronicle; policy replaces the drawn one."""
    recorder = Recorder()
    with garbage_kept(), applied_mutant(mutant):
        choices, plan = draw(scenario, seed)
        outcome = run_of(plan, choices, policy, recorder, ledger=recorder.ledger).execute()
    return recorder.chronicle(Subject(scenario.name, scenario.claim, seed, mutant), outcome)
