"""START, IDEMPOTENT and LIVE violations that the run reports, each for a store with one bug."""

import itertools

import pytest

from tornlog.scenarios.claims.ranges import Ranges, draw_plan
from tornlog.scenarios.oracle.evidence import Violation
from tornlog.scenarios.runs.run_of import simulation_of
from tornlog.scenarios.runs.store_run import Run
from tornlog.scenarios.workload import consuming
from tornlog.sim.choices import Choices
from tornlog.store.errors import CorruptFileError
from tornlog.store.message_store import MessageStore
from tornlog.store.queues.consume_queue import ConsumeQueue
from tornlog.store.queues.dispatch import DispatchService
from tornlog.store.recovery.recovery import RecoveryReport

PLAIN = Ranges().replace(endings=("crash at rest",), disk=("process-kill",), lives=(1,))


def run_violations(seed: str = "judgements", ranges: Ranges = PLAIN) -> list[Violation]:
    choices = Choices(seed)
    plan = draw_plan(choices.stream("plan"), ranges)
    return Run(plan, simulation_of(plan, choices)).execute().violations


def test_a_correct_store_has_no_violation() -> None:
    assert run_violations() == []


def test_a_store_that_does_not_open_breaks_start(monkeypatch: pytest.MonkeyPatch) -> None:
    load = MessageStore.load

    def refuse(store: MessageStore) -> RecoveryReport:
        if store.world.files.status(store.config.abort_path) is not None:
            raise CorruptFileError("commitlog/0", 7, "magicCode", "daa320a7", "00000000")
        return load(store)

    monkeypatch.setattr(MessageStore, "load", refuse)
    (violation,) = run_violations()

    assert violation.invariant == "START"
    assert "commitlog/0 @ 7" in violation.summary


def test_a_recovery_that_changes_files_each_time_breaks_idempotent(monkeypatch: pytest.MonkeyPatch) -> None:
    recover, count = MessageStore.recover, itertools.count(1)

    def scribble(store: MessageStore, *, clean_exit: bool) -> RecoveryReport:
        report = recover(store, clean_exit=clean_exit)
        if store.log.segments:
            last, files = store.log.segments[-1], store.world.files
            status = files.status(last.file.path)
            assert status is not None
            last.file.store(last.size_bytes - 1, bytes([next(count)]))
            files.set_mtime_ms(last.file.path, status.mtime_ms)
        return report

    monkeypatch.setattr(MessageStore, "recover", scribble)

    assert [violation.invariant for violation in run_violations()] == ["IDEMPOTENT"]


def test_a_dispatcher_without_progress_breaks_quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DispatchService, "dispatch_available", lambda service: False)
    (violation,) = run_violations()

    assert (violation.invariant, violation.field) == ("QUIET", "dispatch")


@pytest.mark.parametrize("invariant", ["CQ-COMPLETE", "CLEAN"])
def test_a_running_store_without_its_first_entries_is_reported_although_a_load_restores_them(
    monkeypatch: pytest.MonkeyPatch, invariant: str
) -> None:
    put = ConsumeQueue.put

    def lose_first(queue: ConsumeQueue, physical_offset: int, size: int, code: int, queue_offset: int) -> None:
        if queue_offset or invariant == "CLEAN":
            put(queue, physical_offset, size, code, queue_offset)
        queue.min_logic_offset = 20

    monkeypatch.setattr(ConsumeQueue, "put", lose_first)
    monkeypatch.setattr(consuming, "_SUBSCRIPTIONS", ("a tag of no message",))
    ranges = PLAIN.replace(consumers=(1,), topics=(1,), queues_per_topic=(1,), consuming={"filtered": (True,)})

    assert run_violations(ranges=ranges)[0].invariant == invariant


def test_a_service_that_dies_breaks_live(monkeypatch: pytest.MonkeyPatch) -> None:
    def die(service: DispatchService) -> bool:
        raise ZeroDivisionError("of a bug")

    monkeypatch.setattr(DispatchService, "dispatch_available", die)
    (violation,) = run_violations()

    assert (violation.invariant, violation.field) == ("LIVE", "task")
    assert "ZeroDivisionError: of a bug" in violation.summary


def test_a_stop_that_is_not_clean_breaks_live(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MessageStore, "is_clean", lambda store: False)
    (violation,) = run_violations()

    assert (violation.invariant, violation.field) == ("LIVE", "exit")


def test_a_service_that_outlives_the_stop_breaks_live(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tornlog.store.log.allocate.AllocateMappedFileService.shutdown", lambda service: None)
    (violation,) = run_violations()

    assert (violation.invariant, violation.field) == ("LIVE", "tasks")
