"""Programs, recorded as `tornlog probe` records them: in a process of their own."""

from collections.abc import Callable
from pathlib import Path
from textwrap import dedent

import pytest

from tornlog.faults.probe.record import Record
from tornlog.faults.probe.recording.run import EMPTY, record_program

Recorded = tuple[Record, list[str]]
"""A record, and where the directory is not what it comes to."""


@pytest.fixture
def recorded(tmp_path: Path) -> Callable[..., Recorded]:
    """Return what is recorded of a script with these lines."""

    def recorded(lines: str, *arguments: str, start: object = EMPTY) -> Recorded:
        script = tmp_path / "script.py"
        script.write_text(dedent(lines))
        return record_program([str(script), *arguments], start, 60.0)  # type: ignore[arg-type]

    return recorded
