"""SCAN finds a start that reads more of the log than necessary, unless it has a reason."""

from dataclasses import replace

import pytest

from tests.one_life import with_settings
from tornlog.faults.disk.disk import Disk
from tornlog.scenarios.claims.ranges import Ranges, draw_plan
from tornlog.scenarios.mutants.known import applied_mutant
from tornlog.scenarios.oracle.evidence import Violation
from tornlog.scenarios.oracle.invariants import scan
from tornlog.sim.choices import Choices
from tornlog.store.errors import CorruptFileError
from tornlog.store.formats.messages import Message
from tornlog.store.message_store import MessageStore
from tornlog.store.recovery.recovery import Recovery, RecoveryReport

MESSAGES = 40
"""A number of messages that need more segments than a start after a clean exit reads."""
_LATER_MS = 5_000
"""Longer than the margin of the checkpoint."""


def scan_violations_of_reload(
    store: MessageStore, disk: Disk, *, stops: bool, whole: bool = False, lost: str = ""
) -> list[Violation]:
    """Fill and stop a store, load another on its files and return the violations of its scan."""
    for topic in ("T0", "T1"):
        for _ in range(MESSAGES // 2):
            assert store.put_message(Message(topic, bytes(100), 0, "KEYS\1k")).append is not None
        store.world.tasks.sleep(_LATER_MS)
    store.flush_queues.flush_thoroughly()
    if stops:
        assert store.shutdown()
    else:
        store.close()
    if lost:
        store.world.files.unlink(lost)
    config = replace(store.config, recover_whole_log=whole)
    again = MessageStore(store.world, config)
    before = scan.read_scan_bounds(disk, config)
    assert before.is_clean is stops
    again.load()
    assert len(again.log.segments) > 3
    return [*scan.check_scan_start(again, before), *scan.check_entries_kept(disk, before)]


@pytest.mark.parametrize("stops", [True, False])
def test_a_start_that_reads_only_data_after_the_checkpoint_is_no_violation(
    store: MessageStore, disk: Disk, stops: bool
) -> None:
    assert scan_violations_of_reload(store, disk, stops=stops) == []


@pytest.mark.parametrize("stops", [True, False])
def test_a_start_that_reads_the_whole_log_is_a_violation(
    store: MessageStore, disk: Disk, stops: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Recovery, "segments_with_entries", lambda recovery: 0)
    (violation,) = scan_violations_of_reload(store, disk, stops=stops)
    assert (violation.invariant, violation.field, violation.found) == ("SCAN", "scan from", "0")


def test_a_start_may_read_the_whole_log_if_the_settings_say_so(store: MessageStore, disk: Disk) -> None:
    assert scan_violations_of_reload(store, disk, stops=False, whole=True) == []


def test_a_start_may_read_the_whole_log_if_a_queue_lacks_its_first_file(store: MessageStore, disk: Disk) -> None:
    front = f"{store.config.consume_queue_directory}/T1/0/{0:020}"
    assert scan_violations_of_reload(store, disk, stops=False, lost=front) == []


@with_settings(extended=True)
def test_a_start_after_a_clean_stop_that_replaces_addresses_of_units_is_a_violation(
    store: MessageStore, disk: Disk
) -> None:
    with applied_mutant("tests.mutation:negate-condition:consume_queue.ConsumeQueue.tags_code_to_keep#1"):
        (violation,) = scan_violations_of_reload(store, disk, stops=True)
    assert (violation.invariant, violation.field) == ("SCAN", "entries")
    assert "consumequeue/" in violation.file


@pytest.mark.parametrize(
    ("path", "field", "found", "killed_load", "count"),
    [
        ("/store/index/20200913122658009", "slot", "44", True, 0),
        ("/store/index/20200913122658009", "slot", "44", False, 1),
        ("/store/commitlog/00000000000000000000", "slot", "44", True, 1),
        ("/store/commitlog/00000000000000000000", "magicCode", "00000000", True, 0),
        ("/store/commitlog/00000000000000000000", "magicCode", "00000000", False, 1),
        ("/store/commitlog/00000000000000000000", "magicCode", "daa320a6", True, 1),
    ],
)
def test_a_killed_load_explains_damage_of_the_index_and_a_half_cleared_end_of_the_log_only(
    path: str, field: str, found: str, killed_load: bool, count: int
) -> None:
    plan = draw_plan(Choices("a killed load").stream("plan"), Ranges(disk=("process-kill",), endings=("stop",)))
    report = RecoveryReport(clean_exit=True, findings=[CorruptFileError(path, 44, field, "another", found)])
    violations = list(scan.check_reported_damage(plan, report, killed_load))
    assert [one.invariant for one in violations] == ["SCAN"] * count
