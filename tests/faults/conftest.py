"""Fixtures of the shared rig."""

from typing import Any

import pytest

from tests.faults.rigs import Rig


@pytest.fixture
def rig() -> Rig:
    return Rig()


@pytest.fixture
def files(rig: Rig) -> Any:
    return rig.files
