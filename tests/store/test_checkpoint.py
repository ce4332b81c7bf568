from collections.abc import Callable
from typing import Any

import pytest

from tornlog.store.checkpoint import SAFETY_MARGIN_MS, StoreCheckpoint
from tornlog.store.errors import CorruptFileError
from tornlog.store.world import World

Make = Callable[..., Any]

PATH = "/checkpoint"


def loaded(world: World) -> StoreCheckpoint:
    checkpoint = StoreCheckpoint(world, PATH)
    checkpoint.load()
    return checkpoint


def test_times_are_read_back_after_a_flush_and_not_before(lab: Make) -> None:
    def body(world: World) -> None:
        first = loaded(world)
        first.log_is_durable_to(10_000)
        first.queues_are_durable_to(9_000)
        assert loaded(world).values == (0, 0, 0)

        first.flush()
        first.close()
        assert loaded(world).values == (10_000, 9_000, 0)

    lab().run(body)


def test_times_never_step_back(lab: Make) -> None:
    def body(world: World) -> None:
        checkpoint = loaded(world)
        for time_ms in (5_000, 3_000):
            checkpoint.log_is_durable_to(time_ms)
            checkpoint.queues_are_durable_to(time_ms)

        assert checkpoint.values == (5_000, 5_000, 0)

    lab().run(body)


@pytest.mark.parametrize(
    ("log_ms", "queues_ms", "recovery_ms"), [(9_000, 8_000, 5_000), (8_000, 9_000, 5_000), (2_000, 2_000, 0)]
)
def test_recovery_believes_the_earlier_time_less_a_margin(
    log_ms: int, queues_ms: int, recovery_ms: int, lab: Make
) -> None:
    def body(world: World) -> None:
        checkpoint = loaded(world)
        checkpoint.log_is_durable_to(log_ms)
        checkpoint.queues_are_durable_to(queues_ms)

        assert checkpoint.recovery_timestamp_ms == recovery_ms

    assert SAFETY_MARGIN_MS == 3_000
    lab().run(body)


def test_an_empty_file_says_nothing_and_a_short_one_is_damage(lab: Make) -> None:
    def body(world: World) -> None:
        world.files.write(PATH, b"")
        assert loaded(world).values == (0, 0, 0)

        world.files.unlink(PATH)
        world.files.write(PATH, b"short")
        with pytest.raises(CorruptFileError, match=PATH):
            loaded(world)

    lab().run(body)


def test_a_flush_is_one_store_and_one_sync_and_a_failed_one_raises(lab: Make) -> None:
    bench = lab()

    def body(world: World) -> None:
        checkpoint = loaded(world)
        bench.failures.calls.clear()
        checkpoint.flush()
        assert bench.failures.calls == [("store", PATH), ("msync", PATH)]

        bench.failures.plan("msync", PATH)
        with pytest.raises(OSError, match="Input/output error"):
            checkpoint.flush()

    bench.run(body)
