"""Installation of gallery programs with the clients of their registries, into a user cache.

pip, go, cargo, npm and Maven write only to the cache. Debian packages are installed only on request; otherwise the
error names the missing packages.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from tempfile import mkdtemp

from tests.conformance.maven import VERSIONS, JavaMissing, java_program, real_store_sources

from .rows import COMMON, Row

_SECONDS_MAX = 1200
_SHOWN_MAX = 300


class NotInstalled(Exception):
    """Raised for a missing program. The message names the remedy."""


@dataclass(frozen=True, slots=True)
class InstalledProgram:
    """A runnable program. command: precedes `write`, `make`, `check` or `version`; environment: added variables."""

    command: list[str]
    environment: Mapping[str, str] = field(default_factory=dict)

    def version(self) -> str:
        """Return the program's version."""
        return _run([*self.command, "version"], env={**os.environ, **self.environment}).strip()


def install(row: Row, *, by_apt: bool = False) -> InstalledProgram:
    """Return a row's program, fetching and building it if necessary. Raises NotInstalled."""
    missing = [name for name in row.commands if shutil.which(name) is None]
    if row.apt and by_apt and (missing or not row.commands):
        _run(
            ["apt-get", "install", "--yes", "--quiet", *row.apt],
            env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"},
        )
        missing = [name for name in row.commands if shutil.which(name) is None]
    if missing:
        raise NotInstalled(f"{', '.join(missing)}: not on the PATH; {_by_apt(row) or 'install it'}")
    try:
        return _RUNTIMES[row.runtime](row)
    except NotInstalled as error:
        raise NotInstalled("; ".join(filter(None, [str(error), _by_apt(row)]))) from error


def _by_apt(row: Row) -> str:
    return f"apt-get install {' '.join(row.apt)}, or --apt, brings it" if row.apt else ""


def _python(row: Row) -> InstalledProgram:
    paths = [str(COMMON / "python")]
    if row.packages:
        site = _cache(row) / f"site-{_digest([sys.version, *row.packages])}"
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        _make_whole(site, lambda target: _run([*pip, "--target", str(target), *row.packages]))
        paths.append(str(site))
    paths += [path for path in [os.environ.get("PYTHONPATH")] if path]  # it may lead to the recorder
    environment = {"PYTHONPATH": os.pathsep.join(paths), "PYTHONDONTWRITEBYTECODE": "1"}
    return InstalledProgram([sys.executable, str(row.folder / "program.py")], environment)


def _go(row: Row) -> InstalledProgram:
    program = _cache(row) / "program"
    _run([_tool("go"), "build", "-o", str(program), "."], cwd=row.folder)
    return InstalledProgram([str(program)])


def _rust(row: Row) -> InstalledProgram:
    target = _cache(row) / "target"
    build = [_tool("cargo"), "build", "--quiet", "--release", "--locked", "--target-dir", str(target)]
    _run(build, cwd=row.folder, env={**os.environ, "CARGO_PROFILE_RELEASE_DEBUG": "1"})  # source lines of stacks
    return InstalledProgram([str(target / "release" / "program")])


def _node(row: Row) -> InstalledProgram:
    modules = _cache(row) / f"modules-{_digest(row.packages)}"
    npm = [_tool("npm"), "install", "--silent", "--no-audit", "--no-fund", "--no-save"]
    _make_whole(modules, lambda target: _run([*npm, "--prefix", str(target), *row.packages]))
    paths = [str(COMMON / "node"), str(modules / "node_modules")]
    return InstalledProgram([_tool("node"), str(row.folder / "program.js")], {"NODE_PATH": os.pathsep.join(paths)})


def _java(row: Row) -> InstalledProgram:
    folders, packages, sources = [COMMON / "java", row.folder], list(row.packages), {}
    if row.real_store:  # the conformance test has the code that opens the store; one program has all versions
        folders.append(COMMON / "rocketmq")
        packages.append(VERSIONS[row.real_store].artifact)
        sources = real_store_sources(row.real_store)
    sources |= {file.name: file.read_text("utf-8") for folder in folders for file in sorted(folder.glob("*.java"))}
    try:
        program = java_program(f"gallery-{row.name}", packages, sources)
    except JavaMissing as missing:
        raise NotInstalled(str(missing)) from missing
    return InstalledProgram([program.java, *row.options, "-cp", program.class_path, "Program"])


def _c(row: Row) -> InstalledProgram:
    program = _cache(row) / "program"
    program.parent.mkdir(parents=True, exist_ok=True)
    source = str(row.folder / "program.c")
    _run([_tool("cc"), "-g", "-O1", "-I", str(COMMON / "c"), "-o", str(program), source, *row.options])
    return InstalledProgram([str(program)])


_RUNTIMES: dict[str, Callable[[Row], InstalledProgram]] = {
    "python": _python,
    "go": _go,
    "rust": _rust,
    "node": _node,
    "java": _java,
    "c": _c,
}


def _cache(row: Row) -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "tornlog" / "gallery" / row.name


def _digest(texts: Sequence[str]) -> str:
    return sha256("\0".join(texts).encode()).hexdigest()[:16]


def _make_whole(target: Path, fill: Callable[[Path], object]) -> None:
    """Create and fill a directory atomically, if it is missing. Several processes may do so at the same time."""
    if target.is_dir():
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    scratch = Path(mkdtemp(prefix=f"{target.name}-", dir=target.parent))
    try:
        fill(scratch)
        scratch.rename(target)
    except OSError:
        if not target.is_dir():  # otherwise another process was faster
            raise
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _tool(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        raise NotInstalled(f"{name} is not on the PATH")
    return found


def _run(command: Sequence[str], cwd: Path | None = None, env: Mapping[str, str] | None = None) -> str:
    """Run a command; return its output. Raises NotInstalled with the end of its error output."""
    try:
        done = subprocess.run(
            command, cwd=cwd, env=env, capture_output=True, text=True, check=False, timeout=_SECONDS_MAX
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NotInstalled(f"{Path(command[0]).name}: {error}") from error
    if done.returncode:
        said = " ".join((done.stderr or done.stdout).split())[-_SHOWN_MAX:]
        raise NotInstalled(f"{Path(command[0]).name}: {said or f'exit code {done.returncode}'}")
    return done.stdout
