"""Possible faults: a tight upper bound of the faults that seeds inject."""

import pytest

from tornlog.faults.kinds import FAULTS, FaultKind
from tornlog.scenarios.campaigns.seeds import run_seed
from tornlog.scenarios.claims.catalogue import SCENARIOS
from tornlog.scenarios.claims.possible_faults import possible_faults

NETWORK = {kind.value for kind in FaultKind if kind.row.group == "network"}


def test_every_fault_is_possible_in_some_scenario() -> None:
    possible = {kind for scenario in SCENARIOS.values() for kind in possible_faults(scenario.ranges)}

    assert possible == set(FAULTS)


def test_one_store_has_no_network_faults_and_a_sound_disk_has_no_bit_rot() -> None:
    possible = possible_faults(SCENARIOS["segment-rollover-crash"].ranges)

    assert {"page lost", "name lost", "torn page", "power cut after a stop"} <= possible
    assert not possible & (NETWORK | {"bit rot", "lying sync", "synced data lost", "stale blocks", "second start"})
    assert possible_faults(SCENARIOS["replication-network-faults"].ranges) >= NETWORK - {
        "reset at death",
        "failed poll",
    }


@pytest.mark.slow
@pytest.mark.parametrize("name", SCENARIOS)
def test_every_injected_fault_was_declared_possible(name: str) -> None:
    scenario = SCENARIOS[name]
    injected = {kind for seed in range(3) for kind in run_seed(scenario, seed).injected if kind in FAULTS}

    assert injected <= possible_faults(scenario.ranges)
