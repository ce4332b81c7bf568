from pathlib import Path

import pytest

from tornlog.reports.studies.recovery.timed import (
    ALL,
    SEGMENT_BYTES,
    RecoveryCase,
    _measure_case,
    cases_by_distance,
    cases_by_size,
    cold_read_s,
    fill_store,
    measure_recovery,
)
from tornlog.store.message_store import MessageStore
from tornlog.store.real.world import real_world

LOG_BYTES = 3 * SEGMENT_BYTES


@pytest.fixture(scope="module")
def measured_recoveries(tmp_path_factory: pytest.TempPathFactory) -> dict[RecoveryCase, tuple[int, int, int]]:
    """Scanned bytes, log bytes and records, by case."""
    directory = tmp_path_factory.mktemp("recovery")
    found = list(measure_recovery(str(directory), [LOG_BYTES], 1))
    assert [one.case for one in found] == cases_by_size() + cases_by_distance(LOG_BYTES)
    for one in found:
        assert one.total_s > 0
        assert min(one.scan_s, one.queues_s, one.durable_s, one.index_s) >= 0
    return {one.case: (one.scanned_bytes, one.log_bytes, one.records) for one in found}


def test_recovery_of_the_whole_log_scans_all_of_it(
    measured_recoveries: dict[RecoveryCase, tuple[int, int, int]],
) -> None:
    for clean in (True, False):
        scanned, log_bytes, records = measured_recoveries[RecoveryCase(clean, True)]
        assert scanned == log_bytes
        assert LOG_BYTES - SEGMENT_BYTES < log_bytes <= LOG_BYTES
        assert records == pytest.approx(log_bytes / 1_148, rel=0.02)


def test_after_a_crash_a_log_that_the_checkpoint_does_not_cover_is_scanned_completely(
    measured_recoveries: dict[RecoveryCase, tuple[int, int, int]],
) -> None:
    assert measured_recoveries[RecoveryCase(False, False, ALL)] == measured_recoveries[RecoveryCase(False, True, ALL)]


def test_recovery_after_a_crash_starts_at_the_checkpoint(tmp_path: Path) -> None:
    filled = fill_store(str(tmp_path), LOG_BYTES)
    for behind in (1, 2, 3):
        filled.make_crashed(behind * SEGMENT_BYTES)
        store = MessageStore(real_world(), filled.config(recover_whole_log=False, index=False))
        report = store.load()
        store.close()

        assert not report.clean_exit
        assert report.start_offset == (3 - behind) * SEGMENT_BYTES
        assert not report.findings
        assert report.changed_entries == 0
    filled.make_clean()
    store = MessageStore(real_world(), filled.config(recover_whole_log=False, index=True))
    assert store.load().clean_exit
    store.close()


def test_a_cold_log_takes_at_least_its_size_over_the_bandwidth() -> None:
    for disk, megabytes_per_second in (("hdd", 200), ("sata-ssd", 500), ("nvme-ssd", 2_500)):
        assert 2_000_000_000 / cold_read_s(disk, 2_000_000_000) / 1e6 == pytest.approx(megabytes_per_second, rel=0.03)


def test_a_recovery_that_finds_damage_is_not_measured(tmp_path: Path) -> None:
    filled = fill_store(str(tmp_path / str(LOG_BYTES)), LOG_BYTES)
    first = tmp_path / str(LOG_BYTES) / "commitlog" / f"{0:020d}"
    with first.open("r+b") as file:
        file.seek(5_000)
        file.write(b"damage")

    with pytest.raises(RuntimeError, match="a recovery found damage"):
        _measure_case(filled, RecoveryCase(False, True), 1)
