import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tornlog.reports.pipeline.spark import session
from tornlog.reports.pipeline.spark.session import NoJavaError, java_home

MakeJava = Callable[..., Path]


@pytest.fixture
def make_java(tmp_path: Path) -> MakeJava:
    """Return a function that creates a Java of a version, which prints its arguments."""

    def make(version: str, name: str = "java") -> Path:
        home = tmp_path / name
        (home / "bin").mkdir(parents=True)
        (home / "release").write_text(f'IMPLEMENTOR="nobody"\nJAVA_VERSION="{version}"\n')
        java = home / "bin" / "java"
        java.write_text('#!/bin/sh\nfor one do echo "[$one]"; done\n')
        java.chmod(0o755)
        return home

    return make


@pytest.fixture(autouse=True)
def no_wheel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "_bundled_jdk", lambda: None)


def run_java(home: Path, *arguments: str) -> list[str]:
    command = [str(home / "bin" / "java"), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()


def test_a_suitable_java_is_started_without_the_module_argument(make_java: MakeJava, tmp_path: Path) -> None:
    environment = {"JAVA_HOME": str(make_java("17.0.15")), "HOME": str(tmp_path)}

    home = java_home(environment)

    arguments = ("-cp", "a b", "--add-modules=jdk.incubator.vector", "--add-modules=other", "", "Main")
    assert run_java(home, *arguments) == ["[-cp]", "[a b]", "[--add-modules=other]", "[]", "[Main]"]
    assert java_home(environment) == home


def test_without_a_suitable_java_home_the_java_on_the_path_is_used(make_java: MakeJava, tmp_path: Path) -> None:
    old, new = make_java("1.8.0_402", "old"), make_java("21.0.2", "new")
    environment = {"JAVA_HOME": str(old), "PATH": str(new / "bin"), "HOME": str(tmp_path)}

    assert f"{new}/bin/java" in (java_home(environment) / "bin" / "java").read_text()


def test_without_a_suitable_java_on_the_system_that_of_the_wheel_is_used(
    monkeypatch: pytest.MonkeyPatch, make_java: MakeJava, tmp_path: Path
) -> None:
    wheel = make_java("25.0.2", "wheel")
    monkeypatch.setattr(session, "_bundled_jdk", lambda: wheel)
    environment = {"JAVA_HOME": str(make_java("11.0.2", "old")), "PATH": "", "HOME": str(tmp_path)}

    assert f"{wheel}/bin/java" in (java_home(environment) / "bin" / "java").read_text()


def test_without_any_java_the_error_names_the_examined_directories(make_java: MakeJava, tmp_path: Path) -> None:
    with pytest.raises(NoJavaError, match="found none"):
        java_home({"PATH": "", "HOME": str(tmp_path)})

    old = make_java("11.0.2")
    with pytest.raises(NoJavaError, match=rf"needs Java 17, 21, 25, found {old} \(Java 11.0.2\)"):
        java_home({"JAVA_HOME": str(old), "PATH": "", "HOME": str(tmp_path)})
    (old / "release").unlink()
    with pytest.raises(NoJavaError, match="of unknown version"):
        java_home({"JAVA_HOME": str(old), "PATH": "", "HOME": str(tmp_path)})


def test_the_shim_is_stored_in_the_cache_directory_of_the_user(make_java: MakeJava, tmp_path: Path) -> None:
    java = {"JAVA_HOME": str(make_java("17.0.1"))}
    (tmp_path / "home").mkdir()

    assert java_home({**java, "XDG_CACHE_HOME": str(tmp_path / "x")}).parent == tmp_path / "x" / "tornlog"
    at_home = java_home({**java, "HOME": str(tmp_path / "home")})
    assert at_home.parent == tmp_path / "home" / ".cache" / "tornlog"
    nowhere = java_home({**java, "HOME": str(tmp_path / "missing")})
    assert nowhere.parent.name == f"tornlog-{os.getuid()}"
