"""Short records are torn within a few seeds; faults that never happened are reported."""

from zlib import crc32

import pytest

from tornlog.faults.simulation.promises import PromiseBroken
from tornlog.faults.simulation.shrink import shrink
from tornlog.faults.simulation.simulation import CRASHES, Scenario, Simulation, SimWorld
from tornlog.faults.simulation.trials import Coverage, NeverInjected, find

RECORD_BYTES = 40


def append_only_log(*, checksum: bool, profiles: tuple[str, ...] = CRASHES) -> Scenario:
    """Return a scenario of an append-only log, whose records have a checksum or only a length."""

    def head(body: bytes) -> bytes:
        return (crc32(body) if checksum else len(body)).to_bytes(4, "big")

    def scenario(run: Simulation) -> None:
        bodies: list[bytes] = []
        acknowledged: list[bytes] = []

        def use(world: SimWorld) -> None:
            log = world.files.open("/log")
            world.files.sync_directory("/")
            for number, _ in run.steps("appends", 20):
                bodies.append(b"%035d " % number)
                log.write(RECORD_BYTES * len(acknowledged), head(bodies[-1]) + bodies[-1])
                log.sync()
                acknowledged.append(bodies[-1])

        def judge(world: SimWorld) -> None:
            log = world.files.open("/log")
            found = []
            for at in range(0, log.size_bytes - RECORD_BYTES + 1, RECORD_BYTES):
                record = log.read(at, RECORD_BYTES)
                if record[:4] != head(record[4:]):
                    break
                found.append(record[4:])
            if found != bodies[: len(found)] or len(found) < len(acknowledged):
                raise PromiseBroken("a prefix, with all that was acknowledged", f"{found[-1:]}")

        run.live("first", use, crash_within=50, profiles=profiles)
        run.live("second", judge)

    return scenario


def test_a_log_of_short_records_without_a_checksum_fails_within_a_hundred_seeds() -> None:
    scenario = append_only_log(checksum=False)
    finding = find(scenario, range(100))

    assert finding is not None
    smallest = shrink(scenario, finding)
    assert [crash.profile for crash in smallest.record.crashes] == ["torn-sectors"]
    assert "torn at byte" in str(smallest)
    assert "raised    test_coverage.py:" in str(smallest)


def test_a_log_of_short_records_with_a_checksum_passes_a_thousand_seeds() -> None:
    coverage = Coverage()

    assert find(append_only_log(checksum=True), range(1000), coverage.add) is None
    assert coverage.injected["torn sector"] > 30
    assert coverage.never_injected == []


def test_faults_that_were_never_injected_are_reported() -> None:
    scenario = append_only_log(checksum=False, profiles=("strict-posix", "process-kill"))
    coverage = Coverage()

    with pytest.warns(NeverInjected, match="no failure in 100 seeds, but these never occurred: .*torn page"):
        assert find(scenario, range(100), coverage.add) is None
    assert "torn page" in coverage.never_injected
    assert "torn sector" not in coverage.never_injected
    assert str(coverage).splitlines()[0].startswith("100 seeds, ")
    assert "  never injected  " in str(coverage)


def test_a_seed_in_which_no_fault_is_possible_is_reported() -> None:
    coverage = Coverage()
    find(lambda run: None, [1], coverage.add)

    assert str(coverage) == ("1 seed, 0 crashes\n  injected        none\n  never injected  none")
