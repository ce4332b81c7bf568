"""Name server keys: the values that an answer, a route or a start may have."""

from copy import deepcopy

import pytest

from tornlog.scenarios.oracle.name_server_keys import ORDER_ENABLED, NameServerKeys
from tornlog.store.broker.kv_config import ORDER_TOPIC_CONFIG

PLACE = ORDER_TOPIC_CONFIG, "T"


def keys_with(value: str | None) -> NameServerKeys:
    keys = NameServerKeys()
    keys.begin_process()
    keys.begin_change(PLACE, value)
    assert keys.end_change(PLACE, value, is_done=True)
    return keys


def wrong(keys: NameServerKeys, found: str | None) -> int:
    return len(list(keys.check_value(PLACE, keys.values(PLACE), found)))


def test_a_key_has_its_newest_value() -> None:
    keys = keys_with("1")
    assert [wrong(keys, found) for found in ("1", None, "2")] == [0, 1, 1]


@pytest.mark.parametrize("overlaps", [False, True])
def test_a_change_without_an_answer_may_have_had_an_effect(*, overlaps: bool) -> None:
    keys = keys_with("1")
    keys.begin_change(PLACE, "2")
    if overlaps:
        keys.begin_change(PLACE, None)
        assert not keys.end_change(PLACE, None, is_done=True)
    assert not keys.end_change(PLACE, "2", is_done=overlaps)
    assert [wrong(deepcopy(keys), found) for found in ("1", "2", None)] == [0, 0, 0 if overlaps else 1]


@pytest.mark.parametrize("is_late", [False, True])
def test_an_answer_after_overlapping_changes_settles_the_value(*, is_late: bool) -> None:
    """is_late: a change ends during the request for the value."""
    keys = keys_with("1")
    keys.begin_change(PLACE, "2")
    keys.begin_change(PLACE, None)
    keys.end_change(PLACE, None, is_done=True)
    early = keys.values(PLACE)
    keys.end_change(PLACE, "2", is_done=True)
    before = early if is_late else keys.values(PLACE)

    assert list(keys.check_value(PLACE, before, "2")) == []
    assert [wrong(deepcopy(keys), found) for found in ("2", None)] == [0, 0 if is_late else 1]


def test_a_start_finds_each_value() -> None:
    assert list(keys_with("1").check_loaded(lambda name: {"T": "1"})) == []
    assert len(list(keys_with("1").check_loaded(lambda name: None))) == 1
    assert len(list(keys_with(None).check_loaded(lambda name: {"T": "1"}))) == 1


def test_a_change_that_a_crash_interrupts_is_settled_by_the_next_start() -> None:
    keys = keys_with("1")
    keys.begin_change(PLACE, "2")
    keys.begin_process()
    assert list(keys.check_loaded(lambda name: {"T": "2"})) == []
    assert wrong(keys, "1") == 1


def test_a_namespace_has_no_other_keys() -> None:
    keys = keys_with("1")
    before = keys.namespace(ORDER_TOPIC_CONFIG)
    found = [
        keys.check_namespace(ORDER_TOPIC_CONFIG, before, each) for each in ({"T": "1"}, None, {"T": "1", "U": "1"})
    ]
    assert [len(list(each)) for each in found] == [0, 2, 1]


def test_a_namespace_keeps_an_empty_table_after_its_last_key() -> None:
    keys = keys_with("1")
    keys.begin_change(PLACE, None)
    keys.end_change(PLACE, None, is_done=True)
    before = keys.namespace(ORDER_TOPIC_CONFIG)
    assert [len(list(keys.check_namespace(ORDER_TOPIC_CONFIG, before, each))) for each in ({}, None)] == [0, 1]


def test_a_route_has_the_order_only_if_the_setting_is_on() -> None:
    keys = keys_with("1")

    def count(found: str | None) -> int:
        return len(list(keys.check_order_in_route("T", keys.order_of("T"), found)))

    assert (count(None), count("1")) == (0, 1)
    keys.begin_change(ORDER_ENABLED, "true")
    assert (count(None), count("1")) == (0, 0)
    keys.end_change(ORDER_ENABLED, "true", is_done=True)
    assert (count(None), count("1"), count("2")) == (1, 0, 1)


def test_topics_with_a_value_are_ordered_and_others_are_not() -> None:
    orders = {"T": True, "U": False}
    assert list(keys_with("1").check_marked(orders)) == []
    assert len(list(keys_with(None).check_marked(orders))) == 1
