"""Other Pythons: how they are found, and the virtual environment in which they run this code."""

import os
import sys
from pathlib import Path

import pytest

from tornlog.scenarios.campaigns import interpreters as module
from tornlog.scenarios.campaigns.interpreters import (
    InterpreterError,
    installed_pythons,
    python_version_of,
    requirements,
    witnesses_on,
)


def script(path: Path, *lines: str) -> str:
    path.write_text("\n".join(("#!/bin/sh", *lines)))
    path.chmod(0o755)
    return str(path)


def test_an_interpreter_reports_its_version_and_path() -> None:
    version, executable = python_version_of(sys.executable)
    assert version == ".".join(map(str, sys.version_info[:3]))
    assert Path(executable).exists()


def test_an_unsuitable_interpreter_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InterpreterError, match="No such file"):
        python_version_of(str(tmp_path / "none"))
    with pytest.raises(InterpreterError, match="exit status 3"):
        python_version_of(script(tmp_path / "broken", "exit 3"))
    with pytest.raises(InterpreterError, match=r"expected CPython 3\.11 or newer, found CPython 3\.9\.1"):
        python_version_of(script(tmp_path / "old", "echo 3 9 1 CPython /old"))
    with pytest.raises(InterpreterError, match=r"found PyPy 3\.11\.1"):
        python_version_of(script(tmp_path / "other", "echo 3 11 1 PyPy /other"))


def test_pythons_on_the_path_and_in_pyenv_are_found_once_per_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bin").mkdir()
    script(tmp_path / "bin" / "python3.13", "echo 3 13 0 CPython /a")
    script(tmp_path / "bin" / "python3.12", "exit 127")
    inside = tmp_path / "pyenv" / "versions" / "x" / "bin"
    inside.mkdir(parents=True)
    script(inside / "python3", "echo 3 12 11 CPython /b")
    other = tmp_path / "pyenv" / "versions" / "y" / "bin"
    other.mkdir(parents=True)
    script(other / "python3", "echo 3 13 0 CPython /c")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH'] and ''}")
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path / "pyenv"))
    assert installed_pythons() == ["/b", "/a"]


def test_another_python_runs_the_code_under_test(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "requirements", list)  # no download: the test only checks the link
    commands: list[list[str]] = []
    monkeypatch.setattr(module.subprocess, "run", lambda command, **_: commands.append(command))
    monkeypatch.setattr(module, "python_version_of", lambda python: ("3.99.0", python))
    with witnesses_on(["/some/python"]) as (witness,):
        assert witness.name == "Python 3.99.0"
        assert witness.path is not None
        assert Path(witness.path, "tornlog", "scenarios", "campaigns").samefile(Path(module.__file__).parent)
        assert commands[0][:3] == ["/some/python", "-m", "venv"]
        assert commands[1][0] == witness.python
        assert commands[1][1:4] == ["-m", "pip", "install"]
    assert not Path(witness.path).exists()


def test_without_other_pythons_no_virtual_environment_is_created() -> None:
    with witnesses_on([]) as witnesses:
        assert witnesses == []


def test_a_virtual_environment_that_cannot_be_created_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = script(
        tmp_path / "python", 'case "$1" in -c) echo 3 13 0 CPython "$0";; *) echo no venv >&2; exit 1;; esac'
    )
    with pytest.raises(InterpreterError, match=r"-m venv .*: no venv"), witnesses_on([python]):
        raise AssertionError("not reached")


def test_requirements_of_a_virtual_environment_exclude_extras() -> None:
    names = [line.partition(">")[0] for line in requirements()]
    assert {"greenlet", "isal"} <= set(names)
    assert not any("extra" in line for line in requirements())
