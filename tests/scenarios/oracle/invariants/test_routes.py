"""Routes: brokers that a name server lists or omits against their presence."""

import pytest

from tornlog.scenarios.oracle.invariants.routes import Presence, RouteBounds, check_identities, check_listed_brokers
from tornlog.scenarios.oracle.operator_tables import Settings
from tornlog.scenarios.oracle.registrations import Registration, Registrations

S = 1_000_000_000
BOUNDS = RouteBounds(register_ms=20_000, late_ms=1_000)
SERVING = Presence(0, None)


def count(broker: Presence, at_s: int, *, listed: bool, name_server: Presence = SERVING) -> int:
    addresses = ["b"] if listed else []
    return len(list(check_listed_brokers(addresses, name_server, {"b": broker}, at_s * S, BOUNDS)))


@pytest.mark.parametrize(("at_s", "violations"), [(19, 0), (21, 1)])
def test_a_running_broker_is_listed_within_two_intervals(at_s: int, violations: int) -> None:
    assert count(SERVING, at_s, listed=False) == violations
    assert count(SERVING, at_s, listed=True) == 0


def test_a_registered_broker_stays_listed() -> None:
    args = {"b": SERVING}, 5 * S, BOUNDS
    assert list(check_listed_brokers([], SERVING, *args)) == []
    assert len(list(check_listed_brokers([], SERVING, *args, registered={"b"}))) == 1


def test_a_name_server_that_started_later_may_lack_brokers() -> None:
    assert count(SERVING, 60, listed=False, name_server=Presence(50 * S, None)) == 0
    assert count(SERVING, 60, listed=False, name_server=Presence(None, None)) == 0


@pytest.mark.parametrize(("silently", "gone_after_s"), [(False, 1), (True, 121)])
def test_a_dead_broker_is_listed_only_until_the_name_server_notices(gone_after_s: int, *, silently: bool) -> None:
    dead = Presence(None, 10 * S, silently)
    assert count(dead, 10 + gone_after_s, listed=True) == 0
    assert count(dead, 11 + gone_after_s, listed=True) == 1
    assert count(dead, 11 + gone_after_s, listed=False) == 0


@pytest.mark.parametrize("listed", [("a", 1, "10.0.0.1"), ("a", 0, "10.0.0.2"), ("b", 0, "10.0.0.1")])
def test_a_route_lists_brokers_with_their_own_ids_and_addresses(listed: tuple[str, int, str]) -> None:
    brokers = {("a", 0, "10.0.0.1"), ("a", 1, "10.0.0.2")}
    assert list(check_identities(brokers, brokers)) == []
    assert [found.found for found in check_identities([listed], brokers)] == [str(listed)]


class Line:
    """A connection of a broker."""

    is_open = True


MASTER, ADDRESS, OPEN, CLOSED = ("a", 0), "10.0.0.1", (1, 1, 6), (1, 1, 4)
LISTED = [("a", 0, ADDRESS)]


def register(registrations: Registrations, line: Line, at_ns: int = 0, **topics: Settings) -> None:
    before = registrations.begin_request(MASTER)
    topics = topics or {"T": OPEN}
    registrations.end_request(MASTER, Registration(line, ADDRESS, topics, at_ns), before)


def change_permission(registrations: Registrations, *, closes: bool) -> None:
    registrations.begin_permission("a")
    registrations.end_permission("a", closes=closes)


def wrong(registrations: Registrations, topic: str = "T", **queues: Settings) -> int:
    return len(list(registrations.check_route(topic, registrations.known_routes(S), LISTED, queues)))


@pytest.mark.parametrize("old_ends_first", [False, True])
def test_a_broker_is_listed_while_the_connection_of_its_newest_registration_is_open(*, old_ends_first: bool) -> None:
    registrations, (old, new) = Registrations(), (Line(), Line())
    for line in (old, new):
        register(registrations, line)
    expected = registrations.known_routes(S)
    (old if old_ends_first else new).is_open = False
    assert len(list(registrations.check_route("T", expected, [], {}))) == old_ends_first
    assert list(registrations.check_route("T", expected, LISTED, {"a": OPEN})) == []
    assert list(registrations.check_route("U", expected, [], {})) == []
    assert registrations.known_routes(120 * S).brokers == {}


def test_registrations_that_overlap_leave_open_which_is_the_newest() -> None:
    registrations = Registrations()
    registrations.begin_request(MASTER)
    expected = registrations.known_routes(S).brokers
    registrations.begin_request(MASTER)
    for _ in range(2):
        registrations.end_request(MASTER, Registration(Line(), ADDRESS, {"T": OPEN}, 0))
    assert expected == registrations.known_routes(S).brokers == {}
    register(registrations, Line())
    assert list(registrations.known_routes(S).brokers) == [MASTER]


def test_a_request_that_runs_at_a_look_at_a_connection_counts_as_overlapping() -> None:
    registrations = Registrations()

    class WatchedLine:
        @property
        def is_open(self) -> bool:
            """Unregister the broker meanwhile."""
            registrations.begin_request(MASTER)
            registrations.end_request(MASTER, None, leaves=True)
            return False

    before = Registration(WatchedLine(), ADDRESS, {"T": OPEN}, 0)
    registrations.begin_request(MASTER)
    registrations.end_request(MASTER, Registration(Line(), ADDRESS, {"T": OPEN}, 0), before)
    assert registrations.known_routes(S).brokers == {}


def test_a_route_has_the_queues_that_the_master_has_registered() -> None:
    registrations = Registrations()
    register(registrations, Line())
    assert wrong(registrations, a=OPEN) == 0
    assert wrong(registrations, a=CLOSED) == wrong(registrations, a=(1, 2, 6)) == 1
    assert wrong(registrations, "U", a=OPEN) == 1


def test_a_slave_without_the_topic_is_in_the_route_of_its_master() -> None:
    registrations = Registrations()
    register(registrations, Line())
    before = registrations.begin_request(("a", 1))
    registrations.end_request(("a", 1), Registration(Line(), "10.0.0.2", {}, 0), before)
    assert wrong(registrations, a=OPEN) == 1


def test_a_removed_permission_lasts_until_it_is_restored() -> None:
    registrations, line = Registrations(), Line()
    register(registrations, line)
    change_permission(registrations, closes=True)
    register(registrations, line)
    assert (wrong(registrations, a=OPEN), wrong(registrations, a=CLOSED)) == (1, 0)
    change_permission(registrations, closes=False)
    assert (wrong(registrations, a=OPEN), wrong(registrations, a=CLOSED)) == (0, 1)


def test_a_removed_permission_ends_with_the_last_broker_of_the_name() -> None:
    registrations, line = Registrations(), Line()
    register(registrations, line)
    change_permission(registrations, closes=True)
    before = registrations.begin_request(MASTER)
    registrations.end_request(MASTER, None, before, leaves=True)
    register(registrations, Line())
    assert (wrong(registrations, a=OPEN), wrong(registrations, a=CLOSED)) == (0, 1)


def test_after_a_lost_connection_it_is_open_whether_a_removed_permission_lasts() -> None:
    registrations, line = Registrations(), Line()
    register(registrations, line)
    change_permission(registrations, closes=True)
    line.is_open = False
    register(registrations, Line())
    assert (wrong(registrations, a=OPEN), wrong(registrations, a=CLOSED)) == (0, 0)


def test_a_name_server_also_removes_the_permission_of_its_own_broker() -> None:
    registrations = Registrations("a")
    change_permission(registrations, closes=True)
    assert (wrong(registrations, a=OPEN), wrong(registrations, a=CLOSED)) == (1, 0)


def test_a_deleted_topic_has_no_queues_until_its_next_registration() -> None:
    registrations, line = Registrations(), Line()
    register(registrations, line)
    registrations.end_deletion("T", registrations.begin_deletion())
    assert (wrong(registrations, a=OPEN), wrong(registrations)) == (1, 0)
    register(registrations, line)
    assert (wrong(registrations, a=OPEN), wrong(registrations, a=CLOSED)) == (0, 1)


def test_a_first_registration_during_a_deletion_may_lose_the_topic() -> None:
    registrations, line = Registrations(), Line()
    before = registrations.begin_deletion()
    register(registrations, line)
    registrations.end_deletion("T", before)
    assert (wrong(registrations, a=OPEN), wrong(registrations)) == (0, 0)


def test_changes_of_a_permission_that_overlap_leave_open_which_is_the_newest() -> None:
    registrations = Registrations("a")
    registrations.begin_permission("a")
    registrations.begin_permission("a")
    registrations.end_permission("a", closes=False)
    registrations.end_permission("a", closes=True)
    assert (wrong(registrations, a=OPEN), wrong(registrations, a=CLOSED)) == (0, 0)


@pytest.mark.parametrize("slave_since", ["before", "after"])
def test_a_removed_permission_lasts_while_a_slave_stays_registered(slave_since: str) -> None:
    registrations = Registrations()

    def register_slave() -> None:
        before = registrations.begin_request(("a", 1))
        registrations.end_request(("a", 1), Registration(Line(), "10.0.0.2", {}, 0), before)

    register(registrations, Line())
    if slave_since == "before":
        register_slave()
    change_permission(registrations, closes=True)
    if slave_since == "after":
        register_slave()
    master = registrations.begin_request(MASTER)
    registrations.end_request(MASTER, None, master, leaves=True)
    register(registrations, Line())
    assert registrations.closed == {"a": True if slave_since == "before" else None}
