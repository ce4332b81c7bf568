"""Chronicles: of a stored failure, or of a seed."""

from ...sim.policies import Policy
from ..failures.breach import Record
from ..failures.replay import Replayed, replay
from ..garbage import garbage_kept
from ..mutants.known import applied_mutant
from ..runs import run_of
from ..scenario import Scenario
from ..seeds import draw
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
