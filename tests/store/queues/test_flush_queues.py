from typing import Any

import pytest

from tests.store.rigs import Make, started
from tornlog.store.formats.messages import GetMessageStatus, Message
from tornlog.store.world import World


def test_the_checkpoint_covers_a_time_only_after_log_queues_and_names_are_durable(
    world: World, bench: Any, small: Make
) -> None:
    store = started(world, small(flush_consume_queue_thorough_interval_ms=5_000))
    bench.failures.calls.clear()
    result = store.put_message(Message.create("T", b"one", queue_id=3))
    assert result.append is not None
    world.tasks.sleep(4_000)
    assert store.checkpoint.logics_msg_timestamp_ms == 0
    world.tasks.sleep(3_000)
    assert store.checkpoint.logics_msg_timestamp_ms == result.append.store_timestamp_ms
    calls = bench.failures.calls
    flushed = calls.index(("msync", "/store/consumequeue/T/3/00000000000000000000"))
    names = [
        calls.index(("sync_directory", f"/store/{directory}"))
        for directory in ("consumequeue/T/3", "consumequeue/T", "consumequeue")
    ]
    assert flushed < names[0] < names[1] < names[2] < calls.index(("msync", "/store/checkpoint"))


@pytest.mark.parametrize(
    ("method", "part"), [("msync", "consumequeue"), ("sync_directory", "consumequeue/T"), ("msync", "checkpoint")]
)
@pytest.mark.parametrize("interval_ms", [2_000, 60_000])
def test_after_a_failed_queue_sync_the_checkpoint_stays_and_the_exit_is_not_clean(
    interval_ms: int, method: str, part: str, lab: Make, small: Make
) -> None:
    bench = lab()

    def body(world: World) -> None:
        config = small(flush_consume_queue_thorough_interval_ms=interval_ms, flush_consume_queue_least_pages=0)
        store = started(world, config)
        bench.failures.plan(method, part)
        for _ in range(30):
            store.put_message(Message.create("T", b"kept"))
        world.tasks.sleep(10_000)
        assert not store.shutdown()
        assert isinstance(store.flush_queues.last_error, OSError)
        if part != "checkpoint":
            assert store.checkpoint.logics_msg_timestamp_ms == 0

    bench.run(body)
    image = bench.switch_off()
    assert "/store/abort" in image.files

    def again(world: World) -> None:
        store = started(world, small())
        found = store.get_message("T", 0, 0)
        assert found.status is GetMessageStatus.FOUND
        assert store.get_max_offset_in_queue("T", 0) == 30
        assert store.shutdown()

    lab(image).run(again)
