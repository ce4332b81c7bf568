"""What a user installs: the packages of the five folders, and nothing else."""

import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path
from typing import Any

import tornlog


def test_every_folder_of_modules_is_a_package_and_says_what_is_in_it(packages: list[str], source: Path) -> None:
    for package in packages:
        init = source.joinpath(*package.split(".")[1:], "__init__.py")
        assert init.is_file(), package
        assert init.read_text().startswith('"""'), package


def test_a_wheel_holds_the_packages_their_type_marker_and_no_tests(
    wheel: Path, packages: list[str], source: Path, pyproject: dict[str, Any]
) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    shipped = {name for name in names if ".dist-info/" not in name}
    expected = {"tornlog/py.typed"}
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


def test_an_unpacked_wheel_is_tornlog_beside_folders_of_the_same_names(wheel: Path, tmp_path: Path) -> None:
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
        [sys.executable, "-I", "-S", "-c", script],
        cwd=project,
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
    )

    owners, ours = done.stdout.splitlines()
    assert owners == "the user of store|the user of sim|the user of tests"
    version, file, module = ours.split("|")
    assert version == tornlog.__version__
    assert Path(file) == tmp_path / "site" / "tornlog" / "__init__.py"
    assert module == "tornlog.store.message_store"
