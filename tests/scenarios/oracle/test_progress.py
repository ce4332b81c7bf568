"""Progress files: created, watched and judged in whole runs."""

from dataclasses import replace

import pytest

from tests.fixtures import QUIET_PLAN, execute
from tornlog.faults.plan import FaultPlan
from tornlog.scenarios.claims.plan import Life, LifeEnding, Plan
from tornlog.scenarios.runs.outcome import RunOutcome
from tornlog.scenarios.runs.run_of import simulation_of
from tornlog.scenarios.runs.store_run import Run
from tornlog.scenarios.workload.traffic import Traffic
from tornlog.sim.choices import Choices
from tornlog.store.message_store import MessageStore
from tornlog.store.services.consumer_offsets import ConsumerOffsetManager
from tornlog.store.side_file import SideFile

STOP = Life(LifeEnding.STOP, "nothing-lost", -1, "after", 6)


@pytest.fixture
def plan() -> Plan:
    """Two producers with pauses, two consumers of one queue that commit, and two lives that are stopped."""
    return QUIET_PLAN.replace(
        consuming={"commits_offsets": True},
        consumers=2,
        topics=1,
        queues_per_topic=1,
        pauses={"chance": 0.8, "ms_max": 1000},
        flush={"thorough_interval_ms": 2000},
        lives=(STOP, STOP),
    )


def first_violation(outcome: RunOutcome) -> tuple[str, str]:
    assert outcome.violations, "nothing was found"
    return outcome.violations[0].invariant, outcome.violations[0].summary


def test_consumers_continue_at_the_offsets_of_the_last_life(plan: Plan) -> None:
    run = Run(plan, simulation_of(plan, Choices("1")))
    assert run.execute().violations == []

    ledger = run._ledger
    assert all(pull.begin_offset > 6 for pull in ledger.pulls), "of the life that healed"
    assert ledger.commits.at
    assert ledger.group_progress.durable is not None
    assert ledger.progress_is_final


def test_a_plan_without_consumer_offsets_writes_no_side_files() -> None:
    run = Run(QUIET_PLAN, simulation_of(QUIET_PLAN, Choices("1")))
    paths: list[str] = []
    run.lasting.on_image = lambda image: paths.extend(image.files)
    assert run.execute().violations == []
    assert run._progress.manager is None
    assert paths
    assert not [path for path in paths if "consumerOffset" in path]


@pytest.mark.ci
@pytest.mark.parametrize("profile", ["strict-posix", "ext4-ordered", "process-kill"])
@pytest.mark.parametrize("delay_chance", [0.0, 0.7])
def test_a_crash_at_any_operation_of_persisting_offsets_breaks_no_invariant(
    plan: Plan, profile: str, delay_chance: float
) -> None:
    died: set[str] = set()
    for operation in range(12):
        lives = tuple(Life(LifeEnding.CRASH_IN_PERSIST, profile, operation, "during", 6) for _ in range(2))
        outcome = execute(plan.replace(delay={"chance": delay_chance}, lives=lives))
        assert outcome.violations == []
        died |= {kind for kind in outcome.injected if kind.startswith("crash during")}
    assert {f"crash during {what}" for what in ("create", "write", "rename", "sync")} <= died


@pytest.mark.ci
def test_failed_syncs_may_lose_consumer_offsets_but_prevent_no_start(plan: Plan) -> None:
    injected = 0
    for seed in range(20):
        lives = (replace(STOP, messages_each=3), Life(LifeEnding.CRASH_AT_REST, "strict-posix", -1, "after", 3), STOP)
        outcome = execute(
            plan.replace(faults=FaultPlan(failed_sync_chance=0.1), delay={"chance": 0.5}, lives=lives), seed=str(seed)
        )
        assert outcome.violations == []
        injected += outcome.injected["failed sync"]
    assert injected > 20


def test_a_start_whose_offset_correction_fails_on_disk_errors_is_no_violation(
    monkeypatch: pytest.MonkeyPatch, delayed_plan: Plan
) -> None:
    start, refused = MessageStore.start, 0

    def refuse(self: MessageStore) -> None:
        nonlocal refused
        if run.lasting._all[-1].injected["failed sync"]:
            refused += 1
            raise OSError("as a sync of the correction would")
        start(self)

    monkeypatch.setattr(MessageStore, "start", refuse)
    killed = Life(LifeEnding.CRASH_AT_REST, "process-kill", -1, "after", 3)
    for seed in range(20):
        plan = replace(delayed_plan, faults=FaultPlan(failed_sync_chance=0.3), lives=(killed, killed))
        run = Run(plan, simulation_of(plan, Choices(str(seed))))
        assert run.execute().violations == []
    assert refused > 0


def test_a_failed_start_on_a_disk_without_faults_is_a_violation(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: MessageStore) -> None:
        raise OSError("without a reason")

    monkeypatch.setattr(MessageStore, "start", refuse)
    assert first_violation(execute(QUIET_PLAN)) == ("LIVE", "life-0/main died: OSError: without a reason")


def test_an_offset_file_without_a_readable_version_breaks_meta(monkeypatch: pytest.MonkeyPatch, plan: Plan) -> None:
    def write_torn(self: SideFile, content: bytes) -> None:
        self._files.write(self.temporary_path, content[:-1])

    monkeypatch.setattr(SideFile, "_write_temporary", write_torn)
    invariant, summary = first_violation(execute(plan))

    assert invariant == "META"
    assert "/store/config/consumerOffset.json" in summary


def test_commits_of_consumers_do_not_depend_on_the_schedule(plan: Plan) -> None:
    walking = replace(plan, policy="random-walk", policy_parameter=1)
    by_priority = replace(plan, policy="pct", policy_parameter=3)
    first, second = (Run(one, simulation_of(one, Choices("1"))) for one in (walking, by_priority))
    assert first.execute().violations == second.execute().violations == []
    assert sorted(first._ledger.commits.at) == sorted(second._ledger.commits.at)


def test_consumers_without_an_offset_manager_start_at_offset_0_and_do_not_commit(plan: Plan) -> None:
    plan = plan.replace(consuming={"commits_offsets": False})
    run = Run(plan, simulation_of(plan, Choices("1")))
    assert run.execute().violations == []
    assert all(pull.begin_offset == 0 for pull in run._ledger.pulls)
    assert run._ledger.commits.at == {}


def test_each_life_commits_to_its_own_offset_manager(monkeypatch: pytest.MonkeyPatch, plan: Plan) -> None:
    managers: list[ConsumerOffsetManager | None] = []
    traffic_run = Traffic.run

    def note(self: Traffic, messages_each: int) -> None:
        managers.append(self.progress)
        traffic_run(self, messages_each)

    monkeypatch.setattr(Traffic, "run", note)
    execute(plan)
    assert None not in managers
    assert len({str(managers.index(manager)) for manager in managers}) == 3
