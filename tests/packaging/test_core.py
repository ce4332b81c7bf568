"""Core and extras: no core module imports an extra, and the core works in a tree without extras."""

import ast
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.packaging.test_imports import absolute_names, is_within, module_name, modules_of

EXTRAS = ("store/broker", "scenarios/runs/broker", "reports/pipeline", "reports/studies")
"""Rooms that the core does not need."""

FOR_EXTRAS = (
    "reports/cli/monitoring.py",
    "reports/cli/serve.py",
    "scenarios/campaigns/failures/request_texts.py",
    "scenarios/oracle/client_questions.py",
    "scenarios/oracle/registrations.py",
    *(
        f"scenarios/mutants/bugs/{name}.py"
        for name in (
            *("access", "answers", "broker_clients", "broker_settings", "brokers", "client_calls", "client_requests"),
            *(
                "group_changes",
                "late_answers",
                "name_servers",
                "operators",
                "pulls",
                "registration",
                "retries",
                "slaves",
            ),
        )
    ),
)
"""Modules in folders of the core that only extras use. The core does not import them either."""


def dotted(path: str) -> str:
    return f"tornlog.{path.removesuffix('.py').replace('/', '.')}"


def statements_at_import(body: list[ast.stmt]) -> Iterator[ast.Import | ast.ImportFrom]:
    """Yield the imports that run at import time: none in functions, none for type checkers."""
    for node in body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node
        elif not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not (
            isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        ):
            for name in ("body", "orelse", "finalbody", "handlers"):
                yield from statements_at_import(getattr(node, name, []))


def extras_imported(path: Path, source: Path) -> Iterator[str]:
    """Yield the extras that a module imports at import time."""
    module = module_name(path, source)
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    for node in statements_at_import(ast.parse(path.read_text()).body):
        for name in absolute_names(node, package):
            if any(is_within(name, dotted(extra)) for extra in (*EXTRAS, *FOR_EXTRAS)):
                yield f"{path}:{node.lineno}: imports {name}"


def is_in_core(path: Path, source: Path) -> bool:
    return not any(path.is_relative_to(source / extra) for extra in (*EXTRAS, *FOR_EXTRAS))


@pytest.fixture(scope="module")
def core(packages: list[str], source: Path) -> list[Path]:
    """Every module of the core."""
    return [path for path in modules_of(packages, source) if is_in_core(path, source)]


def test_every_extra_named_in_the_code_exists(source: Path) -> None:
    assert all((source / extra).exists() for extra in (*EXTRAS, *FOR_EXTRAS))


def test_no_core_module_imports_an_extra_at_import_time(core: list[Path], source: Path) -> None:
    assert len(core) > 400
    assert [found for path in core for found in extras_imported(path, source)] == []


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("from ..store.broker.limits import Limits", 1),
        ("from .runs import broker", 1),
        ("import tornlog.reports.pipeline.table", 1),
        ("try:\n    from ..reports import studies\nexcept ImportError:\n    pass", 1),
        ("class Late:\n    from ..store.broker import limits", 1),
        ("def late():\n    from ..store.broker import limits", 0),
        ("if TYPE_CHECKING:\n    from ..store.broker.limits import Limits", 0),
        ("from ..store import brokerage", 0),
    ],
)
def test_an_import_of_an_extra_at_import_time_is_detected(text: str, found: int, tmp_path: Path) -> None:
    path = tmp_path / "scenarios" / "module.py"
    path.parent.mkdir()
    path.write_text(text)

    assert len(list(extras_imported(path, tmp_path))) == found


@pytest.fixture(scope="module")
def core_alone(
    source: Path, core: list[Path], pyproject: dict[str, Any], tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """A directory for PYTHONPATH with only the core as `tornlog`."""
    root = tmp_path_factory.mktemp("core")
    data = pyproject["tool"]["setuptools"]["package-data"].items()
    folders = [(source.joinpath(*package.split(".")[1:]), patterns) for package, patterns in data]
    pages = [path for folder, patterns in folders for pattern in patterns for path in folder.glob(pattern)]
    for path in (*core, *(page for page in pages if is_in_core(page, source))):
        copy = root / "tornlog" / path.relative_to(source)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, copy)
    return root


@pytest.mark.ci
@pytest.mark.parametrize(
    "words",
    [
        ["list"],
        ["run", "--seeds", "1"],
        ["mutants", "ack-before-flush", "--narrowed"],
        ["fuzz", "checkpoint", "--inputs", "10"],
        ["config"],
        ["rebuild", "--help"],
    ],
    ids=" ".join,
)
def test_commands_of_the_core_work_without_extras(words: list[str], core_alone: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tornlog", *words],
        env={**os.environ, "PYTHONPATH": str(core_alone)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
