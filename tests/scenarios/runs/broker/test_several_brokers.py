"""Runs of several brokers: the choice of a broker for each request, also while one is off."""

from collections import Counter

import pytest

from tornlog.scenarios.campaigns.seeds import draw_plan_of_seed
from tornlog.scenarios.claims.catalogue import SCENARIOS
from tornlog.scenarios.runs.broker.identities import identities_of
from tornlog.scenarios.runs.broker.routes import BROKER, BrokerAddress, Routes
from tornlog.scenarios.runs.broker.run import BrokerRun
from tornlog.scenarios.runs.outcome import RunOutcome
from tornlog.scenarios.runs.run_of import simulation_of
from tornlog.store.real.world import real_world

pytestmark = pytest.mark.ci

MASTER = BrokerAddress(BROKER, 0, "10.0.0.1:10911")


def outcomes_of(scenario: str, seeds: int) -> list[RunOutcome]:
    outcomes = []
    for seed in range(seeds):
        choices, plan = draw_plan_of_seed(SCENARIOS[scenario], seed)
        outcomes.append(BrokerRun(plan, simulation_of(plan, choices)).execute())
    return outcomes


@pytest.mark.parametrize(
    ("scenario", "seeds", "marks"),
    [
        ("slave-reads", 6, ("pulled from a slave", "name server failover", "slave took over")),
        ("client-failover", 4, ("producer failover", "name server failover")),
    ],
)
def test_clients_of_a_cluster_connect_to_the_running_brokers(scenario: str, seeds: int, marks: tuple[str, ...]) -> None:
    outcomes = outcomes_of(scenario, seeds)

    assert not [outcome.violations for outcome in outcomes if outcome.violations]
    met = sum((outcome.marks for outcome in outcomes), Counter())
    assert all(met[mark] for mark in marks), met


def test_a_plan_lists_a_master_its_slaves_and_then_the_other_masters() -> None:
    _, plan = draw_plan_of_seed(SCENARIOS["client-failover"], 0)
    plan = plan.replace(cluster={"slaves": 2}, broker={"masters": 2})

    assert [(each.name, *each.address) for each in identities_of(plan)] == [
        ("master", "broker-a", 0, "10.0.0.1:10911"),
        ("slave-1", "broker-a", 1, "10.0.0.2:10911"),
        ("slave-2", "broker-a", 2, "10.0.0.3:10911"),
        ("master-1", "broker-b", 0, "10.0.0.4:10911"),
    ]


def routes(only_broker: BrokerAddress | None = None) -> Routes:
    return Routes(real_world(), (), Counter(), only_broker=only_broker, report=lambda found: None)


def test_a_single_broker_receives_every_request() -> None:
    lone = routes(MASTER)
    assert lone.broker_to_send_to("T0", 3, avoided=BROKER) == MASTER
    assert lone.broker_to_pull_from(BROKER, "T0", 7) == MASTER
    assert lone.broker_for_offsets(BROKER, "T0") == MASTER


def test_another_broker_replaces_a_broker_without_a_route_except_for_sends() -> None:
    known = routes()
    known._addresses = {BROKER: {2: "slave"}}
    known._writeable = {"T0": [BROKER]}

    assert known.broker_to_pull_from(BROKER, "T0", 0) == (BROKER, 2, "slave")
    assert known.broker_to_pull_from(BROKER, "T0", 1) == (BROKER, 2, "slave"), "the next one"
    assert known.broker_for_offsets(BROKER, "T0") == (BROKER, 2, "slave")
    assert known.broker_to_send_to("T0", 0, avoided="") is None
    assert known.broker_to_pull_from("broker-b", "T0", 0) is None


def test_a_producer_fails_over_to_another_broker_if_there_is_one() -> None:
    known = routes()
    known._addresses = {BROKER: {0: "a"}, "broker-b": {0: "b"}}
    known._writeable = {"T0": [BROKER, "broker-b"], "T1": [BROKER]}

    assert known.broker_to_send_to("T0", 0, avoided=BROKER) == ("broker-b", 0, "b")
    assert known.broker_to_send_to("T0", 1, avoided="") == ("broker-b", 0, "b"), "each in its turn"
    assert known.broker_to_send_to("T1", 0, avoided=BROKER) == (BROKER, 0, "a")
