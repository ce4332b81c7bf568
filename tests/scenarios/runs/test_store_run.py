"""A store run has no violation for a correct store, and only a violation for a wrong one."""

from collections.abc import Callable
from dataclasses import replace
from itertools import count
from typing import Any

import pytest

from tests.fixtures import QUIET_PLAN, execute
from tornlog.faults.crashes.profiles import PROFILES
from tornlog.faults.disk.image import Image
from tornlog.faults.plan import FaultPlan
from tornlog.scenarios.claims.plan import Life, LifeEnding, Plan
from tornlog.scenarios.claims.ranges import Ranges, draw_plan
from tornlog.scenarios.runs.outcome import RunOutcome
from tornlog.scenarios.runs.run_of import simulation_of
from tornlog.scenarios.runs.store_run import Run
from tornlog.scenarios.workload import consuming
from tornlog.scenarios.workload.store_sender import StoreSender
from tornlog.sim.choices import Choices
from tornlog.sim.policies.replay import LabellingPolicy
from tornlog.store.errors import CorruptFileError, StoreNotReadableError
from tornlog.store.log.flush import GroupCommitService
from tornlog.store.log.segment import Segment
from tornlog.store.message_store import MessageStore
from tornlog.store.queues.consume_queue import ConsumeQueue
from tornlog.store.queues.dispatch import DispatchService
from tornlog.store.queues.flush_queues import FlushConsumeQueueService
from tornlog.store.recovery.recovery import Recovery


def only_violation(outcome: RunOutcome) -> tuple[str, str]:
    """Return invariant and summary of the first violation, one line each."""
    assert outcome.violations, "nothing was found"
    return outcome.violations[0].invariant, outcome.violations[0].summary


# A correct store


def test_a_run_without_faults_has_no_violation() -> None:
    outcome = execute(QUIET_PLAN)
    assert outcome.violations == []
    assert outcome.crash_points == 0
    assert not outcome.injected
    assert outcome.messages == 2 * 6 + 2 * 2, "what the lives put, the one that heals included"


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("sync_flush", [True, False])
def test_a_crash_of_any_kind_causes_no_violation_and_is_counted(profile: str, sync_flush: bool) -> None:
    lives = (
        Life(LifeEnding.CRASH_AT_REST, profile, -1, "after", 4),
        Life(LifeEnding.CRASH_IN_TRAFFIC, profile, 30, "during", 4),
    )
    outcome = execute(replace(QUIET_PLAN, sync_flush=sync_flush, lives=lives))
    assert outcome.violations == []
    assert outcome.crash_points == 2
    assert outcome.injected[f"crash {profile}"] == 2
    assert sum(times for kind, times in outcome.injected.items() if kind.startswith("crash during")) == 1


def test_equal_choices_give_equal_run_outcomes(crash_plan: Plan) -> None:
    first, second, other = execute(crash_plan), execute(crash_plan), execute(crash_plan, "2")
    assert first == second
    assert first.digest != other.digest


def test_a_run_can_be_repeated_from_its_record(crash_plan: Plan) -> None:
    choices = Choices("1")
    simulation = simulation_of(crash_plan, choices)
    first = Run(crash_plan, simulation).execute()
    replayed, schedule = Choices.for_replay(choices.decisions()), LabellingPolicy(simulation.kernel.schedule)
    second = Run(crash_plan, simulation_of(crash_plan, replayed, schedule)).execute()
    assert second == first
    assert (replayed.unused_decisions(), schedule.remaining_switches) == ([], 0)


def test_an_observer_receives_every_mounted_image(crash_plan: Plan) -> None:
    run = Run(crash_plan, simulation_of(crash_plan, Choices("1")))
    images: list[Image] = []
    run.lasting.on_image = images.append
    assert run.execute().violations == []
    assert len(images) == 3  # heal, healed, after
    assert all(image.files for image in images)


def test_a_crash_after_the_last_operation_happens_at_rest() -> None:
    late = Life(LifeEnding.CRASH_IN_TRAFFIC, "ext4-ordered", 10**6, "before", 3)
    outcome = execute(replace(QUIET_PLAN, lives=(late,)))
    assert outcome.violations == []
    assert outcome.crash_points == 1
    assert outcome.injected["crash ext4-ordered"] == 1


# A wrong store


@pytest.fixture
def replace_method(monkeypatch: pytest.MonkeyPatch) -> Callable[[type, str, Any], None]:
    """Replace a method of the store."""
    return monkeypatch.setattr


Put = Callable[[type, str, Any], None]


def test_a_service_that_dies_is_named_in_the_violation(replace_method: Put) -> None:
    def run_once(self: DispatchService) -> None:
        raise ZeroDivisionError("of its own accord")

    replace_method(DispatchService, "run_once", run_once)
    invariant, summary = only_violation(execute(QUIET_PLAN, "2"))
    assert invariant == "LIVE"
    assert summary == "life-0/dispatch died: ZeroDivisionError: of its own accord"


def test_a_service_that_hangs_is_named_with_the_object_it_waits_for(replace_method: Put) -> None:
    def finish_remaining_work(self: FlushConsumeQueueService) -> None:
        while True:
            self.signal.wait(None)

    replace_method(FlushConsumeQueueService, "finish_remaining_work", finish_remaining_work)
    invariant, summary = only_violation(execute(QUIET_PLAN))
    assert invariant == "LIVE"
    assert summary.startswith("deadlock")
    assert "life-0/flush-consume-queue" in summary


def test_a_service_that_loops_is_named_in_the_violation(replace_method: Put, monkeypatch: pytest.MonkeyPatch) -> None:
    def finish_remaining_work(self: FlushConsumeQueueService) -> None:
        while True:
            self.signal.notify()

    replace_method(FlushConsumeQueueService, "finish_remaining_work", finish_remaining_work)
    monkeypatch.setattr("tornlog.faults.simulation.simulation.STEP_LIMIT", 5_000)
    invariant, summary = only_violation(execute(QUIET_PLAN))
    assert invariant == "LIVE"
    assert summary.startswith("not finished at")


@pytest.mark.parametrize(
    "error", [CorruptFileError("commitlog/0", 4, "magicCode", "one", "none"), IndexError("out of range")]
)
def test_a_store_that_cannot_be_opened_is_a_violation(replace_method: Put, error: Exception) -> None:
    def load(self: MessageStore) -> None:
        raise error

    replace_method(MessageStore, "load", load)
    invariant, summary = only_violation(execute(QUIET_PLAN))
    assert invariant == "START"
    assert summary == f"the store cannot be opened: {type(error).__name__}: {error}"


def test_a_recovery_that_changes_the_log_every_time_is_a_violation(replace_method: Put, crash_plan: Plan) -> None:
    load, loads = MessageStore.load, count(1)

    def load_and_scribble(self: MessageStore) -> object:
        report = load(self)
        for segment in self.log.segments[-1:]:
            status = self.world.files.status(segment.file.path)
            assert status is not None
            segment.file.store(segment.size_bytes - 1, bytes([next(loads)]))
            self.world.files.set_mtime_ms(segment.file.path, status.mtime_ms)
        return report

    replace_method(MessageStore, "load", load_and_scribble)
    assert only_violation(execute(crash_plan)) == ("IDEMPOTENT", "a second recovery changed the store")


@pytest.mark.parametrize("invariant", ["CQ-COMPLETE", "CLEAN"])
def test_a_running_store_without_its_first_entries_is_reported_although_a_load_restores_them(
    replace_method: Put, monkeypatch: pytest.MonkeyPatch, invariant: str
) -> None:
    put = ConsumeQueue.put

    def lose_first(queue: ConsumeQueue, physical_offset: int, size: int, code: int, queue_offset: int) -> None:
        if queue_offset or invariant == "CLEAN":
            put(queue, physical_offset, size, code, queue_offset)
        queue.min_logic_offset = 20

    replace_method(ConsumeQueue, "put", lose_first)
    monkeypatch.setattr(consuming, "_SUBSCRIPTIONS", ("a tag of no message",))
    plan = QUIET_PLAN.replace(
        consumers=1,
        topics=1,
        queues_per_topic=1,
        consuming={"filtered": True},
        lives=(Life(LifeEnding.CRASH_AT_REST, "process-kill", -1, "after", 4),),
    )

    assert only_violation(execute(plan))[0] == invariant


def test_a_stop_that_leaves_a_task_running_is_a_violation(replace_method: Put) -> None:
    replace_method(FlushConsumeQueueService, "shutdown", lambda self: None)
    outcome = execute(QUIET_PLAN.replace(index={"slots": 0}))
    assert only_violation(outcome) == ("LIVE", "a stop left tasks running")
    assert outcome.violations[0].found == "life-0/flush-consume-queue"


def test_an_unclean_stop_without_a_fault_is_a_violation(replace_method: Put) -> None:
    replace_method(MessageStore, "is_clean", lambda self: False)
    assert only_violation(execute(QUIET_PLAN)) == ("LIVE", "a stop without a fault was not clean")


def test_a_run_ends_at_its_first_violation_and_still_has_a_digest(replace_method: Put) -> None:
    replace_method(DispatchService, "dispatch_available", lambda self: False)
    first, second = execute(QUIET_PLAN), execute(QUIET_PLAN)
    assert only_violation(first) == ("QUIET", "dispatch does not reach its target")
    assert len(first.violations) == 1
    assert first == second
    assert first.digest


METHODS: list[tuple[type, str]] = [
    (MessageStore, "put_message"),
    (MessageStore, "shutdown"),
    (MessageStore, "start"),
    (GroupCommitService, "commit"),
    (DispatchService, "dispatch_to_queue"),
    (FlushConsumeQueueService, "run_once"),
    (Segment, "append"),
    (Recovery, "finish_queues"),
]


@pytest.mark.parametrize(("owner", "name"), METHODS)
def test_an_exception_anywhere_in_the_store_is_a_violation_and_not_a_harness_error(
    replace_method: Put, owner: type, name: str
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise LookupError("broken")

    replace_method(owner, name, broken)
    for seed in range(4):
        plan = draw_plan(
            Choices(str(seed)).stream("plan"),
            Ranges(sync_flush=(True,), lives=(2,), batch_records=(0,), settings={"enable_consume_queue_ext": (False,)}),
        )
        assert execute(plan, str(seed)).violations, plan


# Stops during traffic, and write buffers


@pytest.fixture
def busy() -> Plan:
    """A stop during traffic of all kinds of users, with a write buffer."""
    stop = Life(LifeEnding.STOP_IN_TRAFFIC, "nothing-lost", -1, "after", 12)
    return QUIET_PLAN.replace(
        sync_flush=False,
        memory={"transient_pool": True},
        consumers=2,
        index={"seekers": 1, "slots": 5},
        producers=3,
        lives=(stop,),
    )


def test_a_stop_during_traffic_refuses_some_puts_and_loses_none(replace_method: Put, busy: Plan) -> None:
    refused = []
    answered = StoreSender._record_answer

    def watched(self: StoreSender, entries: Any, result: Any, *rest: Any) -> None:
        refused.append(result.append is None)
        answered(self, entries, result, *rest)

    replace_method(StoreSender, "_record_answer", watched)
    for seed in range(20):
        outcome = execute(busy, str(seed))
        assert outcome.violations == []
        assert outcome.crash_points == 0
    assert {True, False} == set(refused)


def test_a_store_that_stops_serving_on_its_own_is_a_violation(replace_method: Put, busy: Plan) -> None:
    def not_now(*_: object, **__: object) -> None:
        raise StoreNotReadableError("just so")

    replace_method(MessageStore, "get_message", not_now)
    plan = replace(busy, lives=(Life(LifeEnding.STOP, "nothing-lost", -1, "after", 3),))
    invariant, summary = only_violation(execute(plan))
    assert invariant == "LIVE"
    assert summary.endswith("died: StoreNotReadableError: just so")


def test_a_failed_commit_excuses_an_unclean_stop_but_no_loss_of_committed_data(busy: Plan) -> None:
    stop = Life(LifeEnding.STOP, "process-kill", -1, "after", 8)
    plan = replace(busy, faults=FaultPlan(failed_write_chance=0.9), lives=(stop, stop))
    failed = 0
    for seed in range(5):
        outcome = execute(plan, str(seed))
        assert outcome.violations == []
        failed += outcome.injected["failed write"]
        assert outcome.crash_points > 0
    assert failed > 0


@pytest.mark.parametrize("root", ["mq", "data/new/mq", "/data/new/store"])
def test_a_store_keeps_its_messages_with_any_directory_settings(root: str, crash_plan: Plan) -> None:
    outcome = execute(crash_plan.replace(directories={"root": root, "log_directories": 2}))

    assert (outcome.violations, outcome.crash_points) == ([], 1)
    assert outcome.messages > 0
