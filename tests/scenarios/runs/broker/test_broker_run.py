"""The ends of a broker's lives, and the checks at these ends."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from tornlog.faults.disk.disk import Disk
from tornlog.scenarios.campaigns.seeds import draw_plan_of_seed, run_seed
from tornlog.scenarios.claims.catalogue import SCENARIOS
from tornlog.scenarios.claims.catalogue.brokers import BROKER
from tornlog.scenarios.claims.scenario import Scenario
from tornlog.scenarios.oracle import allowances
from tornlog.scenarios.oracle.evidence import Violation
from tornlog.scenarios.oracle.group_delivery import is_of_users
from tornlog.scenarios.oracle.invariants import side_files
from tornlog.scenarios.oracle.ledger import Ledger
from tornlog.scenarios.runs.broker.run import BrokerRun
from tornlog.scenarios.runs.marks import RunMarks
from tornlog.scenarios.runs.outcome import RunOutcome
from tornlog.scenarios.runs.run_of import simulation_of
from tornlog.scenarios.workload.drawing import TAGS
from tornlog.store.broker.broker import Broker
from tornlog.store.formats.messages import PutMessageStatus
from tornlog.store.message_store import MessageStore

STOPPING = Scenario(
    "stopping",
    "a broker stops",
    BROKER.replace(endings=("stop",), lives=(2,), heals=(True,), sync_flush=(True,), consumers=(1,)),
)


def outcome_of(seed: int) -> RunOutcome:
    choices, plan = draw_plan_of_seed(STOPPING, seed)
    return BrokerRun(plan, simulation_of(plan, choices)).execute()


def test_an_unclean_broker_stop_counts_as_a_crash(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Broker, "shutdown", lambda self: False)
    monkeypatch.setattr(allowances, "count_errors", lambda disk: 1)

    outcome = outcome_of(0)
    assert outcome.violations == []
    assert outcome.crash_points == 3, "two lives, and the one in which all is well"


def test_clean_broker_stops_are_passed_to_the_run_marks(monkeypatch: pytest.MonkeyPatch) -> None:
    ends: list[tuple[bool, bool]] = []
    monkeypatch.setattr(RunMarks, "note_end", lambda *_, crashed, recovered: ends.append((crashed, recovered)))

    assert outcome_of(0).crash_points == 0
    assert ends == [(False, True)] * 3


def test_the_checkpoint_of_a_recovered_broker_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    def lying(store: MessageStore, disk: Disk, ledger: Ledger | None = None) -> Iterator[Violation]:
        yield Violation("CKPT", "ahead")

    monkeypatch.setattr(side_files, "check_checkpoint", lying)

    assert [violation.invariant for violation in outcome_of(0).violations] == ["CKPT"]


@pytest.mark.ci
def test_time_limits_without_faults_apply_only_after_faulty_operations_have_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    healed_disks: list[Disk] = []
    left_ns: list[int] = []
    heal, see_all_done = Disk.heal, BrokerRun._await_all_consumed

    def healed(disk: Disk) -> None:
        heal(disk)
        healed_disks.append(disk)

    def seen(run: BrokerRun, number: int) -> None:
        left_ns.extend(disk.slow_until_ns - run._kernel.now_ns for disk in healed_disks)
        see_all_done(run, number)

    monkeypatch.setattr(Disk, "heal", healed)
    monkeypatch.setattr(BrokerRun, "_await_all_consumed", seen)
    stalling = Scenario(
        "stalling",
        "a master's device stands still while its slave dies",
        SCENARIOS["slave-reads"].ranges.replace(
            endings=("crash at rest",),
            lives=(1,),
            heals=(True,),
            broker={"rest_ms_max": (0,), "off_ms_max": (1,)},
            faults={"stall_chance": (1.0,), "stall_ms_max": (60_000,)},
        ),
    )
    for seed in range(5):
        healed_disks.clear()
        choices, plan = draw_plan_of_seed(stalling, seed)
        assert BrokerRun(plan, simulation_of(plan, choices)).execute().violations == []
    assert left_ns
    assert max(left_ns) < 0


def test_broker_producers_send_all_kinds_of_messages_that_the_protocol_allows() -> None:
    choices, plan = draw_plan_of_seed(STOPPING, 1)
    plan = plan.replace(
        producers=2,
        commit_log_bytes=2048,
        messages={
            "body_bytes_max": 300,
            "property_bytes_max": 700,
            "batch_chance": 0.4,
            "illegal_chance": 1.0,
            "no_wait_chance": 0.4,
            "equal_sizes": False,
        },
        lives=tuple(replace(life, messages_each=12) for life in plan.lives),
    )
    outcome = BrokerRun(plan, simulation_of(plan, choices)).execute()
    assert outcome.violations == []
    assert outcome.ledger is not None
    puts = outcome.ledger.puts
    assert {put.name.count(".") for put in puts} == {2, 3}, "alone and in batches"
    assert {put.wait for put in puts} == {True, False}
    assert {put.status for put in puts} >= {PutMessageStatus.PUT_OK, PutMessageStatus.MESSAGE_ILLEGAL}
    assert all(is_of_users(put.topic) for put in puts), "clients check topics themselves"
    assert {put.tags for put in puts} > set(TAGS), "some tags are odd"


@pytest.mark.parametrize("connections", [1, 2, 3])
def test_an_operator_works_over_any_number_of_further_connections(connections: int) -> None:
    scenario = SCENARIOS["operator-changes"]
    ranges = scenario.ranges.replace(broker={"operator_connections": (connections,), "rest_ms_max": (15_000,)})
    results = [run_seed(replace(scenario, ranges=ranges), seed) for seed in range(2)]
    assert [result.outcome for result in results] == ["held", "held"], [result.error for result in results]


def test_a_user_reads_light_queues_through_a_broker_to_their_ends() -> None:
    scenario = SCENARIOS["consumer-retry"]
    ranges = scenario.ranges.replace(light_queues={"chance": (0.9,)}, broker={"light_readers": (1,)})
    results = [run_seed(replace(scenario, ranges=ranges), seed) for seed in range(6)]
    assert [result.outcome for result in results] == ["held"] * 6, [result.error for result in results]
    assert any(result.marks["light queue read"] for result in results)


def test_a_long_batch_passes_through_small_buffers_to_a_slave_once_all_faults_have_ended() -> None:
    ranges = STOPPING.ranges.replace(
        messages={
            "body_bytes_max": (900,),
            "property_bytes_max": (1_500,),
            "equal_sizes": (True,),
            "batch_chance": (1.0,),
        },
        network={"latency_us_min": (20_000,), "latency_us_max": (20_000,)},
        broker={"send_timeout_ms": (200,), "buffer_bytes": (300,)},
        cluster={"slaves": (1,), "sync_master": (True,), "slave_timeout_ms": (3_000,)},
    )
    result = run_seed(replace(STOPPING, ranges=ranges), 3)  # its last batch has three messages
    assert result.outcome == "held"


def test_a_consumer_whose_pull_meets_a_full_queue_each_time_gets_its_turn() -> None:
    result = run_seed(SCENARIOS["requests-in-flight"], 17_100_227)  # its pulls came in step, and one was always refused
    assert result.outcome == "held", result.failure


def test_a_broker_may_count_messages_that_its_pool_has_not_committed_yet() -> None:
    result = run_seed(SCENARIOS["broker-lookups"], 17_500_321)  # four messages counted, none committed or in a queue
    assert result.outcome == "held", result.failure
