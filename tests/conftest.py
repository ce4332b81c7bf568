"""The source tree, what pyproject.toml says about it, and the wheel that is built from it."""

import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

_ROOT = Path(__file__).resolve().parents[1]


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


def is_installed(requirement: str) -> bool:
    """Return whether this environment has what a line of `build-system.requires` asks for."""
    wanted = Requirement(requirement)
    probe = f"from importlib.metadata import version; print(version({wanted.name!r}))"
    found = subprocess.run(
        [sys.executable, "-c", probe], capture_output=True, text=True, check=False, timeout=60
    )
    return found.returncode == 0 and Version(found.stdout.strip()) in wanted.specifier


def copy_of(source: Path, target: Path) -> Path:
    """Copy what a build sees, tests too: a build in place would leave its own traces, and find older ones."""
    left_out = shutil.ignore_patterns(".*", "__pycache__", "*.egg-info", "build", "dist", "out", "golden")
    shutil.copytree(source, target, ignore=left_out)
    return target


@pytest.fixture(scope="session")
def wheel(source: Path, pyproject: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel built from a copy of the source; without network where the environment has the build's needs."""
    tree = copy_of(source, tmp_path_factory.mktemp("build") / "tree")
    offline = all(is_installed(requirement) for requirement in pyproject["build-system"]["requires"])
    options = ["--no-isolation"] if offline else []
    target = tree.parent / "wheel"
    subprocess.run(
        [sys.executable, "-m", "build", "--wheel", *options, "--outdir", str(target), str(tree)],
        check=True,
        capture_output=True,
        timeout=300,
    )
    (built,) = target.glob("*.whl")
    return built
