"""The source tree, and what pyproject.toml says about it."""

import tomllib
from pathlib import Path
from typing import Any

import pytest

_ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def source() -> Path:
    """The repository's root, which is the package `tornlog`."""
    return _ROOT


@pytest.fixture(scope="session")
def pyproject() -> dict[str, Any]:
    return tomllib.loads((_ROOT / "pyproject.toml").read_text())


@pytest.fixture(scope="session")
def packages(pyproject: dict[str, Any]) -> list[str]:
    listed: list[str] = pyproject["tool"]["setuptools"]["packages"]
    return listed
