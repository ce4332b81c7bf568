import pytest

from tornlog.faults.simulation.finding import Finding, TrialRecord, steps_taken
from tornlog.faults.simulation.promises import PromiseBroken
from tornlog.faults.simulation.record import Record
from tornlog.faults.simulation.shrink import renumbered, shrink
from tornlog.faults.simulation.simulation import Crash, Scenario, Simulation, SimWorld
from tornlog.faults.simulation.trials import find, replay
from tornlog.sim.choices import Decision
from tornlog.sim.errors import ReplayDivergedError

SYNCED = "a name that was synced is there"


def numbered(run: Simulation) -> None:
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


def torn(run: Simulation) -> None:
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


def racy(run: Simulation) -> None:
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


def found_in(scenario: Scenario) -> Finding:
    finding = find(scenario, range(300))
    assert finding is not None
    return finding


def test_a_lost_name_shrinks_to_one_file_of_any_number() -> None:
    finding = found_in(numbered)
    assert len(steps_taken(finding.record)) > 1

    smallest = shrink(numbered, finding)
    (loss,) = [decision for decision in smallest.record.decisions if not decision.label.endswith("taken")]
    assert len(steps_taken(smallest.record)) == 1
    assert loss.label == "create /log-0001 lost"
    assert smallest.record.crashes == (Crash("first", finding.record.crashes[0].profile, "after", ""),)
    assert smallest.record.schedule == ()


def test_a_crash_shrinks_to_the_mildest_kind_at_the_earliest_operation() -> None:
    smallest = shrink(torn, found_in(torn))

    assert smallest.record.crashes == (Crash("first", "nothing-lost", "before", "write /file #1"),)
    assert len(smallest.record.decisions) == len(steps_taken(smallest.record)) == 1


def test_a_race_shrinks_to_two_steps_and_a_switch() -> None:
    smallest = shrink(racy, found_in(racy))

    assert len(steps_taken(smallest.record)) == 2
    assert sum(switch.is_preemption for switch in smallest.record.schedule) == 1
    assert len(smallest.record.schedule) <= 2


@pytest.mark.parametrize("scenario", [numbered, torn, racy])
def test_a_shrunk_run_replays_and_shrinks_no_further(scenario: Scenario) -> None:
    smallest = shrink(scenario, found_in(scenario))

    assert replay(scenario, smallest.record).is_same(smallest)
    assert shrink(scenario, smallest) == smallest


def test_shrinking_is_deterministic_and_reports_its_tries() -> None:
    told: list[tuple[TrialRecord, bool]] = []
    finding = found_in(racy)

    smallest = shrink(racy, finding, on_try=lambda record, accepted: told.append((record, accepted)))
    assert smallest == shrink(racy, finding)
    assert {accepted for _, accepted in told} == {False, True}


def test_shrinking_stops_at_the_limit_of_tries() -> None:
    told: list[TrialRecord] = []
    finding = found_in(racy)

    assert shrink(racy, finding, tries_max=0) == finding
    shrink(racy, finding, tries_max=7, on_try=lambda record, accepted: told.append(record))
    assert len(told) == 7


def test_a_failure_that_does_not_reproduce_is_not_shrunk() -> None:
    with pytest.raises(ReplayDivergedError):
        shrink(lambda run: None, found_in(torn))


def test_only_missing_names_are_renumbered() -> None:
    loss = Decision("disk of first", "create /log-0009 lost", 1, 2, 1)
    other = Decision("disk of first", "create /map-0009 lost", 1, 2, 1)
    steps = tuple(Decision("logs", f"step {number} taken", 1, 2, 1) for number in (2, 5))
    record: TrialRecord = Record(
        (loss, other, *steps), (), (Crash("first", "strict-posix", "before", "sync /log-0007 #3"),), None
    )

    moved = renumbered(record, replay(numbered, record))
    assert moved == Record(
        (loss._replace(label="create /log-0002 lost"), other, *steps),
        (),
        (Crash("first", "strict-posix", "before", "sync /log-0002 #1"),),
        None,
    )
    followed = replay(numbered, Record(moved.decisions[:1] + steps, (), moved.crashes, None))
    assert followed.gone == ()
    assert renumbered(moved, followed) == moved
