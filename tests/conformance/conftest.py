"""The real store, if Maven and a JDK are available."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.conformance.maven import JavaProgram, real_store_program
from tests.conformance.real_store import RealStore

Fetched = Callable[[Callable[[], JavaProgram]], JavaProgram]


@pytest.fixture(scope="session")
def program(fetched: Fetched) -> JavaProgram:
    """The driver of the real store 4.9.8."""
    return fetched(lambda: real_store_program("rocketmq-4.9.8"))


@pytest.fixture(scope="session")
def program_5(fetched: Fetched) -> JavaProgram:
    """The driver of the real store 5.3.3."""
    return fetched(lambda: real_store_program("rocketmq-5.3.3"))


@pytest.fixture
def real(program: JavaProgram, tmp_path: Path) -> Iterator[RealStore]:
    home = tmp_path / "home"
    home.mkdir()
    with RealStore(program, home) as store:
        yield store
