"""Timeline fixtures: recordings of failed runs, and their pages."""

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from textwrap import dedent

import pytest

from tornlog.faults.probe.checks.checkers import Checkers
from tornlog.faults.probe.checks.command import check_in_file
from tornlog.faults.probe.failure import ProbeFinding
from tornlog.faults.probe.probe import Prober
from tornlog.faults.probe.record import ProgramRecord, ProgramTask, SourceLine, Step
from tornlog.faults.probe.recording.run import EMPTY
from tornlog.faults.probe.shrink import shrink
from tornlog.reports.timeline.page import timeline_page
from tornlog.reports.timeline.recording.probed import record_probe
from tornlog.reports.timeline.recording.record import RunRecording
from tornlog.reports.timeline.recording.recorder import record_seed
from tornlog.scenarios.campaigns.mutation_run import narrowed_scenario
from tornlog.scenarios.claims.ranges import Ranges
from tornlog.scenarios.claims.scenario import Scenario
from tornlog.scenarios.mutants.known import mutant_named

LOST = "no-dir-fsync-on-rollover"
"""A bug whose first failure loses an acknowledged message in one power cut."""

CHECK = """
    def check(directory, acknowledged):
        file = directory / "value"
        if acknowledged and not file.exists():
            yield f"{acknowledged[-1]!r} is lost"
    """
"""The check of the probed program."""


@pytest.fixture(scope="session")
def broken_by() -> Callable[[str], RunRecording]:
    """Return the recording of the first seed that a mutant breaks, in plans without rare settings."""

    @cache
    def broken_by(mutant: str) -> RunRecording:
        ground = narrowed_scenario(mutant_named(mutant))
        plain = ground.ranges.replace(crash_aim=("operation",), batch_records=(0,), attribute_points=(False,))
        ground = replace(ground, ranges=plain)
        runs = (record_seed(ground, seed, mutant=mutant) for seed in range(200))
        return next(run for run in runs if run.broken)

    return broken_by


@pytest.fixture(scope="session")
def came_back() -> RunRecording:
    """A run in which a truncated message returned."""
    mutant = "stale-tail-after-truncate"
    ground = narrowed_scenario(mutant_named(mutant))
    runs = (record_seed(ground, seed, mutant=mutant) for seed in range(500))
    return next(run for run in runs if any("reappeared" in broken.violation.summary for broken in run.broken))


@pytest.fixture(scope="session")
def ended_at_its_crash() -> RunRecording:
    """A run whose last machine promised data that was not durable; it ends at the crash."""
    ground = narrowed_scenario(mutant_named("fsync-retry-acks"))
    runs = (record_seed(ground, seed, mutant="fsync-retry-acks") for seed in range(500))
    return next(run for run in runs if run.broken and run.cuts and run.cuts[-1].following == "")


@pytest.fixture(scope="session")
def lost() -> RunRecording:
    """A run of one life, without faults before its power cut, in which a promised message is lost."""
    ranges = narrowed_scenario(mutant_named(LOST)).ranges.replace(
        lives=(1,),
        producers=(2,),
        commit_log_bytes=(2048,),
        crash_aim=("operation",),
        batch_records=(0,),
        attribute_points=(False,),
        disturbances={"paused_task_chance": (0.0,), "paused_machine_chance": (0.0,), "timer_slack_us": (0,)},
    )
    ground = replace(narrowed_scenario(mutant_named(LOST)), ranges=ranges)
    runs = (record_seed(ground, seed, mutant=LOST) for seed in range(500))
    return next(
        run
        for run in runs
        if len(run.broken) == 1
        and run.broken[0].violation.invariant == "DUR"
        and not run.faults
        and any(put.outcomes and put.outcomes[-1].found for put in run.puts)
    )


@pytest.fixture(scope="session")
def held() -> RunRecording:
    ranges = Ranges(endings=("crash at rest",), lives=(2,), sync_flush=(True,), disk=("strict-posix",))
    return record_seed(Scenario("held", "all is well", ranges), 1)


@pytest.fixture(scope="session")
def long() -> RunRecording:
    """A run of more than 5,000 events."""
    ranges = Ranges(
        endings=("crash at rest",),
        lives=(2,),
        producers=(3,),
        messages_each=(30,),
        topics=(2,),
        messages={
            "body_bytes_max": (100,),
            "property_bytes_max": (0,),
            "batch_chance": (0.0,),
            "illegal_chance": (0.0,),
        },
        sync_flush=(True,),
        disk=("strict-posix",),
        commit_log_bytes=(16384,),
        consumers=(0,),
        pauses={"chance": (0.0,)},
        heals=(False,),
    )
    run = record_seed(Scenario("long", "a long run is told in full", ranges), 1)
    assert 5_000 < len(run.moments) < 8_000
    return run


@pytest.fixture(scope="session")
def page_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[RunRecording], Path]:
    directory, pages = tmp_path_factory.mktemp("pages"), {}

    def page_of(run: RunRecording) -> Path:
        if run.digest not in pages:
            pages[run.digest] = directory / f"{run.digest}.html"
            pages[run.digest].write_text(timeline_page(run), encoding="utf-8")
        return pages[run.digest]

    return page_of


@pytest.fixture(scope="session")
def probed(tmp_path_factory: pytest.TempPathFactory) -> RunRecording:
    """The recording of a program without syncs, cut after its first promise."""
    check = tmp_path_factory.mktemp("check") / "check.py"
    check.write_text(dedent(CHECK))
    stacks = ((), (SourceLine("/app/save.py", 3, "save"),))
    steps = (
        Step("create", "/files/new", file=0, stack=1, call="openat"),
        Step("write", file=0, data=b"one" * 2000, stack=1, by=1, call="write"),
        Step("rename", "/files/new", "/files/value", stack=1, call="rename"),
        Step("acknowledge", "one", stack=1),
        Step("create", "/files/later", file=1),
    )
    tasks = (ProgramTask(0, 0, "save"), ProgramTask(0, 1, "io"))
    record = ProgramRecord(("save.py", "a b"), steps, stacks, tasks=tasks)
    with Checkers(check_in_file(check), 0, 10.0) as checkers:
        found = Prober(record, EMPTY, checkers, disks=("ext4-ordered",)).probe()
        ((signature, group),) = found.in_order
        shown = shrink(record, EMPTY, group.smallest, checkers)
    return record_probe(ProbeFinding(signature, record, EMPTY, shown), check.name)
