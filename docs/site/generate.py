"""Site generator: makes the pages of faults, promises, scenarios, mutants, commands and modules.

The module `gallery` in this folder generates the gallery's pages.

MkDocs calls `on_startup`, `on_files` and `on_post_page`; each page is a function that returns Markdown.
"""

import ast
from collections.abc import Callable, Iterable, Sequence
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import cast

import typer
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from typer.cli import get_docs_for_click
from typer.main import get_command

from tornlog.__main__ import application
from tornlog.faults.kinds import GROUPS, FaultKind
from tornlog.scenarios.claims.catalogue import SCENARIOS
from tornlog.scenarios.claims.disk_models import DISK_MODELS
from tornlog.scenarios.mutants import MUTANTS
from tornlog.scenarios.oracle.guarantees import PROMISED
from tornlog.scenarios.oracle.invariants import INVARIANTS
from tornlog.scenarios.oracle.invariants.fields import CHECKED, RUNS

ROOT = Path(__file__).parents[2]
FOLDERS = ("store", "sim", "faults", "scenarios", "reports")
MODULES = {
    "store": ("store", "store/formats", "store/filters", "store/delivery", "store/real", "store/tools"),
    "broker": ("store/broker", "store/broker/processors", "store/broker/acl", "store/replication"),
    "sim": ("sim", "sim/policies", "sim/network"),
    "faults-package": ("faults", "faults/crashes", "faults/simulation", "faults/devices", "faults/probe"),
    "scenarios-package": (
        "scenarios/testing",
        "scenarios/testing/strategies",
        "scenarios/campaigns/failures",
        "scenarios/oracle",
    ),
    "reports-package": (
        "reports/pipeline/spark",
        "reports/pipeline/source",
        "reports/pipeline/sweep",
        "reports/pipeline/analysis",
        "reports/pipeline/audit",
        "reports/pipeline/rebuild",
    ),
}
"""For each page, the directories whose modules it describes."""


def on_startup(**_: object) -> None:
    """Create a directory that has only the package, for mkdocstrings.

    mkdocstrings first scans everything below a package. The root of the checkout also has the libraries of the virtual
    environment, whose scan took three quarters of a build's time.
    """
    package = ROOT / "build/modules/tornlog"
    package.mkdir(parents=True, exist_ok=True)
    for path in (ROOT / "__init__.py", *(ROOT / folder for folder in FOLDERS)):
        link = package / path.name
        if not link.is_symlink():
            link.symlink_to(path)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the generated pages."""
    pages: dict[str, Callable[[], str]] = {
        "commands": commands,
        "scenarios": scenarios,
        "promises": promises,
        "faults": faults,
        "mutants": mutants,
        "formats": formats,
        "modules": every_module,
    }
    for name, page in pages.items():
        files.append(File.generated(config, f"reference/{name}.md", content=page()))
    for path, content in _gallery().pages().items():
        files.append(File.generated(config, path, content=content))
    for name, directories in MODULES.items():
        files.append(File.generated(config, f"reference/{name}.md", content=modules(name, directories)))
    return files


def on_post_page(output: str, **_: object) -> str:
    """Replace the script that Material's `offline` loads from another site: pages must work offline."""
    script = (ROOT / "docs/site/file_worker.js").read_text()
    page = output.replace('<script src="https://unpkg.com/iframe-worker/shim"></script>', f"<script>{script}</script>")
    assert "unpkg.com" not in page, "Material loads its script in another way"
    return page


def _gallery() -> ModuleType:
    """Import the module `gallery` by path, because MkDocs does not load a hook as part of a package."""
    spec = spec_from_file_location("gallery_pages", Path(__file__).with_name("gallery.py"))
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def commands() -> str:
    """Return the page of all commands with their arguments and options."""
    command = get_command(application())
    context = cast(typer.Context, command.make_context("tornlog", [], resilient_parsing=True))
    return get_docs_for_click(obj=command, ctx=context, name="tornlog", title="Commands")


def scenarios() -> str:
    """Return the page of scenarios and their claims."""
    rows = [(f"`{one.name}`", one.claim) for one in SCENARIOS.values()]
    return f"# Scenarios\n\n{_table(('scenario', 'claim'), rows)}"


def promises() -> str:
    """Return the page of invariants, with sentence, fields and disks."""
    disks = list(DISK_MODELS)
    kept = [(name, *(PROMISED[disk][name].value for disk in disks)) for name in INVARIANTS]
    meanings = [(f"`{one.name}`", one.meaning) for one in DISK_MODELS.values()]
    checked = [
        (name, ", ".join(one.fields), *("yes" if run in one.runs else "-" for run in RUNS))
        for name, one in CHECKED.items()
    ]
    return (
        f"# Promises\n\n{_table(('promise', 'what it says'), INVARIANTS.items())}\n\n"
        "## Which fields, in which runs\n\nRuns are of a store alone, a cluster, or brokers and their clients.\n\n"
        f"{_table(('promise', 'fields', *RUNS), checked)}\n\n"
        "## On which disk\n\n`intact`: of everything in front of the first damage. `-`: the disk has taken away what "
        f"the promise stands on.\n\n{_table(('promise', *disks), kept)}\n\n{_table(('disk', 'what it is'), meanings)}"
    )


def faults() -> str:
    """Return the page of faults, with cause, model and source."""
    parts = ["# Faults"]
    for group in GROUPS:
        kinds = [kind.row for kind in FaultKind if kind.row.group == group]
        models = [f"{row.model} (`{row.knob}`)" if row.knob else row.model for row in kinds]
        rows = [(row.name, row.meaning, row.cause, model, row.source) for row, model in zip(kinds, models, strict=True)]
        header = ("fault", "what it means", "what really happens", "how it is modelled", "source")
        parts.append(f"## {group}\n\n{_table(header, rows)}")
    return "\n\n".join(parts)


def mutants() -> str:
    """Return the page of mutants, the known bugs that can be put into the store."""
    rows = [(f"`{one.id}`", one.summary) for one in MUTANTS.values()]
    return f"# Mutants\n\n{_table(('mutant', 'the bug'), rows)}"


def formats() -> str:
    """Return the page of file formats, with the byte tables in the docstrings of their modules."""
    parts = ["# The files' formats\n\nWorked examples: [Formats, byte by byte](../formats.md)."]
    for path in sorted((ROOT / "store/formats").rglob("*.py")):
        text = ast.get_docstring(ast.parse(path.read_text())) or ""
        if path.name != "__init__.py" and "    offset" in text:
            parts.append(f"## {path.stem}\n\n```text\n{text}\n```")
    return "\n\n".join(parts)


def every_module() -> str:
    """Return the page with the first docstring line of every module, by folder."""
    parts = ["# Modules\n\nThe first line of each module: what it owns."]
    folders = [path for name in FOLDERS for path in (ROOT / name, *sorted((ROOT / name).rglob("*/")))]
    for folder in folders:
        lines = {path.stem: _first_line(path) for path in sorted(folder.glob("*.py"))}
        if lines:
            parts.append(f"## {folder.relative_to(ROOT)}\n\n{lines.pop('__init__', '')}")
        if lines:
            parts.append(_table(("module", "what it owns"), [(f"`{name}`", line) for name, line in lines.items()]))
    return "\n\n".join(parts)


def _first_line(path: Path) -> str:
    return (ast.get_docstring(ast.parse(path.read_text())) or "").partition("\n")[0]


def modules(name: str, directories: Iterable[str]) -> str:
    """Return a page with the docstrings of modules."""
    paths = [path for directory in directories for path in sorted((ROOT / directory).glob("*.py"))]
    documented = [path for path in paths if path.name not in ("__init__.py", "commands.py", "command.py")]
    names = [".".join(path.relative_to(ROOT).with_suffix("").parts) for path in documented]
    return "\n\n".join([f"# {name.removesuffix('-package')}", *(f"::: tornlog.{one}" for one in names)])


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines)
