"""Visits: crash points are visited evenly over the record and over kinds of steps."""

from itertools import chain, pairwise

import pytest

from tornlog.faults.probe.record import ProgramRecord, Step
from tornlog.faults.probe.recording.run import EMPTY
from tornlog.faults.probe.replay import Point, Replayer
from tornlog.faults.probe.visits import VisitPlan

PUTS = 200


@pytest.fixture(scope="module")
def record() -> ProgramRecord:
    """Return the record of a log with many puts, and one rename near its end."""
    steps = [Step("create", "/files/log", file=0), Step("create", "/files/new", file=1)]
    for put in range(PUTS):
        steps += [Step("write", file=0, at=put, data=b"x"), Step("sync", file=0), Step("acknowledge", str(put))]
        if put == PUTS - 3:
            steps.append(Step("rename", "/files/new", "/files/index"))
    return ProgramRecord(("log.py",), tuple(steps), ((),))


@pytest.fixture(scope="module")
def points(record: ProgramRecord) -> list[Point]:
    return list(Replayer(record, EMPTY).points())


def test_passes_visit_each_crash_point_once(record: ProgramRecord, points: list[Point]) -> None:
    visited = list(chain.from_iterable(VisitPlan(is_even=True).passes(record, points)))

    assert len(visited) == len(points)
    assert set(visited) == set(points)


@pytest.mark.parametrize("points_max", [1, 20, 100, 602])
def test_a_sample_has_as_many_crash_points_as_requested(
    record: ProgramRecord, points: list[Point], points_max: int
) -> None:
    passes = list(VisitPlan(points_max, is_even=True).passes(record, points))

    assert sum(map(len, passes)) == min(points_max, len(points))


@pytest.mark.parametrize("visited_count", [20, 50, 150])
def test_the_first_crash_points_are_spread_over_the_record_and_over_all_kinds_of_steps(
    record: ProgramRecord, points: list[Point], visited_count: int
) -> None:
    visited = list(chain.from_iterable(VisitPlan(is_even=True).passes(record, points)))[:visited_count]
    visited_steps = sorted(point.step for point in visited)

    assert {record.steps[step].kind for step in visited_steps if step >= 0} == {step.kind for step in record.steps}
    assert max(after - before for before, after in pairwise(visited_steps)) <= 8 * len(record.steps) / visited_count
    assert visited_steps[-1] == len(record.steps) - 1


def test_each_file_is_visited_early(record: ProgramRecord) -> None:
    files = [Step("create", f"/files/{name}", file=name) for name in range(30)]
    writes = [Step("write", file=number // 9, at=number, data=b"x") for number in range(270)]
    many = ProgramRecord(record.program, (*files, *writes), record.stacks)
    visited = chain.from_iterable(VisitPlan(90, is_even=True).passes(many, list(Replayer(many, EMPTY).points())))

    assert {many.steps[point.step].file for point in visited if point.step >= len(files)} == set(range(30))


def test_a_record_without_crash_points_has_no_pass(record: ProgramRecord) -> None:
    assert list(VisitPlan(10, is_even=True).passes(record, [])) == []
