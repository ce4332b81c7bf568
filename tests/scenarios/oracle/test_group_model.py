"""Group model: members, subscriptions, notices, offsets and progress after each change."""

import pytest

from tornlog.scenarios.oracle.group_members import NOTIFY_CONSUMER_IDS_CHANGED, RESET_CONSUMER_CLIENT_OFFSET
from tornlog.scenarios.oracle.group_model import (
    ConsumeMode,
    GroupModel,
    GroupSettings,
    MemberConnection,
    Notice,
    Subscribed,
    check_view,
)

MODE = ConsumeMode("CONSUME_PASSIVELY", "CLUSTERING", "CONSUME_FROM_LAST_OFFSET")
A, B, C = (MemberConnection(each, 0) for each in "abc")
NOTICE = Notice(NOTIFY_CONSUMER_IDS_CHANGED, "g")


def wanted(*topics: str, version: int = 1) -> dict[str, Subscribed]:
    return {topic: Subscribed("TAG", f"v{version}", version) for topic in topics}


@pytest.fixture
def model() -> GroupModel:
    """Return a group "g" with the members "a" and "b"."""
    model = GroupModel(creates_groups=True, notifies=True)
    for client in (A, B):
        model.register(client, "g", MODE, wanted("t"))
    model.notices.clear()
    return model


def test_a_change_of_members_or_topics_notifies_every_member(model: GroupModel) -> None:
    model.register(A, "g", MODE, wanted("t", version=2))
    assert not model.notices
    model.register(A, "g", MODE, wanted("t", "u"))
    model.register(C, "g", MODE, wanted("t", "u"))
    model.unregister(B, "g")
    assert model.notices == {A: [NOTICE] * 3, B: [NOTICE] * 2, C: [NOTICE] * 2}


def test_the_setting_of_a_group_ends_notices_except_after_the_end_of_a_connection(model: GroupModel) -> None:
    model.settings["g"] = GroupSettings(notifies=False)
    model.register(C, "g", MODE, wanted("u"))
    model.unregister(B, "g")
    assert not model.notices
    model.end_connection(C)
    assert model.notices == {A: [NOTICE]}


def test_the_newest_version_counts_and_left_topics_go(model: GroupModel) -> None:
    model.register(A, "g", MODE, wanted("t", "u", version=3))
    model.register(B, "g", MODE, wanted("t", version=2))
    assert model.subscriptions("g") == wanted("t", version=3)


def test_the_last_member_takes_the_group_along(model: GroupModel) -> None:
    for client in (A, B):
        model.end_connection(client)
    assert (model.members("g"), model.mode("g"), model.subscriptions("g")) == ([], None, {})


def test_a_reset_reaches_every_member(model: GroupModel) -> None:
    model.reset("g", b"offsets")
    assert model.notices == {each: [Notice(RESET_CONSUMER_CLIENT_OFFSET, "offsets")] for each in (A, B)}


def test_a_producer_leaves_only_the_named_group(model: GroupModel) -> None:
    for group in ("g", "h"):
        model.register_producer(A, group)
    model.unregister_producer(A, "g")
    assert (model.producers("g"), model.producers("h")) == ([], [A])


def test_a_clone_copies_one_topic_or_all() -> None:
    model = GroupModel(creates_groups=False, notifies=True)
    for topic in "tu":
        model.commit("g", (topic, 0), 3)
    model.clone("g", "h", "u")
    assert model.offsets["h"] == {("u", 0): 3}
    model.clone("g", "h", "")
    assert model.offsets["h"] == model.offsets["g"]
    model.delete("g", removes_offsets=False)
    assert model.groups_of("t") == ["g", "h"]
    model.delete("g", removes_offsets=True)
    assert model.groups_of("t") == ["h"]


def test_progress_has_only_subscribed_topics(model: GroupModel) -> None:
    for topic in "tu":
        model.commit("g", (topic, 0), 3)
    assert model.progress("g", "", "tu") == {"t/0": 3}
    assert model.progress("g", "u", "tu") == {}
    model.end_connection(A)
    model.end_connection(B)
    assert model.progress("g", "", "tu") == {"t/0": 3, "u/0": 3}


def test_a_missing_group_is_made_if_the_broker_makes_it() -> None:
    assert GroupModel(creates_groups=True, notifies=True).need("g") == GroupSettings()
    assert GroupModel(creates_groups=False, notifies=True).need("g") is None


def test_another_answer_than_the_models_is_a_violation() -> None:
    assert not list(check_view("LIVE", "members", ["a"], ["a"]))
    assert [each.invariant for each in check_view("LIVE", "members", ["a"], ["b"])] == ["LIVE"]


def test_a_queue_stays_locked_by_the_first_client_until_it_unlocks(model: GroupModel) -> None:
    queues = [("t", 0), ("t", 1)]
    assert model.lock("a", "g", queues[:1]) == queues[:1]
    assert model.lock("b", "g", queues) == queues[1:]
    assert model.lock("b", "other", queues) == queues
    model.unlock("b", "g", queues)
    assert model.lock("a", "g", queues) == queues


def test_each_connection_of_a_client_is_a_member_and_gets_notices(model: GroupModel) -> None:
    second = MemberConnection("a", 1)
    model.register(second, "g", MODE, wanted("t"))
    assert model.member_ids("g") == ["a", "b"]
    model.end_connection(A)
    assert model.member_ids("g") == ["a", "b"]
    assert model.notices == {A: [NOTICE], B: [NOTICE] * 2, second: [NOTICE] * 2}


def test_a_reply_goes_to_the_connection_that_joined_last(model: GroupModel) -> None:
    second, reply = MemberConnection("a", 1), Notice(326, "reply")
    assert not model.reply("a", reply)
    for client, group in ((A, "g"), (A, "h"), (second, "g"), (A, "g")):
        model.register_producer(client, group)
    assert model.reply("a", reply)
    model.end_connection(second)
    assert model.reply("a", reply)
    assert model.notices == {second: [reply], A: [reply]}


def test_a_group_that_exists_at_a_heartbeat_has_a_retry_topic() -> None:
    model = GroupModel(creates_groups=False, notifies=True)
    model.register(A, "g", MODE, {})
    assert not model.retry_groups
    model.set_group("g", GroupSettings())
    model.register(A, "g", MODE, {})
    assert model.retry_groups == {"g"}
