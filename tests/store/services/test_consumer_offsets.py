from collections.abc import Callable
from typing import Any

import pytest

from tornlog.faults.disk.image import FileImage, Image
from tornlog.store.errors import CorruptFileError
from tornlog.store.formats.messages import Message
from tornlog.store.message_store import MessageStore
from tornlog.store.services.consumer_offsets import ConsumerOffsetManager
from tornlog.store.world import World

Make = Callable[..., Any]

CONFIG = "/store/config"
PATH = f"{CONFIG}/consumerOffset.json"


class Ends:
    """Queues with given ends, 0 by default."""

    def __init__(self, ends: dict[tuple[str, int], int]) -> None:
        self._ends = ends

    def get_max_offset_in_queue(self, topic: str, queue_id: int) -> int:
        return self._ends.get((topic, queue_id), 0)


def test_querying_an_offset_returns_the_last_commit_or_minus_one(world: World) -> None:
    offsets = ConsumerOffsetManager(world, CONFIG)
    offsets.load()
    assert offsets.query_offset("g", "T", 0) == -1
    offsets.commit_offset("g", "T", 0, 7)
    offsets.commit_offset("g", "T", 1, 3)
    offsets.commit_offset("h", "T", 0, 1)
    offsets.commit_offset("g", "T", 0, 5)  # lower than before, as after a reset of the consumer
    assert [offsets.query_offset("g", "T", queue_id) for queue_id in range(3)] == [5, 3, -1]
    assert offsets.query_offset("h", "T", 0) == 1
    assert offsets.query_offset("g", "U", 0) == -1


def test_the_offset_file_has_the_format_of_rocketmq_and_is_read_back(world: World) -> None:
    offsets = ConsumerOffsetManager(world, CONFIG)
    for queue_id in (1, 0, 10, 2):
        offsets.commit_offset("group", "TopicTest", queue_id, 250 + queue_id)
    offsets.commit_offset("group", "%RETRY%group", 0, 0)
    assert offsets.persist()
    assert not offsets.persist()
    assert world.files.read(PATH) == (
        b'{\n\t"offsetTable":{\n\t\t"%RETRY%group@group":{0:0\n\t\t},\n'
        b'\t\t"TopicTest@group":{0:250,1:251,2:252,10:260\n\t\t}\n\t}\n}'
    )
    again = ConsumerOffsetManager(world, CONFIG)
    again.load()
    assert again.query_offset("group", "TopicTest", 10) == 260
    assert again.query_offset("group", "%RETRY%group", 0) == 0
    assert not again.persist()


def test_offsets_are_persisted_every_interval_and_at_the_end(lab: Make) -> None:
    bench = lab()

    def persisted(world: World) -> int:
        found = ConsumerOffsetManager(world, CONFIG)
        found.load()
        return found.query_offset("g", "T", 0)

    def body(world: World) -> None:
        offsets = ConsumerOffsetManager(world, CONFIG)
        offsets.load()
        offsets.start()
        offsets.commit_offset("g", "T", 0, 1)
        world.tasks.sleep(4_000)
        assert persisted(world) == -1
        world.tasks.sleep(2_000)
        assert persisted(world) == 1
        bench.failures.plan("sync", "consumerOffset")
        offsets.commit_offset("g", "T", 0, 2)
        world.tasks.sleep(5_000)
        assert isinstance(offsets.last_error, OSError)
        assert persisted(world) == 1
        world.tasks.sleep(5_000)
        assert offsets.last_error is None
        offsets.commit_offset("g", "T", 0, 3)
        offsets.shutdown()
        assert persisted(world) == 3

    bench.run(body)


def test_a_kill_loses_at_most_one_interval_of_offset_commits(lab: Make) -> None:
    bench = lab()

    def body(world: World) -> None:
        offsets = ConsumerOffsetManager(world, CONFIG, flush_interval_ms=100)
        offsets.load()
        offsets.start()
        for offset in range(100):
            offsets.commit_offset("g", "T", 0, offset)
            world.tasks.sleep(10)

    bench.run(body)
    image = bench.switch_off(abruptly=True)

    def again(world: World) -> int:
        offsets = ConsumerOffsetManager(world, CONFIG)
        offsets.load()
        return offsets.query_offset("g", "T", 0)

    assert 85 <= lab(image).run(again) <= 99


def test_offsets_beyond_the_end_of_a_queue_are_clamped_durably(world: World, bench: Any) -> None:
    offsets = ConsumerOffsetManager(world, CONFIG)
    offsets.commit_offset("g", "T", 0, 9)
    offsets.commit_offset("g", "T", 1, 9)
    offsets.commit_offset("g", "gone", 0, 4)
    assert offsets.clamp_to_queues(Ends({("T", 0): 5, ("T", 1): 10})) == 2
    assert [offsets.query_offset("g", *queue) for queue in (("T", 0), ("T", 1), ("gone", 0))] == [5, 9, 0]
    assert offsets.clamp_to_queues(Ends({("T", 0): 5, ("T", 1): 10})) == 0
    again = ConsumerOffsetManager(world, CONFIG)
    again.load()
    assert again.query_offset("g", "T", 0) == 5
    assert bench.disk.is_durable(PATH, 0, 10)


def test_offsets_are_clamped_to_a_loaded_store(world: World, small: Make) -> None:
    store = MessageStore(world, small())
    store.load()
    store.start()
    for _ in range(3):
        store.put_message(Message.create("T", b"x"))
    world.tasks.sleep(10)
    offsets = ConsumerOffsetManager(world, store.config.config_directory)
    offsets.commit_offset("g", "T", 0, 2)
    offsets.commit_offset("h", "T", 0, 4)
    offsets.commit_offset("g", "", 0, 7)  # a damaged key has no topic
    offsets.commit_offset("g", "a/b", 0, 7)
    assert offsets.clamp_to_queues(store) == 3
    assert [offsets.query_offset("g", topic, 0) for topic in ("", "a/b")] == [0, 0]
    assert (offsets.query_offset("g", "T", 0), offsets.query_offset("h", "T", 0)) == (2, 3)
    assert store.shutdown()


def test_the_directory_of_the_offset_file_is_durable(world: World, bench: Any, small: Make) -> None:
    store = MessageStore(world, small())
    store.load()
    offsets = ConsumerOffsetManager(world, store.config.config_directory)
    offsets.commit_offset("g", "T", 0, 0)
    offsets.persist()
    store.close()
    unsure = {change.path for change in bench.disk._names.journal if not change.synced}
    assert not unsure & {"/store", CONFIG, PATH}


def test_lmq_groups_have_their_own_offset_table_and_file(world: World) -> None:
    offsets = ConsumerOffsetManager(world, CONFIG, light_queues=True)
    offsets.commit_offset("%LMQ%me", "%LMQ%in", 0, 12)
    offsets.commit_offset("g", "T", 3, 4)
    assert offsets.query_offset("%LMQ%me", "%LMQ%in", 0) == 12
    assert offsets.query_offset("%LMQ%me", "T", 0) == -1
    offsets.persist()
    assert world.files.read(f"{CONFIG}/lmqConsumerOffset.json") == (
        b'{\n\t"lmqOffsetTable":{\n\t\t"%LMQ%in@%LMQ%me":12\n\t},\n\t"offsetTable":{\n\t\t"T@g":{3:4\n\t\t}\n\t}\n}'
    )
    again = ConsumerOffsetManager(world, CONFIG, light_queues=True)
    again.load()
    assert again.query_offset("%LMQ%me", "%LMQ%in", 0) == 12
    assert again.clamp_to_queues(Ends({("%LMQ%in", 0): 10, ("T", 3): 4})) == 1
    assert again.query_offset("%LMQ%me", "%LMQ%in", 0) == 10
    assert again.query_offset("g", "T", 3) == 4


def load_from(lab: Make, content: bytes, backup: bytes | None = None) -> Any:
    files = {PATH: FileImage(content, 0)}
    if backup is not None:
        files[f"{PATH}.bak"] = FileImage(backup, 0)

    def body(world: World) -> ConsumerOffsetManager:
        offsets = ConsumerOffsetManager(world, CONFIG)
        offsets.load()
        return offsets

    return lab(Image(files, ("/store", CONFIG))), body


@pytest.mark.parametrize("content", [b"{}", b'{"offsetTable":null}', b'{"dataVersion":{"counter":1}}'])
def test_an_offset_file_without_offsets_counts_as_empty(lab: Make, content: bytes) -> None:
    bench, body = load_from(lab, content)
    bench.run(lambda world: body(world).query_offset("g", "T", 0) == -1 or pytest.fail("not empty"))


@pytest.mark.parametrize(
    "content", [b'{"offsetTable":{"T@g":{0:1,1:', b'{"offsetTable":{"T@g":{0:"x"}}}', b'{"offsetTable":{"T@g":7}}']
)
def test_a_corrupt_offset_file_is_replaced_by_its_backup_or_empty(lab: Make, content: bytes) -> None:
    bench, body = load_from(lab, content, b'{"offsetTable":{"T@g":{"0":5}}}')
    assert bench.run(lambda world: body(world).query_offset("g", "T", 0)) == 5
    bench, body = load_from(lab, content)
    assert bench.run(lambda world: body(world).file.damage) is not None
    bench, body = load_from(lab, content, b"torn")
    with pytest.raises(CorruptFileError):
        bench.run(body)
