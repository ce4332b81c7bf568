from pathlib import Path
from textwrap import dedent

import pytest

from tests.reports.cli.probe.programs import CHECK, SAVE, WriteFile


@pytest.fixture
def write_file(tmp_path: Path) -> WriteFile:
    def write_file(name: str, lines: str) -> Path:
        path = tmp_path / name
        path.write_text(dedent(lines))
        return path

    return write_file


@pytest.fixture
def save(write_file: WriteFile) -> list[str]:
    """Arguments to probe the program above."""
    script, check = write_file("save.py", SAVE), write_file("check.py", CHECK)
    return ["--check", str(check), "--jobs", "0", "--", str(script)]


@pytest.fixture
def command(tmp_path: Path) -> Path:
    """A shell script that checks the program above."""
    path = tmp_path / "check.sh"
    path.write_text(
        """#!/bin/sh
        last=$(tail -n 1)
        [ -z "$last" ] && exit 0
        found=$(cat value 2>/dev/null)
        [ "$found" = "$last" ] || [ "$found" = two ] && exit 0
        echo "'$last' is lost: found '$found'"
        exit 1
        """
    )
    path.chmod(0o755)
    return path
