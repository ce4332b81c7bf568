"""One seed: its digest depends only on the seed."""

import subprocess
import sys
import time

import pytest

from tests.fixtures import BROKEN_SCENARIO, QUIET_SCENARIO
from tornlog.faults.simulation.simulation import Crash, Simulation
from tornlog.scenarios.campaigns.seeds import draw_plan_of_seed, run_seed
from tornlog.scenarios.claims.catalogue import SCENARIOS
from tornlog.scenarios.claims.ranges import Ranges
from tornlog.scenarios.claims.scenario import Scenario
from tornlog.scenarios.mutants import MUTANTS
from tornlog.sim.policies.replay import ReplayPolicy
from tornlog.store.formats.messages import Message, PutMessageResult
from tornlog.store.message_store import MessageStore


def test_a_passing_seed_reports_its_counts() -> None:
    result = run_seed(QUIET_SCENARIO, 7)
    assert (result.scenario, result.seed, result.outcome) == ("quiet", 7, "held")
    assert result.messages == 2 * 6 + 2 * 2
    assert result.steps > 0
    assert result.virtual_ns > 0
    assert result.wall_seconds > 0.0
    assert len(result.digest) == 32
    assert result.failure is None
    assert result.error == ""


def test_a_seed_can_be_run_under_another_schedule() -> None:
    default = run_seed(QUIET_SCENARIO, 7, policy=ReplayPolicy())
    assert default.outcome == "held"
    assert default.digest == run_seed(QUIET_SCENARIO, 7, policy=ReplayPolicy()).digest
    assert default.digest != run_seed(QUIET_SCENARIO, 7).digest


def test_a_seed_that_breaks_a_promise_has_a_failure() -> None:
    scenario = SCENARIOS["sync-flush-power-cut"]
    result = run_seed(scenario, 0, mutant="ack-before-flush")
    assert result.outcome == "violated"
    failure = result.failure
    assert failure is not None
    assert (failure.scenario, failure.claim) == (scenario.name, scenario.claim)
    assert (failure.seed, failure.mutant) == (0, "ack-before-flush")
    assert failure.original.record.setup == draw_plan_of_seed(scenario, 0)[1]
    assert failure.original.digest == result.digest
    assert failure.violations[0].invariant in MUTANTS["ack-before-flush"].found_by
    assert failure.original.story
    assert failure.shrunk is None


def test_a_mutant_is_removed_after_its_seed() -> None:
    before = run_seed(QUIET_SCENARIO, 1)
    assert run_seed(QUIET_SCENARIO, 1, mutant="ack-before-flush").outcome == "violated"
    after = run_seed(QUIET_SCENARIO, 1)
    assert (after.outcome, after.digest) == ("held", before.digest)


def test_the_run_depends_on_seed_scenario_and_ranges() -> None:
    scenario = SCENARIOS["crash-in-recovery"]
    other_disk = next(disk for disk in scenario.ranges["disk"] if disk != draw_plan_of_seed(scenario, 1)[1].disk)
    digests = [
        run_seed(scenario, 1).digest,
        run_seed(scenario, 2).digest,
        run_seed(scenario.narrowed(disk=other_disk), 1).digest,
        run_seed(SCENARIOS["segment-rollover-crash"], 1).digest,
    ]
    assert len(set(digests)) == 4


def test_a_deterministic_seed_passes_the_determinism_check() -> None:
    once, twice = run_seed(QUIET_SCENARIO, 3), run_seed(QUIET_SCENARIO, 3, check_determinism=True)
    assert (twice.outcome, twice.digest, twice.error) == ("held", once.digest, "")


def test_a_run_that_depends_on_earlier_runs_is_nondeterministic(impatient_producers: None) -> None:
    result = run_seed(QUIET_SCENARIO, 3, check_determinism=True)
    assert result.outcome == "nondeterministic"
    assert result.digest in result.error
    assert result.failure is None


def test_a_run_that_its_record_does_not_reproduce_is_nondeterministic(monkeypatch: pytest.MonkeyPatch) -> None:
    note_crash = Simulation.note_crash

    def forgetting(self: Simulation, crash: Crash) -> None:
        self.triggers[crash.life].selected = None
        note_crash(self, crash)

    scenario = Scenario("c", "c", Ranges(endings=("crash in traffic",), lives=(1,)))
    with monkeypatch.context() as patched:
        patched.setattr(Simulation, "note_crash", forgetting)
        result = run_seed(scenario, 0, check_determinism=True)
    assert result.outcome == "nondeterministic"
    assert "recorded" in result.error
    assert run_seed(scenario, 0, check_determinism=True).outcome == "held"


def test_a_harness_error_is_returned_as_the_result_of_its_seed() -> None:
    result = run_seed(BROKEN_SCENARIO, 1)
    assert (result.outcome, result.digest) == ("harness-error", "")
    assert "draw_plan" in result.error, "the traceback"
    assert "KeyError: 'no-such-bug'" in run_seed(QUIET_SCENARIO, 1, mutant="no-such-bug").error


def test_a_call_of_the_real_clock_is_a_harness_error(monkeypatch: pytest.MonkeyPatch) -> None:
    put_message = MessageStore.put_message

    def put_and_look_at_the_clock(self: MessageStore, message: Message) -> PutMessageResult:
        time.time()
        return put_message(self, message)

    monkeypatch.setattr(MessageStore, "put_message", put_and_look_at_the_clock)
    result = run_seed(QUIET_SCENARIO, 1)
    assert result.outcome == "harness-error"
    assert "simulated code called time.time" in result.error


DIGESTS = """
from tornlog.scenarios.claims.catalogue import SCENARIOS
from tornlog.scenarios.campaigns.seeds import run_seed
for scenario in SCENARIOS.values():
    result = run_seed(scenario, 11)
    print(scenario.name, result.outcome, result.digest)
"""


@pytest.mark.slow
def test_digests_do_not_depend_on_the_hash_seed() -> None:
    printed = [
        subprocess.run(
            [sys.executable, "-c", DIGESTS],
            env={"PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for hash_seed in ("1", "4242")
    ]
    here = "".join(f"{scenario.name} held {run_seed(scenario, 11).digest}\n" for scenario in SCENARIOS.values())
    assert printed == [here, here]


def test_a_run_reports_only_invariants_that_could_have_been_violated() -> None:
    scenario = SCENARIOS["sync-flush-power-cut"]
    result = run_seed(scenario, 0, mutant="ack-before-flush")
    assert (result.outcome, result.tried) == ("violated", ("FILES", "LIVE", "POS", "SCAN", "STATUS"))
    tried = set(run_seed(scenario, 0).tried)
    assert {"DUR", "PREFIX", "CQ-VALID", "IDEMPOTENT"} <= tried
    assert tried.isdisjoint({"TX", "SCHED", "REDEL", "REP", "CLEAN", "ISO"})
    assert "TX" in run_seed(SCENARIOS["transaction-outcome"], 0).tried


def test_a_consumer_accepts_a_record_that_the_harness_damaged() -> None:
    """The flipped bit makes the record unreadable, but RocketMQ's pull checks no checksum and returns it."""
    assert run_seed(SCENARIOS["corrupt-record"], 43).outcome == "held"
