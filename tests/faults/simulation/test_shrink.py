import pytest

from tornlog.faults.simulation.finding import Finding, TrialRecord, steps_taken
from tornlog.faults.simulation.promises import PromiseBroken
from tornlog.faults.simulation.record import Record
from tornlog.faults.simulation.shrink import shrink, with_file_names_of
from tornlog.faults.simulation.simulation import Crash, Scenario, Simulation, SimWorld
from tornlog.faults.simulation.trials import find, replay
from tornlog.sim.choices import Decision
from tornlog.sim.errors import ReplayDivergedError

SYNCED = "a name that was synced is there"


def write_numbered_logs(run: Simulation) -> None:
    """Write one log after another without a directory sync; the last one counts."""
    written = []

    def write(world: SimWorld) -> None:
        for _ in run.steps("logs", 8):
            name = f"log-{len(written) + 1:04}"
            world.files.write(f"/{name}", b"x")
            world.files.sync(f"/{name}")
            written.append(name)

    def judge(world: SimWorld) -> None:
        if written and written[-1] not in world.files.list_directory("/"):
            raise PromiseBroken(SYNCED, written[-1])

    run.live("first", write, crash_within=40, profiles=("os-crash", "strict-posix"))
    run.live("second", judge)


def rewrite_a_file(run: Simulation) -> None:
    """Replace a file by rewriting it, twice, and require that it is never empty."""

    def write(world: SimWorld) -> None:
        for _ in run.steps("writes", 8):
            world.files.write("/file", b"x")
            world.files.sync("/file")

    def judge(world: SimWorld) -> None:
        if world.files.status("/file") and not world.files.read("/file"):
            raise PromiseBroken("the file is never empty", "it is")

    run.live("first", write, crash_within=40)
    run.live("second", judge)


def race_on_a_cell(run: Simulation) -> None:
    """Let tasks add to a cell in two steps, once per workload step, and require the sum."""

    def use(world: SimWorld) -> None:
        cell = world.tasks.cell("sum")
        done = []

        def add(name: str) -> None:
            for _ in run.steps(name, 4):
                cell.set(cell.get() + 1)
                done.append(name)

        for task in [world.tasks.spawn(name, lambda name=name: add(name)) for name in "abc"]:  # type: ignore[misc]
            task.join(None)
        if cell.get() != len(done):
            raise PromiseBroken("no addition is lost", f"{cell.get()} of {len(done)}")

    run.live("only", use)


def finding_of(scenario: Scenario) -> Finding:
    finding = find(scenario, range(300))
    assert finding is not None
    return finding


def test_a_lost_name_shrinks_to_the_loss_of_one_file() -> None:
    finding = finding_of(write_numbered_logs)
    assert len(steps_taken(finding.record)) > 1

    smallest = shrink(write_numbered_logs, finding)
    (loss,) = [decision for decision in smallest.record.decisions if not decision.label.endswith("taken")]
    assert len(steps_taken(smallest.record)) == 1
    assert loss.label == "create /log-0001 lost"
    assert smallest.record.crashes == (Crash("first", finding.record.crashes[0].profile, "after", ""),)
    assert smallest.record.schedule == ()


def test_a_crash_shrinks_to_the_mildest_kind_at_the_earliest_operation() -> None:
    smallest = shrink(rewrite_a_file, finding_of(rewrite_a_file))

    assert smallest.record.crashes == (Crash("first", "nothing-lost", "before", "write /file #1"),)
    assert len(smallest.record.decisions) == len(steps_taken(smallest.record)) == 1


def test_a_race_shrinks_to_two_steps_and_one_task_switch() -> None:
    smallest = shrink(race_on_a_cell, finding_of(race_on_a_cell))

    assert len(steps_taken(smallest.record)) == 2
    assert sum(switch.is_preemption for switch in smallest.record.schedule) == 1
    assert len(smallest.record.schedule) <= 2


@pytest.mark.parametrize("scenario", [write_numbered_logs, rewrite_a_file, race_on_a_cell])
def test_a_shrunk_run_replays_and_does_not_shrink_further(scenario: Scenario) -> None:
    smallest = shrink(scenario, finding_of(scenario))

    assert replay(scenario, smallest.record).is_same(smallest)
    assert shrink(scenario, smallest) == smallest


def test_shrinking_is_deterministic_and_reports_its_tries() -> None:
    told: list[tuple[TrialRecord, bool]] = []
    finding = finding_of(race_on_a_cell)

    smallest = shrink(race_on_a_cell, finding, on_try=lambda record, accepted: told.append((record, accepted)))
    assert smallest == shrink(race_on_a_cell, finding)
    assert {accepted for _, accepted in told} == {False, True}


def test_shrinking_stops_at_the_limit_of_tries() -> None:
    told: list[TrialRecord] = []
    finding = finding_of(race_on_a_cell)

    assert shrink(race_on_a_cell, finding, tries_max=0) == finding
    shrink(race_on_a_cell, finding, tries_max=7, on_try=lambda record, accepted: told.append(record))
    assert len(told) == 7


def test_a_failure_that_does_not_reproduce_is_not_shrunk() -> None:
    with pytest.raises(ReplayDivergedError):
        shrink(lambda run: None, finding_of(rewrite_a_file))


def test_shrinking_renumbers_only_names_of_removed_files() -> None:
    loss = Decision("disk of first", "create /log-0009 lost", 1, 2, 1)
    other = Decision("disk of first", "create /map-0009 lost", 1, 2, 1)
    steps = tuple(Decision("logs", f"step {number} taken", 1, 2, 1) for number in (2, 5))
    record: TrialRecord = Record(
        (loss, other, *steps), (), (Crash("first", "strict-posix", "before", "sync /log-0007 #3"),), None
    )

    moved = with_file_names_of(record, replay(write_numbered_logs, record))
    assert moved == Record(
        (loss._replace(label="create /log-0002 lost"), other, *steps),
        (),
        (Crash("first", "strict-posix", "before", "sync /log-0002 #1"),),
        None,
    )
    followed = replay(write_numbered_logs, Record(moved.decisions[:1] + steps, (), moved.crashes, None))
    assert followed.gone == ()
    assert with_file_names_of(moved, followed) == moved
