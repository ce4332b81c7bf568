from array import array
from pathlib import Path

import pytest

from tornlog.reports.quantities import percentiles_us
from tornlog.reports.studies.latency.here import ASYNC_PUTS, SYNC_PUTS, Turn, measure_here
from tornlog.reports.studies.latency.traffic import FLUSHES

US = 1_000


@pytest.mark.ci
def test_a_measurement_round_measures_the_parts_and_the_total(tmp_path: Path) -> None:
    (turn,) = measure_here(str(tmp_path), [2], 1)

    assert (turn.number, turn.producers) == (0, 2)
    assert 0 < len(turn.syncs) <= SYNC_PUTS + 1
    assert (len(turn.puts_alone), len(turn.puts), len(turn.synced_puts)) == (ASYNC_PUTS, ASYNC_PUTS, SYNC_PUTS)
    assert {flush: len(turn.real[flush]) for flush in FLUSHES} == {
        "sync": SYNC_PUTS,
        "async": ASYNC_PUTS,
        "pool": ASYNC_PUTS,
    }
    assert min(*turn.syncs, *turn.puts, *turn.synced_puts, *turn.real["sync"]) > 0
    assert {flush: len(turn.simulated(flush)) for flush in FLUSHES} == {
        flush: len(took_ns) for flush, took_ns in turn.real.items()
    }
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "async",
        "async-without-disk",
        "pool",
        "sync",
        "sync-without-disk",
    ]


@pytest.fixture
def turn() -> Turn:
    """A machine on which syncs take 400 us, puts 20 us, and puts with a sync 120 us more."""
    return Turn(
        0, 1, array("q", [400 * US]), array("q", [20 * US]), array("q", [20 * US]), array("q", [120 * US]), {}, {}
    )


def test_the_simulated_latency_is_the_sum_of_the_measured_parts(turn: Turn) -> None:
    (sync_us,) = percentiles_us(turn.simulated("sync"), [0.5])
    (async_us,) = percentiles_us(turn.simulated("async"), [0.5])

    assert sync_us == 400 + 120
    assert async_us == 20


def test_a_disk_twice_as_slow_increases_the_simulated_total(turn: Turn) -> None:
    turn.syncs[0] *= 2

    assert percentiles_us(turn.simulated("sync"), [0.5]) == [800 + 120]
