from pathlib import Path

import pytest

from tornlog.reports.studies.latency.here import ClockedFiles
from tornlog.store.log.segment import Segment
from tornlog.store.real.world import real_world


def test_sleeping_syncs_record_the_durations_of_log_syncs_only(tmp_path: Path) -> None:
    files = ClockedFiles(0.002)
    files.make_directories(str(tmp_path / "commitlog"))
    log, other = files.map(str(tmp_path / "commitlog" / "0"), 4096), files.map(str(tmp_path / "queue"), 4096)
    log.msync(0, 4096)
    log.fdatasync()
    other.msync(0, 4096)
    files.sync(str(tmp_path / "queue"))
    files.sync_directory(str(tmp_path))

    assert len(files.log_syncs_ns) == 2
    assert min(files.log_syncs_ns) >= 2_000_000


def test_all_other_file_operations_are_real(tmp_path: Path) -> None:
    mapped = ClockedFiles(0.0).map(str(tmp_path / "a"), 4096)
    mapped.store(3, b"abc")
    mapped.pwrite(8, b"def")

    assert bytes(mapped.view(3, 11)) == b"abc\0\0def"
    assert (tmp_path / "a").read_bytes()[3:11] == b"abc\0\0def"
    assert (mapped.path, mapped.size_bytes) == (str(tmp_path / "a"), 4096)
    mapped.close()
    with pytest.raises(ValueError, match="released"):
        mapped.view(0, 1)


def test_stores_that_are_not_timed_leave_appends_to_the_core(tmp_path: Path) -> None:
    timed, plain = ClockedFiles(0.0), ClockedFiles(0.0, times_stores=False)
    segments = [Segment(real_world().tasks, files.map(str(tmp_path / "a"), 4096), 0, "") for files in (timed, plain)]

    assert [segment.pages is None for segment in segments] == [True, False]


def test_real_syncs_are_executed_and_timed(tmp_path: Path) -> None:
    files = ClockedFiles()
    files.make_directories(str(tmp_path / "commitlog"))
    log = files.map(str(tmp_path / "commitlog" / "0"), 4096)
    log.store(0, b"abc")
    log.msync(0, 4096)
    files.sync(str(tmp_path / "commitlog" / "0"))
    files.sync_directory(str(tmp_path))

    assert len(files.log_syncs_ns) == 1
    assert files.log_syncs_ns[0] > 0
