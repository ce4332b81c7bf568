from pathlib import Path

import pytest

from tornlog.reports.studies.latency.real.own_store import SleepingFiles
from tornlog.store.log.segment import Segment
from tornlog.store.real.world import real_world


def test_sleeping_syncs_record_the_durations_of_log_syncs_only(tmp_path: Path) -> None:
    files = SleepingFiles(0.002)
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
    mapped = SleepingFiles(0.0).map(str(tmp_path / "a"), 4096)
    mapped.store(3, b"abc")
    mapped.pwrite(8, b"def")

    assert bytes(mapped.view(3, 11)) == b"abc\0\0def"
    assert (tmp_path / "a").read_bytes()[3:11] == b"abc\0\0def"
    assert (mapped.path, mapped.size_bytes) == (str(tmp_path / "a"), 4096)
    mapped.close()
    with pytest.raises(ValueError, match="released"):
        mapped.view(0, 1)


def test_appends_are_left_to_the_core(tmp_path: Path) -> None:
    segment = Segment(real_world().tasks, SleepingFiles(0.0).map(str(tmp_path / "a"), 4096), 0, "")

    assert segment.pages is not None
