from collections.abc import Callable
from typing import Any

import pytest

from tests.store.rigs import Make
from tornlog.store.formats.checkpoint import CHECKPOINT_FILE_BYTES
from tornlog.store.log.checkpoint import SAFETY_MARGIN_MS, StoreCheckpoint
from tornlog.store.world import World

PATH = "/checkpoint"


def loaded_checkpoint(world: World) -> StoreCheckpoint:
    checkpoint = StoreCheckpoint(world, PATH)
    checkpoint.load()
    return checkpoint


def test_checkpoint_times_are_read_back_only_after_a_flush(world: World) -> None:
    first = loaded_checkpoint(world)
    first.advance_log_time(10_000)
    first.advance_queue_time(9_000)
    assert loaded_checkpoint(world).values == (0, 0, 0)

    first.flush()
    first.close()
    assert loaded_checkpoint(world).values == (10_000, 9_000, 0)


def test_truncating_the_log_durably_lowers_the_checkpoint_times(world: World) -> None:
    checkpoint = loaded_checkpoint(world)
    checkpoint.advance_log_time(10_000)
    checkpoint.advance_queue_time(9_000)
    checkpoint.limit_to_log_end(10_000)
    assert checkpoint.values == (10_000, 9_000, 0)
    checkpoint.limit_to_log_end(9_500)
    assert loaded_checkpoint(world).values == (9_500, 9_000, 0)
    checkpoint.limit_to_log_end(0)
    assert loaded_checkpoint(world).values == (0, 0, 0)


def test_checkpoint_times_never_decrease(world: World) -> None:
    checkpoint = loaded_checkpoint(world)
    for time_ms in (5_000, 3_000):
        checkpoint.advance_log_time(time_ms)
        checkpoint.advance_queue_time(time_ms)

    assert checkpoint.values == (5_000, 5_000, 0)


@pytest.mark.parametrize(
    ("log_ms", "queues_ms", "recovery_ms"), [(9_000, 8_000, 5_000), (8_000, 9_000, 5_000), (2_000, 2_000, 0)]
)
def test_recovery_uses_the_earliest_checkpoint_time_minus_a_margin(
    log_ms: int, queues_ms: int, recovery_ms: int, lab: Make
) -> None:
    def body(world: World) -> None:
        checkpoint = loaded_checkpoint(world)
        checkpoint.advance_log_time(log_ms)
        checkpoint.advance_queue_time(queues_ms)

        assert checkpoint.recovery_timestamp_ms == recovery_ms

    assert SAFETY_MARGIN_MS == 3_000
    lab().run(body)


@pytest.mark.parametrize(
    ("content", "damage"),
    [
        (b"", None),
        (bytes(1), None),
        (bytes(23), None),
        (b"short", f"{PATH} @ 5: size: expected at least 24 bytes, found 5 bytes"),
        ((10_000).to_bytes(8) + b"\xff" * 8 + bytes(8), f"{PATH} @ 8: logicsMsgTimestamp: expected 0 or more"),
    ],
)
def test_an_invalid_checkpoint_file_counts_as_zeros_and_is_overwritten(
    content: bytes, damage: str | None, world: World, bench: Any
) -> None:
    world.files.write(PATH, content)
    checkpoint = StoreCheckpoint(world, PATH)
    told = checkpoint.load()
    assert checkpoint.values == (0, 0, 0)
    assert (None if told is None else str(told)[: len(damage or "")]) == damage
    if damage is not None:
        assert bench.disk.is_durable(PATH, 0, CHECKPOINT_FILE_BYTES)
    again = StoreCheckpoint(world, PATH)
    assert again.load() is None
    assert again.values == (0, 0, 0)


def test_a_checkpoint_flush_is_one_store_and_one_sync_and_raises_on_failure(world: World, bench: Any) -> None:
    checkpoint = loaded_checkpoint(world)
    bench.failures.calls.clear()
    checkpoint.flush()
    assert bench.failures.calls == [("store", PATH), ("msync", PATH)]

    bench.failures.plan("msync", PATH)
    with pytest.raises(OSError, match="Input/output error"):
        checkpoint.flush()


@pytest.mark.parametrize(
    "lower",
    [
        StoreCheckpoint.reset_queue_time,
        lambda checkpoint: checkpoint.limit_to_log_end(10_000),
        lambda checkpoint: checkpoint.limit_index_time(10_000),
    ],
)
def test_a_time_that_a_killed_load_has_lowered_without_a_sync_is_synced(
    world: World, bench: Any, lower: Callable[[StoreCheckpoint], None]
) -> None:
    killed = loaded_checkpoint(world)
    bench.failures.plan("msync", PATH)
    with pytest.raises(OSError, match="Input/output error"):
        killed.flush()
    killed.close()

    checkpoint = loaded_checkpoint(world)
    bench.failures.calls.clear()
    lower(checkpoint)
    lower(checkpoint)
    assert bench.failures.calls == [("store", PATH), ("msync", PATH)]
