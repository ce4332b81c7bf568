import os
from pathlib import Path

import pytest

from tornlog.reports.studies.topics import here
from tornlog.reports.studies.topics.here import measure_here
from tornlog.reports.studies.topics.layouts import FLUSHES, LAYOUTS


@pytest.mark.ci
def test_both_layouts_are_measured_and_leave_no_descriptor_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("_TURN_SECONDS", "_RATE_SECONDS", "_PULL_SECONDS"):
        monkeypatch.setattr(here, name, 0.05)
    before = len(os.listdir("/proc/self/fd"))
    found = list(measure_here(str(tmp_path), [3]))

    assert [(one.variant, one.flush, one.topics) for one in found] == [
        (layout, flush, 3) for flush in FLUSHES for layout in LAYOUTS
    ]
    for one in found:
        assert one.puts_per_second > 0
        assert 0 < one.p50_us <= one.p99_us <= one.most_us
        assert one.put_cpu_us > 0
        late = (one.tail_per_second, one.pull_cpu_us, one.all_lag_per_second, one.few_lag_per_second)
        assert all(figure is None for figure in late) == (one.flush == "sync")
        assert all(figure is None or figure > 0 for figure in late)
    assert len(os.listdir("/proc/self/fd")) <= before
