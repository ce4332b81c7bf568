"""Slave tables: a copy gives a slave its master's tables, in memory and in its files."""

import pytest

from tornlog.scenarios.oracle.slave_tables import (
    CopyWindow,
    SlaveFiles,
    Tables,
    VersionedEntries,
    check_copy,
    check_followed,
    check_follows,
)
from tornlog.store.broker.topics import SubscriptionGroupConfig, TopicConfig
from tornlog.store.delivery.schedule import encoded_offsets
from tornlog.store.formats.side_json import encode_side_json

PLACE = ("T0@consumers", 0)


def tables(counter: int = 1, offset: int = 0, delay: int = 0, topics: tuple[str, ...] = ("T0",)) -> Tables:
    return Tables(
        VersionedEntries((7, counter), {topic: TopicConfig(topic) for topic in topics}),
        VersionedEntries((7, counter), {"consumers": SubscriptionGroupConfig("consumers")}),
        {PLACE: offset},
        {1: delay},
    )


WINDOW = CopyWindow(tables(1, 3, 2), tables(3, 5, 4, ("T0", "T1", "T2")), {PLACE: {4}})


def fields_of(found: Tables, earlier: Tables | None = None) -> list[str]:
    return [violation.summary.partition(" of ")[0] for violation in check_copy("slave", found, WINDOW, earlier)]


@pytest.mark.parametrize("found", [WINDOW.before, WINDOW.after, tables(2, 4, 3, ("T0", "T1"))])
def test_a_copy_may_have_any_state_of_the_master_since_its_begin(found: Tables) -> None:
    assert fields_of(found) == []


@pytest.mark.parametrize(
    ("found", "wrong"),
    [
        (tables(0, 3, 2), ["topics", "groups"]),
        (tables(1, 3, 2, ("T0", "T1")), ["topics"]),
        (tables(4, 3, 2, ("T1",)), ["topics", "groups"]),
        (tables(1, 2, 2), ["the progress"]),
        (tables(1, 3, 1), ["the progress"]),
        (tables(1, 3, 5), ["the progress"]),
    ],
)
def test_a_copy_with_another_table_is_reported(found: Tables, wrong: list[str]) -> None:
    assert fields_of(found) == wrong


def test_a_failed_copy_may_leave_a_table_unchanged() -> None:
    assert fields_of(tables(0, 1, 0), earlier=tables(0, 1, 0)) == []
    assert fields_of(tables(0, 1, 0), earlier=tables(0, 0, 0)) == ["the progress"]


def test_a_client_of_the_slave_may_add_an_entry_during_a_copy() -> None:
    found = tables(4, 3, 2, ("T0", "%RETRY%consumers"))
    assert fields_of(found._replace(groups=WINDOW.before.groups)) == []


def test_a_copied_table_must_be_in_its_file() -> None:
    files, found = SlaveFiles("/config"), WINDOW.after
    topics, groups = found.topics.entries, found.groups.entries
    files.topics.durable = encode_side_json({"topicConfigTable": {key: topics[key].json_members for key in topics}})
    files.groups.durable = encode_side_json(
        {"subscriptionGroupTable": {key: groups[key].json_members for key in groups}}
    )
    files.offsets.durable = encode_side_json({"offsetTable": {"T0@consumers": {0: 5}}})
    files.delays.durable = encoded_offsets({1: 4})
    assert list(files.check_written("slave", found, WINDOW)) == []

    for versions, older in (
        (files.topics, b'{"topicConfigTable":{}}'),
        (files.groups, None),
        (files.offsets, encode_side_json({"offsetTable": {"T0@consumers": {0: 2}}})),
        (files.delays, encoded_offsets({1: 1})),
    ):
        kept, versions.durable = versions.durable, older
        assert len(list(files.check_written("slave", found, WINDOW))) == 1
        versions.unfinished.append(b"a write that has not returned")
        assert list(files.check_written("slave", found, WINDOW)) == []
        versions.unfinished.clear()
        versions.durable = kept


def test_the_file_of_a_slave_with_light_queues_has_their_groups() -> None:
    files, found = SlaveFiles("/config", light_queues=True), WINDOW.after
    assert files.offsets.path == "/config/lmqConsumerOffset.json"
    members = {"offsetTable": {"T0@consumers": {0: 5}}, "lmqOffsetTable": {"T0@%LMQ%me": 2}}
    files.offsets.durable = encode_side_json(members)
    before, after = ({**each.offsets, ("T0@%LMQ%me", 0): 2} for each in (WINDOW.before, WINDOW.after))
    window = CopyWindow(WINDOW.before._replace(offsets=before), WINDOW.after._replace(offsets=after), WINDOW.committed)
    summaries = [each.summary for each in files.check_written("slave", found, window)]
    assert not any("progress of T0" in each for each in summaries)
    files.offsets.durable = encode_side_json(members | {"lmqOffsetTable": {}})
    summaries = [each.summary for each in files.check_written("slave", found, window)]
    assert any("the progress of T0@%LMQ%me/0" in each for each in summaries)


@pytest.mark.parametrize(
    ("address", "count"), [("10.0.0.1:10911", 0), ("10.0.0.3:10912", 0), ("10.0.0.2:1", 1), ("", 1)]
)
def test_a_slave_follows_only_masters_of_its_name(address: str, count: int) -> None:
    assert len(list(check_followed("slave", "tables", address, {"10.0.0.1", "10.0.0.3"}, ""))) == count


def test_a_slave_follows_the_address_of_its_settings() -> None:
    masters, address = {"10.0.0.1", "10.0.0.3"}, "10.0.0.1:10911"
    assert not list(check_followed("slave", "tables", address, masters, address))
    assert list(check_followed("slave", "tables", address, masters, "10.0.0.3:10911"))


@pytest.mark.parametrize(
    ("named", "follows", "count"), [("", "", 0), ("10.0.0.1:1", "10.0.0.3:1", 0), ("10.0.0.1:1", "", 1)]
)
def test_a_slave_follows_a_master_once_a_name_server_named_one(named: str, follows: str, count: int) -> None:
    assert len(list(check_follows("slave", "tables", named, follows))) == count


def test_a_slave_that_starts_has_the_tables_of_its_files() -> None:
    files, found = SlaveFiles("/config"), WINDOW.after
    topics, groups = found.topics.entries, found.groups.entries
    files.topics.loaded = encode_side_json({"topicConfigTable": {key: topics[key].json_members for key in topics}})
    files.groups.loaded = encode_side_json(
        {"subscriptionGroupTable": {key: groups[key].json_members for key in groups}}
    )
    files.offsets.loaded = encode_side_json({"offsetTable": {"T0@consumers": {0: 5}}})
    assert list(files.check_kept("slave", found)) == []

    reduced = found._replace(offsets={("T0@consumers", 0): 4})
    without_topics = found._replace(topics=found.topics._replace(entries={}))
    for changed in (reduced, without_topics, found._replace(offsets={})):
        assert len(list(files.check_kept("slave", changed))) == 1
