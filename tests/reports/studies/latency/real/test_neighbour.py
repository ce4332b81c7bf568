import time
from pathlib import Path

import pytest

from tornlog.reports.studies.latency.real.neighbour import Writer, dirty_share, neighbour

MIB = 1 << 20


def test_the_dirty_share_is_one_where_linux_makes_writers_pause() -> None:
    limits = {"nr_dirty_background_threshold": 100, "nr_dirty_threshold": 200}

    assert dirty_share({"nr_dirty": 140, "nr_writeback": 10, **limits}) == 1.0
    assert dirty_share({"nr_dirty": 15, "nr_writeback": 0, **limits}) == 0.1


def test_a_writer_does_not_catch_up_after_a_stall(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    writer = Writer(tmp_path, MIB)
    waits = []
    for stall in (0.0, 5.0, 0.0):
        now[0] += stall
        writer.write_block()
        waits.append(writer.wait_seconds())
    writer.close()

    assert waits == [1.0, 0.0, 1.0]
    assert writer.report().written_bytes == 3 * MIB


@pytest.mark.ci
def test_a_neighbour_writes_at_its_rate_reports_it_and_leaves_no_file(tmp_path: Path) -> None:
    with neighbour(tmp_path, 8 * MIB) as running:
        assert [path.name for path in tmp_path.iterdir()] == ["neighbour-0"]

    report = running.report
    assert 0 < report.written_bytes <= (report.seconds + 1) * 8 * MIB
    assert report.rate_bytes == report.written_bytes / report.seconds
    assert report.slowest_write_ms > 0
    assert list(tmp_path.iterdir()) == []
