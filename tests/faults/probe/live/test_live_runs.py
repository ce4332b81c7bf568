import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from tornlog.faults.crashes.profiles import PROFILES
from tornlog.faults.disk.image import FileImage, Image
from tornlog.faults.probe.checks.check import FunctionCheck, PythonCheck
from tornlog.faults.probe.live.directory import NEWEST, OLDEST
from tornlog.faults.probe.live.run import LiveRun
from tornlog.faults.probe.live.schedule import CUT, PAUSE, LiveEvent, LiveOutcome, LivePlan, StepCount, schedule_of
from tornlog.faults.probe.recording.run import EMPTY, ProgramError

REPLICAS = Path(__file__).parents[4] / "docs" / "examples" / "probe_replicas.py"
NAMES = ("n1", "n2", "n3")
DISK = "ext4-ordered"
ALL_AT_ONCE = LiveEvent(CUT, NAMES, 9, 0, DISK, (OLDEST, OLDEST, OLDEST))
RunReplicas = Callable[..., LiveOutcome]


def free_ports(count: int) -> list[int]:
    """Return ports that were free a moment ago."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory for a run, which also identifies the processes of the run. Three ports are free."""
    monkeypatch.setenv("PORTS", ",".join(map(str, free_ports(3))))
    return tmp_path / "run"


def run(plan: LivePlan, place: Path, events: Sequence[LiveEvent], seed: int = 0) -> LiveOutcome:
    live = LiveRun(plan, place, events, seed)
    try:
        return live.run()
    finally:
        live.close()


@pytest.fixture
def run_replicas(place: Path) -> RunReplicas:
    """Return a function that runs the replicated log with these events."""

    def run_replicas(how: str, *events: LiveEvent) -> LiveOutcome:
        script = [sys.executable, str(REPLICAS)]
        plan = LivePlan(
            [*script, "put", "8"],
            {name: name for name in NAMES},
            [*script, "serve", "{machine}", how],
            EMPTY,
            PythonCheck(REPLICAS),
            check_seconds=30.0,
            seconds_max=60.0,
            stores="step",
            takes_refusals=False,
        )
        return run(plan, place, events)

    return run_replicas


def test_a_quorum_without_syncs_loses_values_when_all_machines_are_cut_at_one_moment(run_replicas: RunReplicas) -> None:
    outcome = run_replicas("unsynced", ALL_AT_ONCE)

    assert outcome.verdict.signature == "value # is lost"
    (cut,) = outcome.completed_events
    assert 0 < cut.promises < 8
    assert list(cut.images) == list(NAMES)
    assert all(not found.image.files for found in cut.images.values())
    # One replica may still be without a write, because a value needs two of three.
    assert sum(found.loss_count > 0 for found in cut.images.values()) >= 2
    assert len(outcome.answers.acknowledged) == 8, "the machines went on after the cut"


def test_a_quorum_with_syncs_loses_no_value_in_the_same_cut(run_replicas: RunReplicas) -> None:
    outcome = run_replicas("sync", ALL_AT_ONCE)

    assert not outcome.verdict.is_broken, outcome.verdict
    assert outcome.cuts == 1
    assert len(outcome.answers.acknowledged) == 8


def test_the_other_machines_go_on_while_one_is_cut_and_one_is_paused(run_replicas: RunReplicas) -> None:
    pause = LiveEvent(PAUSE, ("n1",), 3, 300)
    cut = LiveEvent(CUT, ("n2",), 4, 100, DISK, (OLDEST,))
    outcome = run_replicas("unsynced", pause, cut)

    assert [one.event for one in outcome.completed_events] == [pause, cut]
    assert outcome.completed_events[0].steps == {"n1": 3}
    assert list(outcome.completed_events[1].images) == ["n2"]
    assert len(outcome.answers.acknowledged) == 8
    assert not outcome.verdict.is_broken, "n1 has kept all"


def test_a_cut_whose_step_is_not_reached_is_made_after_the_program(run_replicas: RunReplicas) -> None:
    outcome = run_replicas("unsynced", ALL_AT_ONCE._replace(after_steps=100_000))

    (cut,) = outcome.completed_events
    assert cut.was_late
    assert cut.promises == 8
    assert outcome.verdict.signature == "value # is lost"


SPREADING = """
import os, sys, time
for child in range(2):
    if not os.fork():
        break
with open(f"log-{os.getpid()}", "a") as log:
    for number in range(100_000):
        log.write(f"{number}\\n")
        log.flush()
        time.sleep(0.001)
"""


@pytest.fixture
def one_machine(tmp_path: Path) -> Callable[[str, str], LivePlan]:
    """Return a function that plans a run of one machine with its code, and a client with its code."""

    def one_machine(machine: str, client: str) -> LivePlan:
        held = FunctionCheck("held", lambda directory, acknowledged: None)
        code = [sys.executable, "-c"]
        return LivePlan(
            [*code, client], {"only": "data"}, [*code, machine], EMPTY, held, 10.0, 30.0, "step", takes_refusals=False
        )

    return one_machine


def test_all_processes_of_a_machine_stop_at_one_moment(
    one_machine: Callable[[str, str], LivePlan], tmp_path: Path
) -> None:
    event = LiveEvent(CUT, ("only",), 100, 0, DISK, (NEWEST,))
    outcome = run(one_machine(SPREADING, "import time; time.sleep(1)"), tmp_path / "run", [event])

    (cut,) = outcome.completed_events
    lines = [file.content.count(b"\n") for path, file in cut.images["only"].image.files.items() if "/log-" in path]
    assert len(lines) == 3
    assert sum(lines) + len(lines) == cut.steps["only"], "one step for each line, and one for each file"
    assert cut.steps["only"] - 100 in (0, 1, 2), "a call that is under way ends first"


def test_a_machine_that_does_not_start_from_its_image_is_a_breach(
    one_machine: Callable[[str, str], LivePlan], tmp_path: Path
) -> None:
    machine = """
import os, time
if os.path.exists("begun"):
    raise SystemExit("corrupt")
open("begun", "w").close()
time.sleep(100)
"""
    event = LiveEvent(CUT, ("only",), 1, 0, DISK, (NEWEST,))
    outcome = run(one_machine(machine, "import time; time.sleep(0.5)"), tmp_path / "run", [event])

    assert outcome.verdict.signature == ("only keeps exiting: # times without a power cut, last with exit code #")
    assert "corrupt" in outcome.logs["only"]


def test_a_machine_that_ends_before_any_event_is_an_error(
    one_machine: Callable[[str, str], LivePlan], tmp_path: Path
) -> None:
    plan = one_machine("print('no disk'); raise SystemExit(3)", "import time; time.sleep(5)")

    with pytest.raises(ProgramError, match=r"only \(power not cut\) has ended with 3.*no disk"):
        run(plan, tmp_path / "run", [])


@pytest.fixture(params=range(3))
def schedules(request: pytest.FixtureRequest) -> Iterator[list[LiveEvent]]:
    steps = {"n1": StepCount(3, 40), "n2": StepCount(0, 41 + request.param), "n3": StepCount(0, 1)}
    return (schedule_of(seed, steps, [DISK], 3) for seed in range(100))


def test_every_schedule_has_a_cut_on_an_allowed_disk(schedules: Iterator[list[LiveEvent]]) -> None:
    for events in schedules:
        cuts = [event for event in events if event.kind == CUT]
        assert cuts
        assert all(event.disk in PROFILES and len(event.images) == len(event.machines) for event in cuts)
        assert events[0].machines[0] != "n1" or events[0].after_steps > 3, "nothing is promised before"


def test_a_seed_draws_the_same_events_if_a_run_has_a_few_more_steps() -> None:
    counts = [{"n1": StepCount(17 + more, 67 + 2 * more), "n2": StepCount(0, 90)} for more in (0, 5)]
    runs = [[schedule_of(seed, steps, [DISK], 2) for seed in range(20)] for steps in counts]

    assert runs[0] == runs[1]
    assert len({len(event.machines) for events in runs[0] for event in events}) == 2


def test_no_process_of_a_run_is_left(run_replicas: RunReplicas, place: Path) -> None:
    run_replicas("unsynced", ALL_AT_ONCE)

    for directory in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended meanwhile
            assert not (directory / "cwd").readlink().is_relative_to(place), (directory / "cmdline").read_bytes()


VFORKING = """
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

int main(void) {
    int log = open("log", O_CREAT | O_WRONLY, 0644);
    for (;;) {
        pid_t child = vfork();
        if (child == 0) {
            write(log, "a\\n", 2);
            write(log, "b\\n", 2);
            execl("/bin/true", "true", (char *)0);
            _exit(1);
        }
        waitpid(child, 0, 0);
    }
}
"""


@pytest.mark.parametrize("after_steps", [20, 21])
def test_a_thread_that_waits_inside_vfork_counts_as_stopped(
    after_steps: int, one_machine: Callable[[str, str], LivePlan], tmp_path: Path
) -> None:
    (tmp_path / "vforking.c").write_text(VFORKING)
    subprocess.run(["gcc", "-w", "-o", tmp_path / "vforking", tmp_path / "vforking.c"], check=True)
    plan = replace(one_machine("", "import time; time.sleep(0.5)"), restart=[str(tmp_path / "vforking")])
    event = LiveEvent(CUT, ("only",), after_steps, 0, DISK, (NEWEST,))
    outcome = run(plan, tmp_path / "run", [event])

    (cut,) = outcome.completed_events
    assert cut.images["only"].image.files["/files/log"].content.count(b"\n") == cut.steps["only"] - 1


def test_machines_begin_with_their_part_of_the_start_directory(
    one_machine: Callable[[str, str], LivePlan], tmp_path: Path
) -> None:
    start = Image(
        {path: FileImage(b"old", 0) for path in ("/files/data/log", "/files/list", "/files/database")},
        ("/files", "/files/data", "/tmp"),
    )
    plan = one_machine(
        "import time; open('log', 'a').write(' and new'); time.sleep(100)",
        "import time; time.sleep(0.4); print(open('list').read(), open('database').read(), open('data/log').read())",
    )
    event = LiveEvent(CUT, ("only",), 10, 0, DISK, (OLDEST,))
    outcome = run(replace(plan, start=start), tmp_path / "run", [event])

    assert outcome.answers.acknowledged == ["old old old and new"]
    (cut,) = outcome.completed_events
    assert {path: file.content for path, file in cut.images["only"].image.files.items()} == {"/files/log": b"old"}
