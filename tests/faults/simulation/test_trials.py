import re
import time

import pytest

from tornlog.faults.simulation import record as records
from tornlog.faults.simulation.finding import Finding
from tornlog.faults.simulation.promises import PromiseBroken
from tornlog.faults.simulation.record import Record, record_of
from tornlog.faults.simulation.simulation import CRASHES, Crash, Scenario, Simulation, SimWorld
from tornlog.faults.simulation.story import FailureSubjects
from tornlog.faults.simulation.trials import TrialOutcome, explore, find, finding_of, program_of, replay, run_seed
from tornlog.sim.choices import Choices, Decision
from tornlog.sim.errors import LeakError, ReplayDivergedError
from tornlog.sim.policies.random_walk import RandomWalk
from tornlog.sim.schedule import TaskSwitch
from tornlog.sim.trace import Trace, TraceEvent

LOST = "what was written is there"


def write_files_without_sync(run: Simulation) -> None:
    """Write a few files without sync, and require all of them."""
    written = []

    def write(world: SimWorld) -> None:
        for number, draw in run.steps("files", 3):
            world.files.write(f"/{number}", b"x" * draw.randint(1, 9, "bytes"))
            written.append(str(number))

    def judge(world: SimWorld) -> None:
        missing = set(written) - set(world.files.list_directory("/"))
        if missing:
            raise PromiseBroken(LOST, f"{sorted(missing)} missing")

    run.live("first", write, crash_within=12)
    run.live("second", judge)


def race_of_two_tasks(run: Simulation) -> None:
    """Add to a cell in two steps by two tasks, and require both."""

    def use(world: SimWorld) -> None:
        cell = world.tasks.cell("sum")

        def add() -> None:
            cell.set(cell.get() + 1)

        for task in [world.tasks.spawn("adder", add) for _ in range(2)]:
            task.join(None)
        assert cell.get() == 2, "an addition was lost"

    run.live("only", use)


def write_files_without_sync_with_a_busy_judge(run: Simulation) -> None:
    """As write_files_without_sync, with a judge that makes more file operations than a story has lines."""
    written = []

    def write(world: SimWorld) -> None:
        for number, _ in run.steps("files", 3):
            world.files.write(f"/{number}", b"x")
            written.append(str(number))

    def judge(world: SimWorld) -> None:
        missing = set(written) - set(world.files.list_directory("/"))
        for number in range(40):
            world.files.write(f"/judged-{number}", b"x")
        if missing:
            raise PromiseBroken(LOST, f"{len(missing)} missing")

    run.live("first", write, crash_within=12)
    run.live("second", judge)


def found_in(scenario: Scenario) -> Finding:
    finding = find(scenario, range(200))
    assert finding is not None
    return finding


def test_a_seed_gives_the_same_run_each_time() -> None:
    outcomes = [run_seed(write_files_without_sync, seed) for seed in range(20)]

    for seed, outcome in enumerate(outcomes):
        again = run_seed(write_files_without_sync, seed)
        assert (again.digest, again.error, again.crashes) == (outcome.digest, outcome.error, outcome.crashes)
    assert len({outcome.digest for outcome in outcomes}) > 10


def test_the_first_failing_seed_is_found() -> None:
    told: list[tuple[int, TrialOutcome]] = []
    finding = find(write_files_without_sync, range(200), lambda seed, outcome: told.append((seed, outcome)))

    assert finding is not None
    assert [seed for seed, _ in told] == list(range(finding.seed + 1))
    assert [bool(outcome.failure) for _, outcome in told] == [False] * finding.seed + [True]
    assert finding.signature == LOST
    assert finding.error.startswith(f"{LOST}: ['")
    assert finding.story[-1].split()[2:4] == ["first/main:", "kill"] or finding.record.crashes[0].point == ""


def test_the_story_of_a_finding_shows_the_crashed_life_and_counts_events_of_the_judge() -> None:
    finding = found_in(write_files_without_sync_with_a_busy_judge)
    head, *lines = finding.story
    told = [line.partition(" ms  ")[2] for line in lines]

    assert re.fullmatch(r"\d+ of \d+ events, chosen for .*first", head)
    lost = {decision.label.split()[1] for decision in finding.record.decisions if decision.label.startswith("create ")}
    assert lost
    assert {f"first/main: {kind} {path}" for kind in ("create", "write") for path in lost} <= set(told)
    assert [line for line in told if line.startswith("second/")]  # the last events fill the remaining lines


def test_a_path_in_a_text_matches_neither_its_directory_nor_a_prefix() -> None:
    events = [TraceEvent(0, 0, "first/main", "create", path) for path in ("/kv", "/kv/log-1", "/kv/log-10", "/kv/new")]
    concern = FailureSubjects()
    concern.add_paths(events, ["create /kv/log-10 lost", "no such file: /kv/new."])

    assert concern.paths == {"/kv/log-10", "/kv/new"}


def test_passing_seeds_have_no_finding() -> None:
    assert find(lambda run: run.live("only", lambda world: None), range(10)) is None


def test_a_replayed_finding_has_the_same_draws_switches_and_crash() -> None:
    for scenario in (write_files_without_sync, race_of_two_tasks):
        finding = found_in(scenario)
        replayed = replay(scenario, finding.record)

        assert replayed.is_same(finding)
        assert replayed.record == finding.record


def test_a_failed_task_is_reported_with_its_own_error() -> None:
    finding = found_in(race_of_two_tasks)

    assert finding.signature == "AssertionError"
    assert finding.error.startswith("AssertionError: an addition was lost")


def test_errors_outside_of_tasks_and_deadlocks_are_failures() -> None:
    def fails(run: Simulation) -> None:
        raise KeyError("b")

    def hangs(run: Simulation) -> None:
        run.live("only", lambda world: world.tasks.signal("never").wait(None))

    assert run_seed(fails, 1).signature == "KeyError"
    assert run_seed(hangs, 1).signature == "DeadlockError"


def test_a_replay_names_decisions_that_were_not_made() -> None:
    finding = found_in(write_files_without_sync)
    decision = Decision("disk of first", "page /gone#0 writes lost", 1, 2, 1)
    switch = TaskSwitch("first/main", "msync", 7, "first/nobody")
    crash = Crash("third", "xfs", "before", "create /a #1")
    record = finding.record
    more = Record((*record.decisions, decision), (*record.schedule, switch), (*record.crashes, crash), None)

    replayed = replay(write_files_without_sync, more)
    assert set(replayed.gone) == {decision, switch, crash}
    assert not replayed.is_same(finding)
    with pytest.raises(ReplayDivergedError, match="page /gone"):
        finding_of(write_files_without_sync, 1, more)


def test_a_record_of_a_passing_run_is_not_a_finding() -> None:
    with pytest.raises(ReplayDivergedError, match="no failure"):
        finding_of(write_files_without_sync, 1, Record((), (), (), None))


def test_another_policy_changes_the_schedule_of_a_replay() -> None:
    record = found_in(race_of_two_tasks).record
    outcomes = []
    for seed in range(40):
        program, policy = program_of(race_of_two_tasks), RandomWalk(Choices(str(seed)).stream("schedule"), 1)
        replayed = records.replay(program, record, policy=policy)
        outcome = replayed.result
        outcomes.append(outcome.signature)
        if outcome.failure is not None:
            again = record_of(program, None, replayed.simulation, outcome).record
            assert replay(race_of_two_tasks, again).result.digest == outcome.digest

    assert {"", "AssertionError"} == set(outcomes)


def test_a_run_that_differs_when_repeated_raises_an_error() -> None:
    times = []

    def moody(run: Simulation) -> None:
        times.append(1)
        run.live("only", lambda world: world.tasks.sleep(len(times)))
        raise PromiseBroken("never", str(len(times)))

    with pytest.raises(ReplayDivergedError):
        find(moody, range(1))


def test_a_scenario_that_uses_resources_outside_its_world_is_refused() -> None:
    with pytest.raises(LeakError, match=r"test_trials\.py"):
        run_seed(lambda run: run.live("only", lambda world: time.sleep(0.001)), 1)


def test_a_replay_can_fill_a_trace() -> None:
    trace = Trace()
    replay(write_files_without_sync, found_in(write_files_without_sync).record, trace)

    assert any(event.kind == "create" for event in trace)


def test_a_run_ends_at_its_step_limit() -> None:
    def endless(run: Simulation) -> None:
        def spin(world: SimWorld) -> None:
            while True:
                world.tasks.sleep(0)

        run.live("only", spin)

    assert replay(endless, Record((), (), (), None), step_limit=100).result.signature == "NoProgressError"


@pytest.mark.ci
def test_exploration_finds_a_crash_that_replays() -> None:
    explored = explore(write_files_without_sync, 1)

    (finding,) = explored.findings
    assert (explored.life, finding.signature) == ("first", LOST)
    assert replay(write_files_without_sync, finding.record).is_same(finding)
    total = explored.counts.total
    assert 0 < total.violations < total.judged <= total.states
    assert f"broken  {LOST}" in str(explored)


def test_exploration_of_correct_code_has_no_finding() -> None:
    def sound(run: Simulation) -> None:
        done = []

        def write(world: SimWorld) -> None:
            for number, _ in run.steps("files", 3):
                world.files.write(f"/{number}", b"x")
                world.files.sync(f"/{number}")
                world.files.sync_directory("/")
                done.append(str(number))

        def judge(world: SimWorld) -> None:
            if set(done) - set(world.files.list_directory("/")):
                raise PromiseBroken(LOST, "something is missing")

        run.live("first", write, crash_within=12)
        run.live("second", judge)

    explored = explore(sound, 1)
    total = explored.counts.total
    assert explored.findings == ()
    assert total.moments == 3 * 9 + 3 * 2, "before, after, and inside of what has a middle"
    assert total.exhausted == total.crashes == total.moments * len(set(CRASHES))


def test_exploration_stops_if_the_scenario_fails_without_a_crash() -> None:
    explored = explore(fail_always, 1)

    assert [finding.signature for finding in explored.findings] == ["never"]
    assert explored.counts.total.moments == 0


def fail_always(run: Simulation) -> None:
    run.live("only", lambda world: world.files.write("/a", b"x"), crash_within=3)
    raise PromiseBroken("never", "always")


def test_a_life_that_cannot_crash_is_not_explored() -> None:
    with pytest.raises(ValueError, match="life: expected one of those that may crash"):
        explore(lambda run: run.live("only", lambda world: None), 1)
