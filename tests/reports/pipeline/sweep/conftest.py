from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tornlog.reports.pipeline.sweep.request import SweepRequest
from tornlog.reports.pipeline.sweep.table import Table

SCENARIOS = ("clean-shutdown", "segment-rollover-crash")


@pytest.fixture
def request_of() -> Callable[..., SweepRequest]:
    def make(last: int = 10, **options: Any) -> SweepRequest:
        return SweepRequest(SCENARIOS, 0, last, block_seeds=4, **options)

    return make


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return Table(str(tmp_path / "sweep"))
