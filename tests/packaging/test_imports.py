"""Who may import whom, checked on every module that is shipped."""

import ast
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest

ALLOWED = {
    "tornlog.store": ("tornlog.store",),
    "tornlog.store.formats": ("tornlog.store.formats", "tornlog.store.errors"),
    "tornlog.sim": ("tornlog.sim",),
    "tornlog.faults": ("tornlog.faults", "tornlog.sim"),
    "tornlog.scenarios": ("tornlog.scenarios", "tornlog.sim", "tornlog.store", "tornlog.faults"),
    "tornlog.reports": (
        "tornlog.reports",
        "tornlog.scenarios",
        "tornlog.store.formats",
        "tornlog.store.errors",
    ),
}
"""What the modules below a name may import of ours; the longest name that fits a module counts."""

OUTSIDE = ("os", "mmap", "threading", "time", "socket", "random")
"""Doors to the outside that a ban must name, whatever else it names."""


def module_name(path: Path, source: Path) -> str:
    parts = ("tornlog", *path.relative_to(source).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def modules_of(packages: list[str], source: Path) -> list[Path]:
    return [
        path for package in packages for path in sorted(source.joinpath(*package.split(".")[1:]).glob("*.py"))
    ]


def imported_names(text: str, package: str) -> Iterator[tuple[int, str]]:
    """Yield the line and the absolute name of everything a module of that package imports, at any depth."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) + 1 - node.level] if node.level else []
            base = ".".join([*above, *(node.module or "").split(".")]).rstrip(".")
            yield from ((node.lineno, f"{base}.{alias.name}") for alias in node.names)


def is_within(name: str, package: str) -> bool:
    return f"{name}.".startswith(f"{package}.")


def wrong_arrows(path: Path, source: Path) -> Iterator[str]:
    module = module_name(path, source)
    home = max((name for name in ALLOWED if is_within(module, name)), key=len, default=None)
    if home is None:
        return  # the root only assembles
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    for line, name in imported_names(path.read_text(), package):
        ours = is_within(name, "tornlog") and name != "tornlog.__version__"
        if ours and not any(is_within(name, allowed) for allowed in ALLOWED[home]):
            yield f"{path}:{line}: {home} imports {name}"


def reaches_outside(path: Path, source: Path, banned: set[str]) -> Iterator[str]:
    package = module_name(path, source).rpartition(".")[0]
    for line, name in imported_names(path.read_text(), package):
        if any(is_within(name, module) for module in banned):
            yield f"{path}:{line}: imports {name}"


def exempt_from_ban(path: Path, source: Path, per_file_ignores: dict[str, list[str]]) -> bool:
    """Return whether ruff's per-file-ignores lift the ban for a file, read as ruff reads them."""
    relative = path.relative_to(source).as_posix()
    return any(
        "TID251" in codes and (fnmatch(relative, pattern) or fnmatch(f"/{relative}", pattern))
        for pattern, codes in per_file_ignores.items()
    )


def test_no_module_imports_against_the_arrows(packages: list[str], source: Path) -> None:
    modules = modules_of(packages, source)

    assert len(modules) > 80
    assert [arrow for path in modules for arrow in wrong_arrows(path, source)] == []


def test_every_package_has_its_arrows(packages: list[str]) -> None:
    for package in packages[1:]:
        assert any(is_within(package, name) for name in ALLOWED), package


def test_only_the_files_that_pyproject_names_reach_outside(
    packages: list[str], source: Path, pyproject: dict[str, Any]
) -> None:
    lint = pyproject["tool"]["ruff"]["lint"]
    banned = set(lint["flake8-tidy-imports"]["banned-api"])
    ignores = lint["per-file-ignores"]
    modules = modules_of(packages, source)
    bound = [path for path in modules if not exempt_from_ban(path, source, ignores)]

    assert banned.issuperset(OUTSIDE)
    assert len(bound) > 80
    assert [leak for path in bound for leak in reaches_outside(path, source, banned)] == []


def test_no_exception_from_the_ban_covers_more_than_the_doors_themselves(
    packages: list[str], source: Path, pyproject: dict[str, Any]
) -> None:
    ignores = pyproject["tool"]["ruff"]["lint"]["per-file-ignores"]
    exempt = [
        path.relative_to(source).as_posix()
        for path in modules_of(packages, source)
        if exempt_from_ban(path, source, ignores)
    ]

    in_simulation = [
        path
        for path in exempt
        if path.startswith(("store/", "sim/", "faults/"))
        and "/real/" not in path
        and "/recording/" not in path  # in the process of a program that is probed
    ]
    assert set(in_simulation) <= {
        "store/commands.py",
        "store/broker/commands.py",
        "sim/choices.py",
        "sim/doors.py",
        "sim/guard.py",
        "faults/export.py",
    }


@pytest.mark.parametrize(
    ("where", "text", "found"),
    [
        ("store/log.py", "from ..sim.kernel import Kernel", "tornlog.sim.kernel.Kernel"),
        ("store/log.py", "from .. import faults", "tornlog.faults"),
        ("store/log.py", "import tornlog.sim", "tornlog.sim"),
        ("store/log.py", "def late() -> None:\n    from ..faults import disk", "tornlog.faults.disk"),
        ("store/__init__.py", "from ..sim import kernel", "tornlog.sim.kernel"),
        ("store/formats/crc.py", "from ..world import World", "tornlog.store.world.World"),
        ("store/formats/crc.py", "from .. import config", "tornlog.store.config"),
        ("sim/kernel.py", "from tornlog.store import world", "tornlog.store.world"),
        ("faults/disk.py", "from ..store.world import Files", "tornlog.store.world.Files"),
        ("scenarios/run.py", "from ..reports import latency", "tornlog.reports.latency"),
        (
            "reports/sweep.py",
            "from ..store.commit_log import CommitLog",
            "tornlog.store.commit_log.CommitLog",
        ),
    ],
)
def test_a_wrong_arrow_is_found_however_it_is_written(
    where: str, text: str, found: str, tmp_path: Path
) -> None:
    path = tmp_path / where
    path.parent.mkdir(parents=True)
    path.write_text(text)

    arrows = list(wrong_arrows(path, tmp_path))
    assert len(arrows) == 1
    assert arrows[0].endswith(f" imports {found}")


@pytest.mark.parametrize(
    ("where", "text"),
    [
        ("store/log.py", "from .formats import message\nfrom . import world\nimport struct"),
        ("store/commands.py", "from .. import __version__"),
        ("store/formats/crc.py", "from ..errors import CorruptFileError\nfrom .message import x"),
        ("store/formats/crc.py", "from .. import errors"),
        ("faults/disk.py", "from ..sim.kernel import Kernel"),
        (
            "scenarios/run.py",
            "from ..store import world\nfrom ..faults.disk import Disk\nfrom ..sim import task",
        ),
        ("reports/sweep.py", "from ..scenarios.run import Outcome\nfrom ..store.formats import message"),
        ("__main__.py", "from .scenarios import commands\nfrom .store import commands"),
    ],
)
def test_a_right_arrow_is_left_alone(where: str, text: str, tmp_path: Path) -> None:
    path = tmp_path / where
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)

    assert list(wrong_arrows(path, tmp_path)) == []


@pytest.mark.parametrize("text", ["import os.path", "from time import time", "import threading as t"])
def test_a_door_to_the_outside_is_found_however_it_is_written(text: str, tmp_path: Path) -> None:
    path = tmp_path / "log.py"
    path.write_text(text)

    assert len(list(reaches_outside(path, tmp_path, set(OUTSIDE)))) == 1
