from array import array
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tornlog.reports.studies.latency.real import turns as module
from tornlog.reports.studies.latency.real.memory_limit import NO_PRESSURE, Pressure
from tornlog.reports.studies.latency.real.neighbour import NeighbourReport
from tornlog.reports.studies.latency.real.paired import median_ratio, paired_differences
from tornlog.reports.studies.latency.real.puts import MeasuredPuts
from tornlog.reports.studies.latency.real.tables import by_cell, notes
from tornlog.reports.studies.latency.real.turns import (
    MachineCondition,
    MeasuredCell,
    MeasuredTurn,
    Mode,
    TurnPlan,
    measure_turns,
)

MIB = 1 << 20
LOADED = MachineCondition(None, 50 * MIB)


def turn(
    cell: MeasuredCell, number: int, us: int, pressure: Pressure = NO_PRESSURE, load: NeighbourReport | None = None
) -> MeasuredTurn:
    return MeasuredTurn(
        cell, number, MeasuredPuts(array("q", [us * 1_000]), array("q", [us * 1_000])), pressure, load, 1.0
    )


@pytest.mark.parametrize(
    ("ratios", "interval"), [([0.5] * 5, None), ([3, 1, 2, 6, 5, 4], (1, 6)), (list(range(1, 21)), (6, 15))]
)
def test_the_interval_of_a_median_is_that_of_the_sign_test(ratios: list[float], interval: tuple[float, float]) -> None:
    assert median_ratio(ratios).interval == interval


@pytest.mark.parametrize(("pool_us", "verdict"), [(50, "lower"), (200, "higher"), (100, "no difference seen")])
def test_the_verdict_of_a_pair_compares_turns_with_the_same_number(pool_us: int, verdict: str) -> None:
    pool, other = (MeasuredCell("real", Mode(flush), MachineCondition(), 4) for flush in ("pool", "async"))
    phases = [1, 40, 2, 80, 3, 7, 1]  # the machine slows both modes down
    found = list(
        paired_differences(
            [turn(pool, number, pool_us * phase) for number, phase in enumerate(phases)]
            + [turn(other, number, 100 * phase) for number, phase in reversed(list(enumerate(phases)))]
            + [turn(other._replace(condition=LOADED), 0, 1)]
        )
    )

    assert {(one.claim, one.turns, one.ratio.verdict()) for one in found} == {("C7", 7, verdict)}
    assert [one.ratio.median for one in found] == [pool_us / 100] * len(found)


def test_a_limit_that_was_never_reached_and_a_slow_neighbour_are_reported() -> None:
    limited = MachineCondition(256 * MIB, 50 * MIB)
    slow = NeighbourReport(2.0, 20 * MIB, 1.0, 1.0, 0.25)
    reached, never = (MeasuredCell("real", Mode(flush), limited, 4) for flush in ("sync", "pool"))
    cells = by_cell([turn(reached, 0, 1, Pressure(1, 0, 0, 0), slow), turn(never, 0, 1, NO_PRESSURE, slow)])

    assert notes(cells) == [
        "real, pool, 256 MiB of memory, neighbour at 50 MiB/s: the limit was never reached",
        "the neighbour wrote 10 MiB/s of the 50 MiB/s allowed; dirty pages never reached the limit at which writers "
        "pause (at most 25 % of it)",
    ]


@pytest.mark.ci
def test_all_cells_of_a_turn_put_at_the_same_arrivals_and_only_some_beside_the_neighbour(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[str] = []

    @contextmanager
    def quiet_neighbour(directory: Path, rate_bytes: int) -> Iterator[object]:
        ran.append("started")
        running = type("Neighbour", (), {"report": NeighbourReport(1.0, rate_bytes, 0, 0, 0)})
        yield running
        ran.append("stopped")

    monkeypatch.setattr(module, "neighbour", quiet_neighbour)
    plan = TurnPlan([MachineCondition(), LOADED], [2], turns=1, seconds=0.05, modes=(Mode("async"), Mode("pool")))
    found = list(measure_turns(plan, tmp_path))

    assert {one.cell for one in found} == set(plan.cells())
    assert {len(one.puts.latencies_ns) for one in found} == {100}
    assert [one.cell.condition for one in found if one.load is not None] == [LOADED] * 2
    assert ran == ["started", "stopped"] * 2  # the warm-up turn is not reported
