"""The real store, where Maven and a JDK are; in CI, where they are promised, its absence is a failure."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tornlog.scenarios.compare.maven import JavaMissing, JavaProgram, real_store_program
from tornlog.scenarios.compare.real_store import RealStore


@pytest.fixture(scope="session")
def program() -> JavaProgram:
    """The driver of the real store 4.9.8."""
    return program_of("rocketmq-4.9.8")


@pytest.fixture(scope="session")
def program_5() -> JavaProgram:
    """The driver of the real store 5.3.3."""
    return program_of("rocketmq-5.3.3")


def program_of(version: str) -> JavaProgram:
    try:
        return real_store_program(version)
    except JavaMissing as missing:
        if os.environ.get("CI") and shutil.which("mvn"):
            pytest.fail(f"CI has Maven, and yet: {missing}")
        pytest.skip(str(missing))


@pytest.fixture
def real(program: JavaProgram, tmp_path: Path) -> Iterator[RealStore]:
    """A process of the real store."""
    home = tmp_path / "home"
    home.mkdir()
    with RealStore(program, home) as store:
        yield store
