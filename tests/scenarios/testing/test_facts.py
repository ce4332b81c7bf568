"""Facts of a test: pytest-xdist sends them between processes by execnet, which accepts plain values only."""

from execnet.gateway_base import dumps, loads

from tornlog.faults.kinds import FaultKind
from tornlog.scenarios.testing.facts import SeedFacts


def test_fault_facts_can_be_sent_to_another_process_by_execnet() -> None:
    facts = SeedFacts("test_it.py::test_it", "test_it.py::test_it", "pytest", None)
    facts.add({FaultKind.FAILED_SYNC: 2}, crash_points=0)
    facts.enable([FaultKind.FAILED_SYNC, FaultKind.DISK_FULL])

    carried = loads(dumps(facts.to_json()))

    assert carried["injected"] == {str(FaultKind.FAILED_SYNC): 2}
    assert carried["never_injected"] == [str(FaultKind.DISK_FULL)]
