"""Tables of topics and groups: durable before use, in RocketMQ's format."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import pytest

from tornlog.faults.disk.image import FileImage, Image
from tornlog.store.broker.broker_config import BrokerConfig
from tornlog.store.broker.topics import (
    SubscriptionGroupConfig,
    SubscriptionGroupManager,
    TopicConfig,
    TopicConfigManager,
)
from tornlog.store.broker.versioned_table import DataVersion
from tornlog.store.errors import CorruptFileError
from tornlog.store.formats.remoting.json_body import decode_json_body, encode_json_body
from tornlog.store.world import World

Make = Callable[..., Any]
CONFIG = "/store/config"
REAL_TOPICS = b"""{
\t"dataVersion":{
\t\t"counter":7,
\t\t"timestamp":1795309986689
\t},
\t"topicConfigTable":{
\t\t"Made":{
\t\t\t"order":false,
\t\t\t"perm":6,
\t\t\t"readQueueNums":3,
\t\t\t"topicFilterType":"SINGLE_TAG",
\t\t\t"topicName":"Made",
\t\t\t"topicSysFlag":0,
\t\t\t"writeQueueNums":3
\t\t}
\t}
}"""


def topics_of(world: World, **settings: Any) -> TopicConfigManager:
    topics = TopicConfigManager(world, CONFIG, BrokerConfig(**settings))
    topics.load()
    return topics


def with_topics(content: bytes, backup: bytes | None = None) -> Image:
    files = {f"{CONFIG}/topics.json": FileImage(content, 0)}
    if backup is not None:
        files[f"{CONFIG}/topics.json.bak"] = FileImage(backup, 0)
    return Image(files, ("/store", CONFIG))


def test_a_table_file_of_rocketmq_survives_a_round_trip(lab: Make) -> None:
    def life(world: World) -> bytes:
        topics = topics_of(world)
        assert topics.version == DataVersion(1795309986689, 7)
        assert topics.get("Made") == TopicConfig("Made", 3, 3)
        topics.put("More", TopicConfig("More", 1, 1))
        topics.remove("More")
        raw: bytes = world.files.read(f"{CONFIG}/topics.json")
        return raw

    assert (
        lab(with_topics(REAL_TOPICS)).run(life).split(b"topicConfigTable")[1]
        == REAL_TOPICS.split(b"topicConfigTable")[1]
    )


@pytest.mark.parametrize("cut", [1, 60, 150, len(REAL_TOPICS) - 1])
def test_a_truncated_table_is_replaced_by_its_backup_or_empty(lab: Make, cut: int) -> None:
    def life(world: World) -> list[str]:
        topics = topics_of(world)
        assert topics.file.damage is not None
        return list(topics.table)

    assert lab(with_topics(REAL_TOPICS[:cut])).run(life) == []
    assert lab(with_topics(REAL_TOPICS[:cut], REAL_TOPICS)).run(life) == ["Made"]


def test_an_invalid_entry_without_a_backup_is_an_error_with_its_name(lab: Make) -> None:
    damaged = REAL_TOPICS.replace(b'"perm":6', b'"perm":"x"')
    with pytest.raises(CorruptFileError, match=r"topicConfigTable\.Made\.perm: expected a 32-bit integer"):
        lab(with_topics(damaged, damaged)).run(lambda world: topics_of(world))


def test_only_changed_values_increment_the_table_version(lab: Make) -> None:
    def life(world: World) -> list[int]:
        topics = topics_of(world)
        counters = [topics.version.counter]
        for _ in range(2):
            topics.put("T", TopicConfig("T"))
            counters.append(topics.version.counter)
        topics.remove("None")
        return [*counters, topics.version.counter]

    assert lab().run(life) == [0, 1, 1, 1]


@pytest.mark.parametrize("step", ["write", "sync", "rename", "sync_directory"])
def test_a_failed_write_leaves_the_table_unchanged(lab: Make, step: str) -> None:
    bench = lab()

    def life(world: World) -> None:
        topics = topics_of(world)
        topics.put("Old", TopicConfig("Old"))
        version = topics.version
        bench.failures.plan(step, "config" if step == "sync_directory" else "topics.json")
        with pytest.raises(OSError, match="Input/output"):
            topics.put("New", TopicConfig("New"))
        assert (topics.version, list(topics.table)) == (version, ["Old"])
        topics.put("New", TopicConfig("New"))
        again = topics_of(world)
        assert sorted(again.table) == ["New", "Old"]

    bench.run(life)


def test_concurrent_creations_return_the_same_topic(world: World) -> None:
    topics = topics_of(world)
    made: list[TopicConfig | None] = []

    def make(queues: int) -> None:
        made.append(topics.create("T", queues))

    tasks = [world.tasks.spawn(f"maker {queues}", partial(make, queues)) for queues in (1, 2, 3)]
    for task in tasks:
        task.join(None)
    assert len(made) == 3
    assert len(set(made)) == 1
    assert topics.version.counter == 1


def test_a_copied_table_keeps_its_original_version(world: World) -> None:
    topics = topics_of(world)
    topics.put("Own", TopicConfig("Own"))
    theirs = decode_json_body(REAL_TOPICS)
    assert topics.replace(theirs)
    assert not topics.replace(theirs)
    assert list(topics.table) == ["Made"]
    assert decode_json_body(encode_json_body(topics.json_members)).inner_object("dataVersion").integer("counter") == 7
    assert topics_of(world).table == topics.table


def test_topics_are_created_after_a_template(world: World) -> None:
    topics = topics_of(world, default_topic_queue_nums=4)
    assert topics.create_by_example("T", "TBW102", 8) is None
    topics.add_system_topics()
    assert topics.create_by_example("T", "TBW102", 8) == TopicConfig("T", 4, 4)
    assert topics.create_by_example("U", "BenchmarkTest", 8) is None
    assert topics.create_by_example("T", "nothing", 1) == TopicConfig("T", 4, 4)
    assert topics.create_by_example("no/such", "TBW102", 8) is None
    assert topics.create("no/such", 1) is None
    assert topics.create_by_example("V", "TBW102", -5) == TopicConfig("V", 1, 1)
    assert topics.create("W", -5) == TopicConfig("W", 0, 0)
    assert topics.create("X", 70_000) == TopicConfig("X", 65_536, 65_536)


def test_stored_template_topics_do_not_override_the_settings(world: World) -> None:
    topics_of(world).add_system_topics()
    closed = topics_of(world, auto_create_topic_enable=False)
    assert closed.get("TBW102") is not None
    assert closed.create_by_example("T", "TBW102", 8) is None


def test_groups_are_created_automatically_if_the_settings_allow(world: World) -> None:
    closed = SubscriptionGroupManager(world, CONFIG, BrokerConfig(auto_create_subscription_group=False))
    assert closed.find("billing") is None
    assert closed.find("CID_RMQ_SYS_TRANS") == SubscriptionGroupConfig("CID_RMQ_SYS_TRANS")
    opened = SubscriptionGroupManager(world, CONFIG, BrokerConfig())
    assert opened.find("billing") == SubscriptionGroupConfig("billing")
    assert opened.find("b@d") is None
    assert opened.find("x" * 121) is None
    assert opened.find("") is None


def test_creating_a_topic_that_is_removed_at_once_still_returns_it(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    topics = topics_of(world)
    change = topics.change

    def change_and_remove(
        changed: Callable[[dict[str, TopicConfig]], dict[str, TopicConfig]],
    ) -> Mapping[str, TopicConfig]:
        made = change(changed)
        change(lambda table: {})
        return made

    monkeypatch.setattr(topics, "change", change_and_remove)
    assert topics.create("T", 1) == TopicConfig("T", 1, 1)
    assert topics.get("T") is None
