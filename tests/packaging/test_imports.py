"""The allowed imports between packages, checked on every shipped module."""

import ast
import tomllib
from collections.abc import Callable, Iterator
from fnmatch import fnmatch
from functools import cache
from pathlib import Path
from typing import Any

import pytest

ALLOWED = {
    "tornlog.store": ("tornlog.store",),
    "tornlog.store.formats": ("tornlog.store.formats", "tornlog.store.errors"),
    "tornlog.sim": ("tornlog.sim",),
    "tornlog.faults": ("tornlog.faults", "tornlog.sim"),
    "tornlog.scenarios": ("tornlog.scenarios", "tornlog.sim", "tornlog.store", "tornlog.faults"),
    "tornlog.reports": ("tornlog.reports", "tornlog.scenarios", "tornlog.faults", "tornlog.sim", "tornlog.store"),
    **{
        f"tornlog.reports.{folder}": (
            "tornlog.reports",
            "tornlog.scenarios",
            "tornlog.faults.simulation.failure_text",
            "tornlog.faults.simulation.prose",
            "tornlog.store.formats",
            "tornlog.store.errors",
        )
        for folder in ("html", "plotting")
    },
    "tornlog.reports.results": ("tornlog.reports", "tornlog.scenarios", "tornlog.faults.simulation"),
    "tornlog.reports.pipeline": (
        "tornlog.reports",
        "tornlog.scenarios",
        "tornlog.faults.simulation.failure_text",
        "tornlog.faults.simulation.prose",
        "tornlog.sim.interruption",
        "tornlog.sim.process",
        "tornlog.store.formats",
        "tornlog.store.real.native",  # Spark tasks read real files, with the core in C
        "tornlog.store.errors",
    ),
    "tornlog.reports.pipeline.audit": (  # the store's own verifier, on the real world's files
        "tornlog.reports",
        "tornlog.store.tools",
        "tornlog.store.real",
        "tornlog.store.world",
    ),
    "tornlog.reports.pipeline.source.queue_entries": (  # queue entries of a record, as dispatch makes them
        "tornlog.reports",
        "tornlog.store.formats",
        "tornlog.store.formats.messages",
        "tornlog.store.queues",
    ),
    "tornlog.reports.pipeline.probing": (
        "tornlog.reports",
        "tornlog.faults",
        "tornlog.sim",
    ),  # the cli's probe in tasks
    "tornlog.reports.pipeline.rebuild": (
        "tornlog.reports",
        "tornlog.store",
    ),  # the files of the store's recovery, in parts
}
"""Package -> the packages that its modules may import. The longest matching name counts."""

SCENARIOS = ("claims", "oracle", "workload", "runs", "mutants", "campaigns", "fuzz", "testing")
"""The folders of scenarios. Each may import only the folders before it."""

STORE = (
    "formats",
    "base",  # modules of `store/` itself, except those of the next set
    "real",
    "log",
    "filters",
    "index",
    "queues",
    "recovery",
    "delivery",
    "retention",
    "message_store",
    "services",
    "replication",
    "settings",
    "tools",
    "broker",
)
"""The folders of the store. Each may import only the folders before it."""

WHOLE_STORE = {"message_store", "plugins", "runtime_info"}
"""Modules of `store/` itself that join its folders."""

BANNED_IN = ("sim", "store", "faults", "scenarios", "reports/studies")
"""Folders with code that runs in simulations."""

OUTSIDE = ("os", "mmap", "threading", "time", "socket", "random")
"""Modules for outside access that every ban must name."""


def module_name(path: Path, source: Path) -> str:
    parts = ("tornlog", *path.relative_to(source).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def modules_of(packages: list[str], source: Path) -> list[Path]:
    return [path for package in packages for path in sorted(source.joinpath(*package.split(".")[1:]).glob("*.py"))]


@cache
def imported_names(text: str, package: str) -> list[tuple[int, str]]:
    """Return line and absolute name of every import of a module of that package, at any depth."""
    return list(_imported_names(text, package))


def _imported_names(text: str, package: str) -> Iterator[tuple[int, str]]:
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield from ((node.lineno, name) for name in absolute_names(node, package))


def absolute_names(node: ast.Import | ast.ImportFrom, package: str) -> Iterator[str]:
    """Yield the absolute names that one import in a module of that package brings."""
    base = ""
    if isinstance(node, ast.ImportFrom):
        above = package.split(".")[: len(package.split(".")) + 1 - node.level] if node.level else []
        base = ".".join([*above, *(node.module or "").split(".")]).rstrip(".") + "."
    yield from (f"{base}{alias.name}" for alias in node.names)


def is_within(name: str, package: str) -> bool:
    return f"{name}.".startswith(f"{package}.")


def forbidden_imports(path: Path, source: Path) -> Iterator[str]:
    module = module_name(path, source)
    home = max((name for name in ALLOWED if is_within(module, name)), key=len, default=None)
    if home is None:
        return  # the root only assembles
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    for line, name in imported_names(path.read_text(), package):
        ours = is_within(name, "tornlog") and name != "tornlog.__version__"
        if ours and not any(is_within(name, allowed) for allowed in ALLOWED[home]):
            yield f"{path}:{line}: {home} imports {name}"


def banned_imports(path: Path, source: Path, banned: set[str]) -> Iterator[str]:
    package = module_name(path, source).rpartition(".")[0]
    for line, name in imported_names(path.read_text(), package):
        if any(is_within(name, module) for module in banned):
            yield f"{path}:{line}: imports {name}"


def banned_and_exempt_modules(source: Path) -> tuple[list[Path], list[Path]]:
    """Return modules under the ban of a folder's ruff.toml, and those exempt from it, read as ruff does."""
    bound: list[Path] = []
    exempt: list[Path] = []
    for folder in BANNED_IN:
        lint = tomllib.loads((source / folder / "ruff.toml").read_text())["lint"]
        assert lint["extend-select"] == ["TID251"]
        patterns = lint["extend-per-file-ignores"]
        for path in sorted((source / folder).rglob("*.py")):
            relative = path.relative_to(source / folder).as_posix()
            lifted = any(fnmatch(relative, one) or fnmatch(f"/{relative}", f"/{one}") for one in patterns)
            (exempt if lifted else bound).append(path)
    return bound, exempt


def test_every_module_imports_only_allowed_packages(packages: list[str], source: Path) -> None:
    modules = modules_of(packages, source)

    assert len(modules) > 80
    assert [arrow for path in modules for arrow in forbidden_imports(path, source)] == []


def store_group(module: str) -> str:
    """Return the folder of a module or name of the store, or its group if it is in `store/` itself."""
    part = module.split(".")[2]
    if part in STORE and part not in WHOLE_STORE:
        return part
    return "message_store" if part in WHOLE_STORE else "base"


def scenario_folder(module: str) -> str:
    """Return the folder of a module or name of scenarios."""
    return module.split(".")[2]


@pytest.mark.parametrize(
    ("top", "folder_of", "order"),
    [("tornlog.store", store_group, STORE), ("tornlog.scenarios", scenario_folder, SCENARIOS)],
)
def test_no_package_imports_one_listed_after_it(
    top: str, folder_of: Callable[[str], str], order: tuple[str, ...], packages: list[str], source: Path
) -> None:
    found = set()
    folders = set()
    for path in modules_of([name for name in packages if is_within(name, top)], source):
        module = module_name(path, source)
        if module == top:
            continue
        package = module if path.name == "__init__.py" else module.rpartition(".")[0]
        folder = folder_of(module)
        folders.add(folder)
        for line, name in imported_names(path.read_text(), package):
            # `errors` belongs to no folder, because formats raise its exceptions.
            if is_within(name, top) and name != top and not is_within(name, "tornlog.store.errors"):
                other = folder_of(name)
                if order.index(other) > order.index(folder):
                    found.add(f"{module}:{line}: {folder} imports {other}")

    assert folders == set(order), "the order lists exactly the folders that exist"
    assert found == set()


def imports_of(modules: list[Path], source: Path) -> dict[str, set[str]]:
    """Return which modules each of them imports, at any depth, also for type checkers alone."""
    known = {module_name(path, source): path for path in modules}
    found: dict[str, set[str]] = {}
    for module, path in known.items():
        package = module if path.name == "__init__.py" else module.rpartition(".")[0]
        names = {name for _, name in imported_names(path.read_text(), package)}
        found[module] = {name if name in known else name.rpartition(".")[0] for name in names} & known.keys()
    return found


def import_cycles(imports: dict[str, set[str]]) -> list[list[str]]:
    """Return the modules that import themselves through others, those of one circle together."""

    def reached(start: str) -> set[str]:
        seen: set[str] = set()
        ahead = list(imports[start])
        while ahead:
            if (module := ahead.pop()) not in seen:
                seen.add(module)
                ahead += imports[module]
        return seen

    below = {module: reached(module) for module in imports}
    ways_back = {frozenset(one for one in below[module] if module in below[one]) for module in imports}
    return sorted(sorted(circle) for circle in ways_back if circle)


def test_no_modules_import_each_other_in_a_cycle(packages: list[str], source: Path) -> None:
    imports = imports_of(modules_of(packages, source), source)

    assert sum(map(len, imports.values())) > 1000
    assert import_cycles(imports) == []


def test_a_cycle_of_type_checking_imports_is_detected(tmp_path: Path) -> None:
    written = {
        "kernel.py": "from .task import Task",
        "task.py": "if TYPE_CHECKING:\n    from . import trace",
        "trace.py": "def late() -> None:\n    from .kernel import Kernel",
        "digest.py": "from .trace import Trace",
    }
    for name, text in written.items():
        (tmp_path / name).write_text(text)

    found = import_cycles(imports_of([tmp_path / name for name in written], tmp_path))
    assert found == [["tornlog.kernel", "tornlog.task", "tornlog.trace"]]


def test_every_package_has_a_list_of_allowed_imports(packages: list[str]) -> None:
    for package in packages[1:]:
        assert any(is_within(package, name) for name in ALLOWED), package


def test_only_exceptions_in_ruff_toml_use_banned_modules(source: Path, pyproject: dict[str, Any]) -> None:
    banned = set(pyproject["tool"]["ruff"]["lint"]["flake8-tidy-imports"]["banned-api"])
    bound, _ = banned_and_exempt_modules(source)

    assert banned.issuperset(OUTSIDE)
    assert len(bound) > 300
    assert [leak for path in bound for leak in banned_imports(path, source, banned)] == []


def test_the_exceptions_from_banned_imports_are_few(source: Path) -> None:
    _, exempt = banned_and_exempt_modules(source)

    in_simulation = [
        path
        for path in (one.relative_to(source).as_posix() for one in exempt)
        if path.startswith(("store/", "sim/", "faults/"))
        and "/real/" not in path
        and "/probe/" not in path  # real programs, and real checks of their crash images
    ]
    assert set(in_simulation) <= {"sim/choices.py", "sim/guard.py", "faults/disk/export.py"}


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
        ("reports/html/page.py", "from ...store.commit_log import CommitLog", "tornlog.store.commit_log.CommitLog"),
    ],
)
def test_each_form_of_a_forbidden_import_is_detected(where: str, text: str, found: str, tmp_path: Path) -> None:
    path = tmp_path / where
    path.parent.mkdir(parents=True)
    path.write_text(text)

    arrows = list(forbidden_imports(path, tmp_path))
    assert len(arrows) == 1
    assert arrows[0].endswith(f" imports {found}")


@pytest.mark.parametrize(
    ("where", "text"),
    [
        ("store/log.py", "from .formats import message\nfrom . import world\nimport struct"),
        ("store/dump.py", "from .. import __version__"),
        ("store/formats/crc.py", "from ..errors import CorruptFileError\nfrom .message import x"),
        ("store/formats/crc.py", "from .. import errors"),
        ("faults/disk.py", "from ..sim.kernel import Kernel"),
        ("scenarios/run.py", "from ..store import world\nfrom ..faults.disk import Disk\nfrom ..sim import task"),
        ("reports/sweep.py", "from ..scenarios.run import Outcome\nfrom ..store.formats import message"),
        ("__main__.py", "from .reports.cli import run\nfrom .store import commands"),
    ],
)
def test_an_allowed_import_is_accepted(where: str, text: str, tmp_path: Path) -> None:
    path = tmp_path / where
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)

    assert list(forbidden_imports(path, tmp_path)) == []


@pytest.mark.parametrize("text", ["import os.path", "from time import time", "import threading as t"])
def test_each_form_of_a_banned_import_is_detected(text: str, tmp_path: Path) -> None:
    path = tmp_path / "log.py"
    path.write_text(text)

    assert len(list(banned_imports(path, tmp_path, set(OUTSIDE)))) == 1
