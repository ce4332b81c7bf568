"""Operator tables: entries that contradict an operator's acknowledged changes."""

import pytest

from tornlog.scenarios.oracle.operator_tables import BROKER_PERMISSION, OperatorTable, OperatorTables, Settings

OPEN, READ_ONLY, WRITE_ONLY = ((4, 4, perm, False) for perm in (6, 4, 2))


def changed(table: OperatorTable, settings: Settings | None, *, at_ns: int = 5) -> None:
    table.record_success("T0", table.record_request("T0", settings), at_ns)


@pytest.fixture
def tables() -> OperatorTables:
    """Return tables in which T0 is read only since 5 ns."""
    tables = OperatorTables()
    tables.settings.restart({BROKER_PERMISSION: ("6",)}, 0)
    changed(tables.topics, READ_ONLY)
    return tables


@pytest.mark.parametrize(
    ("found", "asked_ns", "count"), [({"T0": READ_ONLY}, 9, 0), ({"T0": OPEN}, 9, 1), ({}, 9, 1), ({"T0": OPEN}, 4, 0)]
)
def test_an_answer_has_each_acknowledged_change(
    tables: OperatorTables, found: dict[str, Settings], asked_ns: int, count: int
) -> None:
    assert len(list(tables.topics.check_answer(found, 1, asked_ns))) == count


def test_a_changed_table_has_another_version(tables: OperatorTables) -> None:
    assert not list(tables.topics.check_answer({"T0": READ_ONLY}, 1, 9))
    changed(tables.topics, OPEN, at_ns=10)
    (found,) = tables.topics.check_answer({"T0": OPEN}, 1, 11)
    assert "keeps its version" in found.summary


@pytest.mark.parametrize(("found", "count"), [({"T0": READ_ONLY}, 0), ({}, 0), ({"T0": OPEN}, 1)])
def test_a_start_finds_acknowledged_changes_or_later_requests(
    tables: OperatorTables, found: dict[str, Settings], count: int
) -> None:
    tables.topics.record_request("T0", None).is_given_up = True
    assert len(list(tables.topics.check_loaded(found, 0))) == count


def test_a_process_may_execute_a_change_that_was_given_up_during_its_load(tables: OperatorTables) -> None:
    tables.topics.begin_process()
    tables.topics.record_request("T0", OPEN).is_given_up = True
    assert not list(tables.topics.check_loaded({"T0": READ_ONLY}, 0))
    tables.topics.begin_process()
    assert not list(tables.topics.check_loaded({"T0": OPEN}, 0))
    assert len(list(tables.topics.check_loaded({"T0": READ_ONLY}, 0))) == 1


def test_a_change_in_flight_may_take_effect_after_a_start(tables: OperatorTables) -> None:
    tables.topics.record_request("T0", OPEN)
    assert not list(tables.topics.check_loaded({"T0": READ_ONLY}, 0))
    assert tables.topics.certain("T0", 9) is None


@pytest.mark.parametrize(
    ("settings", "of_broker", "is_refused", "count"),
    [
        (READ_ONLY, "6", False, 0),
        (READ_ONLY, "6", True, 1),
        (WRITE_ONLY, "6", False, 1),
        (WRITE_ONLY, "6", True, 0),
        (READ_ONLY, "2", True, 0),
        (READ_ONLY, "2", False, 1),
    ],
)
def test_the_permissions_of_topic_and_broker_decide_about_pulls(
    tables: OperatorTables, settings: Settings, of_broker: str, count: int, *, is_refused: bool
) -> None:
    changed(tables.topics, settings)
    tables.settings.restart({BROKER_PERMISSION: (of_broker,)}, 0)
    found = tables.check_pull("T0", is_refused=is_refused, is_done=not is_refused, asked_ns=9)
    assert [each.invariant for each in found] == ["STATUS"] * count


def test_a_restart_ends_all_changes_of_settings_except_those_in_flight(tables: OperatorTables) -> None:
    tables.settings.record_success("deleteWhen", tables.settings.record_request("deleteWhen", ("16",)), 5)
    assert tables.setting("deleteWhen", 9) == "16"
    tables.settings.restart({"deleteWhen": ("04",), "regionId": ("R",)}, 0)
    assert tables.setting("deleteWhen", 9) == "04"
    tables.settings.record_request("regionId", ("S",))
    tables.settings.restart({"deleteWhen": ("04",), "regionId": ("R",)}, 0)
    assert tables.setting("regionId", 9) is None


def test_a_route_has_the_settings_of_the_topic(tables: OperatorTables) -> None:
    assert not list(tables.check_route("T0", (4, 4, 4), 9))
    assert [each.field for each in tables.check_route("T0", None, 9)] == ["route"]


@pytest.mark.parametrize(
    ("topic", "found", "of_broker", "since_ns", "count"),
    [
        ("T0", (4, 4, 4), "6", 9, 0),
        ("T0", (4, 4, 6), "6", 9, 1),
        ("T0", (4, 4, 6), "6", 4, 0),
        ("T0", (4, 4, 0), "2", 9, 0),
        ("T0", (4, 4, 4), "2", 9, 1),
        ("T0", None, "6", 9, 0),
        ("unchanged", (4, 4, 7), "6", 9, 0),
        ("unchanged", (4, 4, 4), "6", 9, 1),
        ("unchanged", (4, 4, 6), "4", 9, 1),
    ],
)
def test_name_servers_know_a_topic_as_its_broker_has_it(
    tables: OperatorTables, topic: str, found: Settings | None, of_broker: str, since_ns: int, count: int
) -> None:
    tables.settings.restart({BROKER_PERMISSION: (of_broker,)}, 0)
    assert len(list(tables.check_registered(topic, found, since_ns))) == count


def test_name_servers_forget_a_topic_that_an_operator_has_deleted(tables: OperatorTables) -> None:
    changed(tables.topics, None)
    assert [each.field for each in tables.check_registered("T0", (4, 4, 4), 9)] == ["registration"]


def test_a_restart_ends_the_certainty_about_the_time_before() -> None:
    tables = OperatorTables()
    tables.settings.restart({BROKER_PERMISSION: ("6",)}, 5)
    assert (tables.setting(BROKER_PERMISSION, 4), tables.setting(BROKER_PERMISSION, 5)) == (None, "6")
    assert not list(tables.settings.check_loaded({BROKER_PERMISSION: ("6",)}, 9))
    assert (tables.setting(BROKER_PERMISSION, 8), tables.setting(BROKER_PERMISSION, 9)) == (None, "6")
