from collections import Counter

import pytest

from tornlog.faults.disk.disk import Disk
from tornlog.faults.disk.fault_injector import CrashSite
from tornlog.scenarios.claims.plan import Life, LifeEnding, Plan
from tornlog.scenarios.claims.ranges import Ranges, draw_plan
from tornlog.scenarios.runs.marks import MARKS, RunMarks
from tornlog.sim.choices import Choices
from tornlog.sim.kernel import Kernel
from tornlog.sim.policies.random_walk import RandomWalk
from tornlog.store.marks import MARKS as STORE_MARKS

POWER = Life(LifeEnding.CRASH_IN_TRAFFIC, "strict-posix", 3, "before", 1)
KILL = Life(LifeEnding.CRASH_IN_TRAFFIC, "process-kill", 3, "before", 1)
STOP = Life(LifeEnding.STOP, "strict-posix", -1, "before", 1)


def plan() -> Plan:
    return draw_plan(Choices("1").stream("plan"), Ranges(index={"slots": (5,)}))


def end(*ends: tuple[Life, CrashSite | None, bool], failed_syncs: int = 0) -> Counter[str]:
    """Return the marks of a run with the listed ends of lives: life, crash point, and whether it had recovered."""
    hits: Counter[str] = Counter()
    marks = RunMarks(plan(), hits)
    choices = Choices("1")
    kernel = Kernel(RandomWalk(choices.stream("schedule"), 4))
    for life, met, recovered in ends:
        disk = Disk(kernel, choices.stream("disk"))
        disk._injector.crash_site = met
        disk.injected["failed sync"] = failed_syncs
        marks.note_end(life, disk, crashed=not life.is_stop, recovered=recovered)
    return +hits


@pytest.mark.parametrize(
    ("met", "recovered", "mark"),
    [
        (CrashSite("store", "/store/index/2026", 40), True, "index torn before slot"),
        (CrashSite("store", "/store/index/2026", 0), True, "index torn before header"),
        (CrashSite("sync directory", "/store/commitlog", 0), True, "crash in segment sync"),
        (CrashSite("rename", "/store/config/delayOffset.json", 0), True, "crash in rename"),
        (CrashSite("store", "/store/checkpoint", 0), True, "crash in checkpoint"),
        (CrashSite("unlink", "/store/commitlog/0", 0), False, "crash in truncation"),
    ],
)
def test_a_crash_at_a_special_file_is_a_mark(met: CrashSite, recovered: bool, mark: str) -> None:
    assert mark in end((POWER, met, recovered))


def test_an_index_write_a_stop_and_a_crash_at_rest_are_no_marks() -> None:
    assert not end((POWER, CrashSite("store", "/store/index/2026", 60), True))
    assert not end((POWER, None, True))
    assert not end((STOP, CrashSite("store", "/store/checkpoint", 0), True))


def test_consecutive_interrupted_recoveries_are_counted_by_depth() -> None:
    cut = (POWER, None, False)
    hits = end(cut, cut, cut, cut, (POWER, None, True), cut)
    assert hits == {"crash in recovery": 2, "crash in recovery, twice": 1, "crash in recovery, three times": 2}


def test_a_power_cut_after_a_kill_is_a_mark_but_not_after_a_stop() -> None:
    killed, cut, stopped = (KILL, None, True), (POWER, None, True), (STOP, None, True)
    assert end(killed, cut) == {"kill, then power cut": 1}
    assert not end(killed, stopped, cut)


def test_a_power_cut_after_a_failed_sync_is_a_mark() -> None:
    assert end((POWER, None, True), failed_syncs=1) == {"power cut after failed sync": 1}


def test_the_run_marks_include_the_store_marks() -> None:
    assert set(STORE_MARKS) < set(MARKS)
