from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tests.store.rigs import started
from tornlog.faults.disk.image import Image
from tornlog.store.config import StoreConfig
from tornlog.store.errors import CorruptFileError
from tornlog.store.formats.messages import Message
from tornlog.store.message_store import MessageStore
from tornlog.store.world import World

Make = Callable[..., Any]

IDLE = 7


@pytest.fixture
def config(small: Make) -> StoreConfig:
    made: StoreConfig = small(mapped_file_size_consume_queue=2_000)
    return made


def image_with_idle_queue(lab: Make, config: StoreConfig) -> Image:
    """Return a stopped store. The messages of one of its queues have expired from the log."""
    bench = lab()

    def body(world: World) -> None:
        store = started(world, config)
        for topic, count in (("Idle", IDLE), ("T", 20)):
            for number in range(count):
                store.put_message(Message.create(topic, b"x" * 200, keys=f"k{number}"))
        world.tasks.sleep(1_000)
        assert store.shutdown()

    bench.run(body)
    image: Image = bench.switch_off()
    kept = {
        path: file for path, file in image.files.items() if b"Idle" not in file.content or "/commitlog/" not in path
    }
    return Image(kept, image.directories)


def test_raising_the_queue_file_size_keeps_the_queue_offset_of_an_idle_queue(lab: Make, config: StoreConfig) -> None:
    def body(world: World) -> None:
        store = started(world, replace(config, mapped_file_size_consume_queue=4_000))
        report = store.last_recovery
        assert report is not None
        assert [(one.field, one.expected, one.found) for one in report.findings] == [("file size", "4000", "2000")] * 2
        assert store.get_max_offset_in_queue("Idle", 0) == IDLE
        result = store.put_message(Message.create("Idle", b"next"))
        assert result.append is not None
        assert result.append.queue_offset == IDLE
        world.tasks.sleep(1_000)
        assert store.get_message("Idle", 0, IDLE).queue_offsets == [IDLE]
        assert store.get_max_offset_in_queue("T", 0) == 20
        assert store.shutdown()

    lab(image_with_idle_queue(lab, config)).run(body)


@pytest.mark.parametrize(
    "sizes",
    [
        {"mapped_file_size_commit_log": 512},
        {"mapped_file_size_commit_log": 4096},
        {"mapped_file_size_consume_queue": 1_000},
    ],
)
def test_the_error_for_an_impossible_queue_file_size_names_it(
    lab: Make, config: StoreConfig, sizes: dict[str, int]
) -> None:
    bench = lab(image := image_with_idle_queue(lab, config))

    def body(world: World) -> None:
        with pytest.raises(CorruptFileError, match=r"file (size|name): expected .*, found"):
            MessageStore(world, replace(config, **sizes)).load()

    bench.run(body)
    found = bench.switch_off()
    assert {path: file.content for path, file in found.files.items() if path in image.files} == {
        path: file.content for path, file in image.files.items()
    }


@pytest.mark.parametrize("sizes", [{"max_hash_slot_num": 50}, {"max_index_num": 40}, {"max_index_num": 5}])
def test_an_index_of_another_size_is_rebuilt_from_the_log(
    lab: Make, config: StoreConfig, sizes: dict[str, int]
) -> None:
    def body(world: World) -> None:
        store = started(world, replace(config, **sizes))
        for number in range(IDLE, 20):
            assert len(store.query_message("T", f"k{number}", 32, 0, 1 << 62).records) == 1
        assert store.shutdown()

    lab(image_with_idle_queue(lab, config)).run(body)
