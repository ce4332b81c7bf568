"""Recordings: of a stored failure, or of a seed."""

from ....scenarios.campaigns.failures.failing_run import RunRecord
from ....scenarios.campaigns.failures.replay import RunReplay, replay
from ....scenarios.campaigns.seeds import draw
from ....scenarios.claims.scenario import Scenario
from ....scenarios.mutants.known import applied_mutant
from ....scenarios.runs.run_of import run_of
from ....sim.garbage import garbage_kept
from ....sim.policies import Policy
from .record import RunRecording, Subject
from .recorder import RunRecorder


def replay_recorded(subject: Subject, record: RunRecord) -> tuple[RunReplay, RunRecording]:
    """Replay a record as `replay` does, and return its recording too. The subject's mutant is not applied here."""
    recorder = RunRecorder()
    replayed = replay(record, recorder, ledger=recorder.ledger)
    return replayed, recorder.run_recording(subject, replayed.outcome)


def record_seed(
    scenario: Scenario, seed: int, *, mutant: str | None = None, policy: Policy | None = None
) -> RunRecording:
    """Run one seed, with a mutant if there is one to apply, and return its recording; policy replaces the drawn one."""
    recorder = RunRecorder()
    with garbage_kept(), applied_mutant(mutant):
        choices, plan = draw(scenario, seed)
        outcome = run_of(plan, choices, policy, recorder, ledger=recorder.ledger).execute()
    return recorder.run_recording(Subject(scenario.name, scenario.claim, seed, mutant), outcome)
