from functools import partial

import pytest
from store.wal import WriteAheadLog

from tornlog.faults.simulation.promises import PromiseBroken


@pytest.mark.tornlog(seeds=60, must_inject=("crash", "name lost"), never_injected="fail")
def test_appended_records_survive_crashes(simulation, directory):
    appended, uncertain = [], []

    def use(life, world):
        wal = WriteAheadLog(world.files, directory)
        judge(wal)
        for number, _ in simulation.steps(f"orders of {life}", 6):
            uncertain.append(f"order {number} of {life}".encode())
            wal.append(uncertain[-1])
            appended.append(uncertain.pop())

    def judge(wal):
        found = wal.open()
        if found not in (appended, appended + uncertain):
            raise PromiseBroken("every appended record is present", f"expected {appended}, found {found}")
        appended[:], uncertain[:] = found, []

    for life in ("monday", "tuesday"):
        simulation.live(life, partial(use, life), crash_within=30)
    simulation.live("wednesday", lambda world: judge(WriteAheadLog(world.files, directory)))


@pytest.mark.tornlog(
    scenario="segment-rollover-crash",
    seeds=5,
    never_injected="ignore",
    disk="strict-posix",
    ranges={"commit_log_bytes": (2048,)},
)
def test_the_segment_rollover_scenario_of_the_store_passes(tornlog_tally):
    assert tornlog_tally.crash_points > 0
