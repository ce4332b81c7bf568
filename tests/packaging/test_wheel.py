"""The wheel and sdist: exactly the packages of the five folders."""

import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tornlog

pytestmark = pytest.mark.ci

CORES = {"tornlog/store/formats/native/_records.abi3.so"} | (
    {"tornlog/faults/probe/tracing/native/_stops.abi3.so"} if sys.platform == "linux" else set()
)
needs_compiler = pytest.mark.skipif(
    shutil.which("cc") is None and not os.environ.get("CI"), reason="no C compiler is there to build the core"
)


@needs_compiler
def test_one_wheel_supports_every_python_version(wheel: Path) -> None:
    assert "-cp311-abi3-" in wheel.name


def test_without_a_compiler_the_wheel_is_built_without_the_core(build: Callable[..., Path]) -> None:
    names = zipfile.ZipFile(build("wheel", CC="false")).namelist()

    assert "tornlog/store/formats/columns.py" in names
    assert not CORES & {*names}


@needs_compiler
def test_an_sdist_contains_the_sources_of_the_core(build: Callable[..., Path], tmp_path: Path) -> None:
    with tarfile.open(build("sdist")) as tar:
        tar.extractall(tmp_path, filter="data")
    (tree,) = tmp_path.iterdir()

    assert {*zipfile.ZipFile(build("wheel", tree)).namelist()} >= CORES


def test_every_folder_with_modules_is_a_documented_package(packages: list[str], source: Path) -> None:
    for package in packages:
        init = source.joinpath(*package.split(".")[1:], "__init__.py")
        assert init.is_file(), package
        assert init.read_text().startswith('"""'), package


@needs_compiler
def test_a_wheel_contains_packages_py_typed_and_core_but_no_tests(
    wheel: Path, packages: list[str], source: Path, pyproject: dict[str, Any]
) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    shipped = {name for name in names if ".dist-info/" not in name}
    expected = {"tornlog/py.typed", *CORES}
    for package in packages:
        below = Path(*package.split(".")[1:])
        expected |= {f"tornlog/{(below / path.name).as_posix()}" for path in (source / below).glob("*.py")}

    expected.remove("tornlog/setup.py")

    for package, patterns in pyproject["tool"]["setuptools"]["package-data"].items():
        below = Path(*package.split(".")[1:])
        data = {path for pattern in patterns for path in (source / below).glob(pattern)}
        assert data, package
        expected |= {f"tornlog/{path.relative_to(source).as_posix()}" for path in data}

    assert shipped == expected
    assert not [name for name in shipped if "test" in Path(name).parts[1:2]]
    assert any(name.endswith("dist-info/licenses/LICENSE") for name in names)


def test_a_wheel_works_beside_folders_with_the_same_names(wheel: Path, tmp_path: Path) -> None:
    zipfile.ZipFile(wheel).extractall(tmp_path / "site")
    project = tmp_path / "project"
    for name in ("store", "sim", "tests"):
        (project / name).mkdir(parents=True)
        (project / name / "__init__.py").write_text(f"OWNER = 'the user of {name}'\n")
    # Without `site` no path of an editable install comes in; dependencies are found where pip has put them.
    script = f"""
import sys
sys.path[:0] = [{str(project)!r}, {str(tmp_path / "site")!r}, {sysconfig.get_paths()["purelib"]!r}]
import store, sim, tests
import tornlog, tornlog.__main__
from tornlog.scenarios.runs.store_run import Run
from tornlog.store.message_store import MessageStore
from tornlog.store.real.world import real_world
print(store.OWNER, sim.OWNER, tests.OWNER, sep="|")
print(tornlog.__version__, tornlog.__file__, MessageStore.__module__, sep="|")
"""
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", script], cwd=project, check=True, capture_output=True, text=True, timeout=60
    )

    owners, ours = done.stdout.splitlines()
    assert owners == "the user of store|the user of sim|the user of tests"
    version, file, module = ours.split("|")
    assert version == tornlog.__version__
    assert Path(file) == tmp_path / "site" / "tornlog" / "__init__.py"
    assert module == "tornlog.store.message_store"
