import os
import re
import shlex
import subprocess
import sys
import sysconfig
import venv
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement

from tornlog.reports.pipeline.spark.engine import packages_of_executors
from tornlog.reports.pipeline.sweep.table import Table

_TABLES = "numpy"


@pytest.fixture(scope="module")
def first_way(source: Path) -> str:
    page = (source / "docs/cluster.md").read_text()
    begin = page.index("### The wheel, and the rest installed on the workers")
    return page[begin : page.index("\n### ", begin + 1)]


def packages_on(way: str) -> list[str]:
    (packages,) = re.findall(r"/bin/pip install (.*)", way)
    return list(packages.split())


def environment_with(names: list[str], place: Path) -> Path:
    """Create an environment with some installed packages and their requirements; return its Python."""
    venv.create(place, symlinks=True)
    target = Path(sysconfig.get_paths(vars={"base": str(place), "platbase": str(place)})["purelib"])
    wanted, linked = list(names), set[str]()
    while wanted:
        name = wanted.pop()
        if name in linked:
            continue
        linked.add(name)
        found = distribution(name)
        needs = (Requirement(line) for line in found.requires or ())
        wanted += [one.name for one in needs if one.marker is None or one.marker.evaluate({"extra": ""})]
        for top in {file.parts[0] for file in found.files or () if file.parts[0] not in ("..", "__pycache__")}:
            if not (target / top).exists():
                (target / top).symlink_to(str(found.locate_file(top)))
    return place / "bin" / "python"


def sweep_of(way: str, **changes: str) -> list[str]:
    """Return the command of the page with other values."""
    (command,) = re.findall(r"^\$ (tornlog sweep (?:.*\\\n)*.*)$", way, re.MULTILINE)
    for found, replaced in changes.items():
        assert found in command, command
        command = command.replace(found, replaced)
    return shlex.split(command.replace("\\\n", " "))


def test_the_cluster_page_lists_the_packages_that_executors_import(first_way: str) -> None:
    assert sorted(packages_on(first_way)) == sorted([*packages_of_executors(), _TABLES])


def test_the_cluster_page_states_the_required_spark_version(source: Path, pyproject: dict[str, Any]) -> None:
    (spark,) = (line for line in pyproject["project"]["optional-dependencies"]["spark"] if line.startswith("pyspark"))
    minimum = spark.removeprefix("pyspark>=")

    assert f"Spark of the driver's version, {minimum} or newer" in (source / "docs/cluster.md").read_text()


def test_the_driver_on_the_cluster_page_and_the_image_have_the_same_spark(source: Path) -> None:
    (on_driver,) = re.findall(r"pyspark==([\d.]+)", (source / "docs/cluster.md").read_text())

    assert f"ARG PYSPARK={on_driver}\n" in (source / "docs/cluster/Dockerfile").read_text()


@pytest.mark.slow
@pytest.mark.parametrize("lacking", [[], ["msgspec", "pyarrow"]], ids=["as written", "without two packages"])
def test_the_first_command_of_the_cluster_page_names_missing_packages(
    lacking: list[str], first_way: str, cluster: Any, wheel: Path, tmp_path: Path
) -> None:
    names = [name for name in packages_on(first_way) if name not in lacking]
    python = environment_with(names, tmp_path / "workers")
    changes = {
        "--seeds 1000": "--seeds 20 --scenario clean-shutdown",
        "file:///shared/sweep": f"file://{tmp_path}/sweep",
        "spark://head:7077": cluster.master,
        "dist/tornlog-*.whl": str(wheel),
    }

    result = subprocess.run(
        [sys.executable, "-m", *sweep_of(first_way, **changes)],
        env={**os.environ, "COLUMNS": "400", "PYSPARK_PYTHON": str(python)},
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=240,
    )

    if lacking:
        assert result.returncode == 2, result.stdout
        assert "executors lack msgspec, pyarrow: ship them, or install them" in result.stdout
    else:
        assert result.returncode == 0, result.stdout
        assert Table(str(tmp_path / "sweep")).read().num_rows == 20
