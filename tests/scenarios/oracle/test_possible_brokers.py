"""Possible brokers: which brokers, clusters and topics an answer of a name server may have."""

import pytest

from tornlog.scenarios.oracle.possible_brokers import PossibleBrokers
from tornlog.scenarios.oracle.registrations import Key, Registration

S = 1_000_000_000
MASTER, SLAVE, OWN = ("a", 0), ("a", 1), ("own", 0, "10.0.0.9")
ENDED = "ended"
TOPICS = {"T": (1, 1, 6)}


def registration(connection: object = "open", address: str = "10.0.0.1", cluster: str = "c") -> Registration:
    return Registration(connection, address, TOPICS, 0, cluster, flags={"T": 1})  # type: ignore[arg-type]


def brokers_with(*registrations: tuple[Key, Registration]) -> PossibleBrokers:
    possible = PossibleBrokers(lambda connection: connection == ENDED)
    for broker, each in registrations:
        possible.begin_request(broker)
        possible.end_request(broker, each, heard_ns=S)
    return possible


def wrong(possible: PossibleBrokers, at_ns: int = S, address: str = "10.0.0.1") -> int:
    before = possible.settled(), possible.absent(at_ns)
    return len(list(possible.check_listed([(*MASTER, address)], *before, OWN)))


@pytest.mark.parametrize(("connection", "at_s", "violations"), [("open", 120, 0), ("open", 121, 1), (ENDED, 2, 1)])
def test_a_broker_is_listed_until_it_expires_or_its_connection_ends(
    connection: str, at_s: int, violations: int
) -> None:
    assert wrong(brokers_with((MASTER, registration(connection))), at_s * S) == violations


def test_a_broker_is_not_listed_after_it_has_unregistered() -> None:
    possible = brokers_with((MASTER, registration()))
    possible.begin_request(MASTER)
    assert wrong(possible) == 0
    possible.end_request(MASTER, leaves=True)
    assert wrong(possible) == 1


def test_a_request_that_overlaps_an_answer_excuses_both_states() -> None:
    possible = brokers_with((MASTER, registration(ENDED)))
    before = possible.settled(), possible.absent(S)
    possible.begin_request(MASTER)
    possible.end_request(MASTER, registration(), heard_ns=S)
    assert list(possible.check_listed([(*MASTER, "10.0.0.1")], *before, OWN)) == []


def test_of_two_registrations_at_once_either_may_be_the_newest() -> None:
    possible = brokers_with()
    possible.begin_request(MASTER)
    possible.begin_request(MASTER)
    possible.end_request(MASTER, registration(), heard_ns=S)
    possible.end_request(MASTER, registration(address="10.0.0.2"), heard_ns=S)
    assert [wrong(possible, address=f"10.0.0.{host}") for host in (1, 2, 3)] == [0, 0, 1]


def test_a_query_of_the_version_postpones_the_expiry() -> None:
    possible = brokers_with((MASTER, registration()))
    possible.begin_request(MASTER)
    possible.end_request(MASTER, heard_ns=60 * S)
    assert (wrong(possible, 179 * S), wrong(possible, 180 * S)) == (0, 1)


def test_each_broker_is_in_its_own_cluster_only() -> None:
    known = registration()
    possible = brokers_with((MASTER, known))

    def count(**clusters: list[str]) -> int:
        return len(list(possible.check_clusters(clusters, {MASTER: known}, possible.settled())))

    assert (count(c=["a"]), count(c=[]), count(c=["a"], d=["a"])) == (0, 1, 1)


def test_a_list_of_topics_has_all_wanted_topics_and_no_others() -> None:
    known = registration()
    possible = brokers_with((MASTER, known))

    def count(*topics: str, cluster: str = "c") -> int:
        args = [known], possible.settled(), lambda each, _: each.cluster == cluster, lambda topic: topic == "own"
        return len(list(possible.check_topics(topics, *args)))

    assert (count("T"), count(), count("T", "own"), count("T", "U"), count("T", cluster="d")) == (0, 1, 0, 1, 1)


def test_a_deleted_topic_is_in_no_list() -> None:
    possible = brokers_with((MASTER, registration()))
    possible.end_deletion("T", possible.begin_deletion())
    found = possible.check_topics(["T"], [], possible.settled(), lambda *_: True, lambda _: False)
    assert len(list(found)) == 1


def test_a_first_registration_during_a_deletion_leaves_the_topic_open() -> None:
    possible = PossibleBrokers()
    deletion = possible.begin_deletion()
    possible.begin_request(MASTER)
    assert not possible.end_request(MASTER, registration()), "the deletion was under way"
    possible.end_deletion("T", deletion)


def test_the_topics_of_a_name_are_certain_if_all_its_brokers_are() -> None:
    known = registration()
    possible = brokers_with((MASTER, known), (SLAVE, registration(ENDED)))
    before = possible.settled(), possible.absent(S)
    assert possible.topics_of_name("a", {MASTER: known}, *before) == {"T"}
    assert possible.topics_of_name("a", {}, *before) is None


def test_addresses_are_certain_without_a_request_under_way() -> None:
    possible = brokers_with((MASTER, registration()))
    before = possible.settled()
    assert possible.addresses(before) == {"10.0.0.1"}
    possible.begin_request(MASTER)
    assert possible.addresses(before) is None
