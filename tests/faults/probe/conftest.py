"""Recorded programs, hand-written records, and checks in files."""

from collections.abc import Callable
from pathlib import Path
from textwrap import dedent

import pytest

from tests.faults.probe.steps import Recorded
from tornlog.faults.probe.record import ProgramRecord, SourceLine, Step
from tornlog.faults.probe.recording.run import EMPTY, record_program


@pytest.fixture
def recorded(tmp_path: Path) -> Callable[..., Recorded]:
    """Return a function that records a script."""

    def recorded(lines: str, *arguments: str, start: object = EMPTY) -> Recorded:
        script = tmp_path / "script.py"
        script.write_text(dedent(lines))
        return record_program([str(script), *arguments], start, 60.0)  # type: ignore[arg-type]

    return recorded


@pytest.fixture
def check_file(tmp_path: Path) -> Callable[[str], Path]:
    """Return a function that writes a check to a file."""

    def check_file(lines: str) -> Path:
        path = tmp_path / "check.py"
        path.write_text(dedent(lines))
        return path

    return check_file


@pytest.fixture(scope="session")
def unsynced_program_record() -> ProgramRecord:
    """Return the record of a program that saves two values by rename, without any sync."""

    def save(value: str, file: int) -> list[Step]:
        return [
            Step("create", "/files/new", file=file, stack=1),
            Step("write", file=file, data=value.encode(), stack=1),
            Step("rename", "/files/new", "/files/value", stack=1),
            Step("acknowledge", value, stack=2),
        ]

    stacks = ((), (SourceLine("/app/save.py", 3, "save"),), (SourceLine("/app/save.py", 9, "<module>"),))
    return ProgramRecord(("save.py",), (*save("one", 0), *save("two", 1)), stacks)


@pytest.fixture(scope="session")
def value_check() -> str:
    """Return the check for `saved`."""
    return """
        def check(directory, acknowledged):
            file = directory / "value"
            found = file.read_text() if file.exists() else None
            if acknowledged and found not in [*acknowledged[-1:], "two"]:
                yield f"value {acknowledged[-1]!r} is lost: found {found!r}"
        """
