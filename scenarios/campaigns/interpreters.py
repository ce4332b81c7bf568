"""Interpreters: run this package in other Python versions on this machine.

Each interpreter gets a temporary virtual environment with this package's requirements and a link to this package. So
exactly this code runs, without a build.
"""

import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import requires
from pathlib import Path
from tempfile import TemporaryDirectory

from .determinism import WitnessProcess

OLDEST = (3, 11)
_ASK = "import platform, sys; print(*sys.version_info[:3], platform.python_implementation(), sys.executable)"


class InterpreterError(Exception):
    """A Python interpreter cannot run this package."""


def installed_pythons() -> list[str]:
    """Return one executable for each Python version from 3.11 on, found in PATH or pyenv."""
    found: dict[str, str] = {}
    for candidate in _candidate_executables():
        try:
            version, executable = python_version_of(str(candidate))
        except InterpreterError:
            continue  # too old, or a shim of a version that is not installed
        found.setdefault(version, executable)
    return [found[version] for version in sorted(found, key=lambda text: [int(n) for n in text.split(".")])]


def _candidate_executables() -> Iterator[Path]:
    folders = [Path(folder) for folder in os.environ.get("PATH", "").split(os.pathsep) if folder]
    for folder in folders:
        yield from sorted(folder.glob("python3.[0-9][0-9]"))
    root = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    yield from sorted((root / "versions").glob("*/bin/python3"))


def python_version_of(python: str) -> tuple[str, str]:
    """Return version and executable. Raises InterpreterError if the interpreter is unusable."""
    try:
        done = subprocess.run([python, "-c", _ASK], capture_output=True, text=True, check=True, timeout=60)
    except OSError as error:
        raise InterpreterError(f"{python}: expected a Python to start, found: {error.strerror}") from error
    except subprocess.SubprocessError as error:
        raise InterpreterError(f"{python}: {error}") from error
    major, minor, micro, kind, executable = done.stdout.split(maxsplit=4)
    version = f"{major}.{minor}.{micro}"
    if kind != "CPython" or (int(major), int(minor)) < OLDEST:
        wanted = ".".join(map(str, OLDEST))
        raise InterpreterError(f"{python}: expected CPython {wanted} or newer, found {kind} {version}")
    return version, executable.strip()


@contextmanager
def witnesses_on(pythons: Sequence[str]) -> Iterator[list[WitnessProcess]]:
    """Yield a witness for each Python. Raises InterpreterError."""
    with TemporaryDirectory(prefix="tornlog-pythons-") as scratch:
        path = _link_package(Path(scratch)) if pythons else None
        witnesses = []
        for number, python in enumerate(pythons):
            version, executable = python_version_of(python)
            inside = _create_environment(executable, Path(scratch) / str(number))
            witnesses.append(WitnessProcess(f"Python {version}", inside, hash_seed=1 + number, path=path))
        yield witnesses


def _create_environment(python: str, directory: Path) -> str:
    executable = directory / "bin" / "python"
    install = [str(executable), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    for command in ([python, "-m", "venv", str(directory)], [*install, *requirements()]):
        try:
            subprocess.run(command, capture_output=True, text=True, check=True)
        except subprocess.CalledProcessError as error:
            raise InterpreterError(f"{' '.join(command)}: {error.stderr or error.stdout}") from error
    return str(executable)


def requirements() -> list[str]:
    return [line for line in requires("tornlog") or () if "extra ==" not in line]


def _link_package(directory: Path) -> str:
    place = directory / "path"
    place.mkdir()
    place.joinpath("tornlog").symlink_to(Path(__file__).parents[2], target_is_directory=True)
    return str(place)
