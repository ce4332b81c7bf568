"""Cluster runs: they pass, repeat by seed, and find bugs of replication."""

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from tests.fixtures import QUIET_PLAN
from tornlog.faults.disk.disk import Disk
from tornlog.faults.simulation.record import record_of
from tornlog.scenarios.campaigns.failures.failure import Failure
from tornlog.scenarios.campaigns.failures.replay import replay, run_plan
from tornlog.scenarios.campaigns.failures.shrink import shrink_failure
from tornlog.scenarios.campaigns.seeds import SeedResult, draw_plan_of_seed, run_seed
from tornlog.scenarios.claims.catalogue import SCENARIOS
from tornlog.scenarios.claims.catalogue.clusters import CLUSTER, TROUBLED
from tornlog.scenarios.claims.plan import Life, Plan
from tornlog.scenarios.claims.scenario import Scenario
from tornlog.scenarios.oracle.evidence import Violation
from tornlog.scenarios.oracle.invariants import side_files
from tornlog.scenarios.oracle.ledger import Ledger
from tornlog.scenarios.runs.cluster.node import ClusterNode
from tornlog.scenarios.runs.cluster.replication_judge import ReplicationJudge
from tornlog.scenarios.runs.cluster.run import ClusterRun
from tornlog.scenarios.runs.marks import RunMarks
from tornlog.scenarios.runs.run_of import run_of, simulation_of
from tornlog.scenarios.runs.store_run import Run
from tornlog.sim.choices import Choices
from tornlog.store.formats.messages import PutMessageStatus
from tornlog.store.log.group_transfer import GroupTransfer
from tornlog.store.message_store import MessageStore


def first_found(scenario: Scenario, seeds: int) -> SeedResult:
    """Return the first seed with a violation."""
    for seed in range(seeds):
        result = run_seed(scenario, seed)
        assert result.outcome != "harness-error", result.error
        if result.failure is not None:
            return result
    pytest.fail(f"not found in {seeds} seeds")


def _stored(plan: Plan) -> dict[str, Any]:
    values: dict[str, Any] = json.loads(json.dumps(plan.to_json()))
    return values


def summaries(scenario: Scenario, seeds: int) -> set[str]:
    """Return the violation of the first seed that has one, without host names."""
    failure = first_found(scenario, seeds).failure
    assert failure is not None
    return {violation.field for violation in failure.violations}


def test_a_seed_always_gives_the_same_cluster_run() -> None:
    scenario = Scenario("c", "c", TROUBLED)
    for seed in range(6):
        assert run_seed(scenario, seed, check_determinism=True).outcome == "held"


def test_a_record_repeats_a_cluster_run_with_disk_failures_between_lives() -> None:
    scenario = Scenario("c", "c", CLUSTER.replace(faults={"failed_sync_chance": (0.1,)}))
    left = 0
    for seed in range(12):
        choices, plan = draw_plan_of_seed(scenario, seed)
        simulation = simulation_of(plan, choices)
        outcome = run_plan(plan, simulation)
        left += outcome.crash_points > sum(not life.is_stop for life in plan.lives)
        record_of(run_plan, plan, simulation, outcome)
    assert left >= 3, "of disks that failed"


def test_cluster_puts_are_acknowledged_and_replicated_to_slaves() -> None:
    statuses, held_bytes = set(), 0
    for seed in range(8):
        choices, plan = draw_plan_of_seed(SCENARIOS["sync-replication-master-lost"], seed)
        run = ClusterRun(plan, simulation_of(plan, choices))
        run.execute()
        statuses |= {put.status for put in run._ledger.puts}
        held_bytes += sum(held.size_bytes for held in run._replication.replicas.held.values())
    assert {PutMessageStatus.PUT_OK, PutMessageStatus.SLAVE_NOT_AVAILABLE} <= statuses
    assert held_bytes > 10_000


@pytest.mark.ci
def test_network_faults_enabled_in_a_plan_are_injected() -> None:
    injected = set()
    for seed in range(40):
        injected |= set(run_seed(Scenario("c", "c", TROUBLED), seed).injected)

    assert {"partition", "one-way link", "broken connection", "half-open connection", "silent death"} <= injected


def test_a_plan_with_slaves_runs_a_cluster_and_any_other_plan_a_single_store() -> None:
    cluster = draw_plan_of_seed(Scenario("c", "c", CLUSTER), 0)[1]

    assert isinstance(run_of(cluster, simulation_of(cluster, Choices("0"))), ClusterRun)
    assert isinstance(run_of(QUIET_PLAN, simulation_of(QUIET_PLAN, Choices("0"))), Run)
    assert not cluster.is_alone
    assert QUIET_PLAN.is_alone


def test_a_cluster_plan_survives_json_and_an_older_plan_is_of_a_single_store() -> None:
    plan = draw_plan_of_seed(Scenario("c", "c", TROUBLED), 3)[1]
    assert Plan.from_json(_stored(plan)) == plan
    older = {key: value for key, value in _stored(QUIET_PLAN).items() if key not in ("cluster", "network")}
    older["lives"] = [{key: value for key, value in life.items() if key != "node"} for life in older["lives"]]

    assert Plan.from_json(older) == QUIET_PLAN


def test_the_error_for_an_unknown_field_of_a_cluster_plan_names_it() -> None:
    values = _stored(draw_plan_of_seed(Scenario("c", "c", CLUSTER), 0)[1])

    with pytest.raises(ValueError, match=r"plan.cluster.masters: unknown"):
        Plan.from_json({**values, "cluster": {"masters": 2}})
    with pytest.raises(ValueError, match=r"plan.network.snail_chance: unknown"):
        Plan.from_json({**values, "network": {"snail_chance": 0.5}})


# -- bugs of replication are found -----------------------------------------------------------------


def _sync_scenario(**changes: object) -> Scenario:
    ranges = CLUSTER.replace(
        sync_flush=(False,),
        lives=(2, 3),
        endings=("crash in traffic", "crash at rest"),
        disk=("strict-posix", "ext4-ordered"),
        cluster={"sync_master": (True,), "slaves": (1,), **changes},
    )
    return Scenario("seen", "what is wrong is seen", ranges)


def test_a_slave_that_accepts_puts_is_a_violation(monkeypatch: pytest.MonkeyPatch) -> None:
    start = MessageStore.start

    def open_to_all(self: MessageStore) -> None:
        start(self)
        self.commit_log.append_replicated = lambda *_, **__: True  # type: ignore[method-assign]

    monkeypatch.setattr(MessageStore, "start", open_to_all)

    assert summaries(_sync_scenario(), 40) <= {"replica", "report", "replication", "divergence", "log of slave-1"}


# -- how machines end ------------------------------------------------------------------------------


def _scenario_with_endings(**changes: object) -> Scenario:
    ranges = CLUSTER.replace(lives=(3,), heals=(True,), **changes)  # type: ignore[arg-type]
    return Scenario("ends", "machines end as they are told", ranges)


def test_only_deaths_other_than_a_process_kill_leave_connections_open(monkeypatch: pytest.MonkeyPatch) -> None:
    silences: list[bool] = []
    note_end = ClusterRun._record_end

    def noting(self: ClusterRun, node: ClusterNode, life: Life) -> None:
        silences.append(node.life.endpoint.dies_silently is (life.profile != "process-kill"))
        note_end(self, node, life)

    monkeypatch.setattr(ClusterRun, "_record_end", noting)
    for seed in range(10):
        assert run_seed(_scenario_with_endings(endings=("crash in traffic", "crash at rest")), seed).outcome == "held"

    assert len(silences) >= 30
    assert all(silences)


def test_clean_stops_of_a_master_are_passed_to_the_run_marks(monkeypatch: pytest.MonkeyPatch) -> None:
    ends: list[tuple[bool, bool]] = []
    monkeypatch.setattr(RunMarks, "note_end", lambda *_, crashed, recovered: ends.append((crashed, recovered)))
    for seed in range(4):
        ends.clear()
        choices, plan = draw_plan_of_seed(_scenario_with_endings(endings=("stop",)), seed)
        machines = plan.cluster.slaves + 1

        assert ClusterRun(plan, simulation_of(plan, choices)).execute().crash_points == 0
        stops = sum(life.node % machines == 0 for life in plan.lives)
        assert ends == [(False, True)] * (stops + 1), "and the one in which all is well"


@pytest.mark.parametrize("moment", ["_record_end", "slave_recovered"])
def test_the_checkpoints_of_slaves_are_checked(moment: str, monkeypatch: pytest.MonkeyPatch) -> None:
    owner = ClusterRun if moment == "_record_end" else ReplicationJudge
    inside = getattr(owner, moment)
    is_moment = False

    def marking(self: object, node: ClusterNode, *rest: object) -> None:
        nonlocal is_moment
        is_moment = not node.is_master
        try:
            inside(self, node, *rest)
        finally:
            is_moment = False

    def lying(store: MessageStore, disk: Disk, ledger: Ledger | None = None) -> Iterator[Violation]:
        if is_moment:
            yield Violation("CKPT", "ahead", field="claim")

    monkeypatch.setattr(owner, moment, marking)
    monkeypatch.setattr(side_files, "check_checkpoint", lying)

    assert summaries(_sync_scenario(), 40) == {"claim"}


# -- artefacts -------------------------------------------------------------------------------------


def test_a_failure_of_a_cluster_can_be_replayed_from_its_artefact_and_shrunk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(GroupTransfer, "wait", lambda self, request: PutMessageStatus.PUT_OK)
    failure = first_found(_sync_scenario(), 40).failure
    assert failure is not None
    read = Failure.from_json(failure.to_json())

    assert replay(read.original.record).is_same(read.original)
    small = shrink_failure(read, tries_max=300).failure.smallest
    assert small.size.messages <= 2
    assert not small.record.setup.is_alone


def test_a_master_may_die_while_the_run_waits_for_its_dispatch(monkeypatch: pytest.MonkeyPatch) -> None:
    deaths = []

    def dies(run: ClusterRun, store: MessageStore) -> None:
        _, _, machine = run._master.running
        run._kernel.kill(machine)
        deaths.append(machine.name)

    monkeypatch.setattr(ClusterRun, "_await_dispatch", dies)
    transactions = Scenario("a-master-dies-early", "", CLUSTER.replace(transactions={"chance": (0.5,)}, heals=(False,)))
    assert [run_seed(transactions, seed).outcome for seed in range(10)] == ["held"] * 10
    assert len(deaths) >= 10


@pytest.mark.parametrize(
    ("changes", "seed", "fault"),
    [
        ({"capacity_bytes": (24_000,)}, 18, "disk full"),
        ({"faults": {"failed_creation_chance": (0.5,)}}, 5, "failed creation"),
    ],
    ids=["full disk", "failed creations"],
)
def test_a_store_that_lacks_space_may_stop_uncleanly(changes: dict[str, Any], seed: int, fault: str) -> None:
    scenario = SCENARIOS["replication-reconnects"]
    ranges = scenario.ranges.replace(
        endings=("stop in traffic",), lives=(2,), index={"slots": (40,)}, messages_each=(8,), heals=(True,), **changes
    )
    result = run_seed(replace(scenario, ranges=ranges), seed)
    assert result.outcome == "held", result.failure
    assert result.injected[fault]
