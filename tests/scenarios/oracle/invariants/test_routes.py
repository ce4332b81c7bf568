"""Routes: brokers that a name server lists or omits against their presence."""

import pytest

from tornlog.scenarios.oracle.invariants.routes import Presence, RouteBounds, check_identities, check_listed_brokers
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


@pytest.mark.parametrize("old_ends_first", [False, True])
def test_a_broker_is_listed_while_the_connection_of_its_newest_registration_is_open(*, old_ends_first: bool) -> None:
    registrations, broker, (old, new) = Registrations(), ("a", 0), (Line(), Line())
    for line in (old, new):
        registrations.begin_request(broker)
        registrations.end_request(broker, Registration(line, "10.0.0.1", {"T"}, 0))
    expected = registrations.listed_brokers("T", S)
    (old if old_ends_first else new).is_open = False
    assert len(list(registrations.check_route(expected, []))) == old_ends_first
    assert list(registrations.check_route(expected, [("a", 0, "10.0.0.1")])) == []
    assert registrations.listed_brokers("U", S) == registrations.listed_brokers("T", 120 * S) == {}


def test_registrations_that_overlap_leave_open_which_is_the_newest() -> None:
    registrations, broker = Registrations(), ("a", 0)
    registrations.begin_request(broker)
    expected = registrations.listed_brokers("T", S)
    registrations.begin_request(broker)
    for _ in range(2):
        registrations.end_request(broker, Registration(Line(), "10.0.0.1", {"T"}, 0))
    assert expected == registrations.listed_brokers("T", S) == {}
    registrations.begin_request(broker)
    registrations.end_request(broker, Registration(Line(), "10.0.0.1", {"T"}, 0))
    assert list(registrations.listed_brokers("T", S)) == [broker]
