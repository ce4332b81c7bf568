"""Java programs over public jars: fetched, compiled, and cached by version.

tornlog itself does not need them.
"""

import os
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from importlib.resources import files
from pathlib import Path
from tempfile import mkdtemp


@dataclass(frozen=True, slots=True)
class RealVersion:
    """A version of the real store: its artifact, and the driver's sources for this version only."""

    artifact: str
    sources: str


VERSIONS = {
    "rocketmq-4.9.8": RealVersion("org.apache.rocketmq:rocketmq-store:4.9.8", "rocketmq4"),
    "rocketmq-5.3.3": RealVersion("org.apache.rocketmq:rocketmq-store:5.3.3", "rocketmq5"),
}

_SECONDS_MAX = 600
_POM = """<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>tornlog</groupId><artifactId>judge</artifactId><version>1</version><packaging>pom</packaging>
  <dependencies>{dependencies}</dependencies>
</project>
"""
_DEPENDENCY = "<dependency><groupId>{0}</groupId><artifactId>{1}</artifactId><version>{2}</version></dependency>"


class JavaMissing(Exception):
    """A tool or jar for a Java program is missing; the message names it."""


@dataclass(frozen=True, slots=True)
class JavaProgram:
    """Directories of jars and compiled classes."""

    name: str
    jars: Path
    classes: Path
    java: str

    @property
    def class_path(self) -> str:
        return f"{self.classes}{os.pathsep}{self.jars}/*"


def real_store_program(name: str, cache: Path | None = None) -> JavaProgram:
    """Return the driver of a version of the real store, fetched and compiled if needed."""
    return java_program(name, [VERSIONS[name].artifact], real_store_sources(name), cache)


def real_store_sources(name: str) -> dict[str, str]:
    """Return the sources of the driver, texts by file name."""
    return {
        each.name: each.read_text("utf-8")
        for part in ("common", VERSIONS[name].sources)
        for each in (files(__package__) / "java" / part).iterdir()
        if each.name.endswith(".java")
    }


def java_program(
    name: str, artifacts: Sequence[str], sources: Mapping[str, str], cache: Path | None = None
) -> JavaProgram:
    """Return a program of sources (file name -> text) over artifacts (`group:artifact:version`) and their dependencies.

    cache: default is the user's cache directory. JavaMissing: no Maven, no JDK, or no access to the jars. RuntimeError:
    it does not compile.
    """
    _, javac, java = require_tools()
    root = _place(name, cache)
    jars = fetched_jars(name, artifacts, cache)
    texts = [f"{file}\0{text}" for file, text in sorted(sources.items())]
    classes = root / f"classes-{_digest([*artifacts, *texts])}"
    if not classes.is_dir():
        _build(classes, lambda target: _compile(javac, jars, sources, target))
    return JavaProgram(name, jars, classes, java)


def fetched_jars(name: str, artifacts: Sequence[str], cache: Path | None = None) -> Path:
    """Return a directory with the jars of artifacts and their dependencies. JavaMissing: no Maven or no access."""
    mvn, _, _ = require_tools()
    jars = _place(name, cache) / f"jars-{_digest(artifacts)}"
    if not jars.is_dir():
        _build(jars, lambda target: _fetch(mvn, artifacts, target))
    return jars


def _place(name: str, cache: Path | None) -> Path:
    """Return the directory of a program, absolute: Java starts in another working directory."""
    return (cache or cache_directory()).absolute() / name


def cache_directory() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "tornlog" / "java"


def _digest(texts: Sequence[str]) -> str:
    return sha256("\0".join(texts).encode()).hexdigest()[:16]


def require_tools() -> tuple[str, str, str]:
    """Return the paths of mvn, javac and java. JavaMissing: one does not exist."""
    mvn, javac, java = (_tool(each) for each in ("mvn", "javac", "java"))
    return mvn, javac, java


def _tool(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        raise JavaMissing(f"{name} is not on the PATH: this needs Maven and a JDK")
    return found


def _build(target: Path, fill: Callable[[Path], None]) -> None:
    """Make a directory completely or not at all: another process may make it at the same time."""
    target.parent.mkdir(parents=True, exist_ok=True)
    scratch = Path(mkdtemp(prefix=f"{target.name}-", dir=target.parent))
    try:
        fill(scratch)
        if not target.exists():
            scratch.rename(target)
    except OSError:
        if not target.is_dir():  # no other process has made it in the meantime
            raise
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _fetch(mvn: str, artifacts: Sequence[str], target: Path) -> None:
    dependencies = "".join(_DEPENDENCY.format(*artifact.split(":")) for artifact in artifacts)
    pom = target / "pom.xml"
    pom.write_text(_POM.format(dependencies=dependencies), "utf-8")
    copy = [mvn, "-q", "-B", "-f", str(pom), "dependency:copy-dependencies"]
    failure = _run([*copy, f"-DoutputDirectory={target}", "-DincludeScope=runtime"])
    if failure:
        raise JavaMissing(f"Maven cannot fetch the jars: {failure}")


def _compile(javac: str, jars: Path, sources: Mapping[str, str], target: Path) -> None:
    for name, text in sources.items():
        (target / name).write_text(text, "utf-8")
    names = [str(target / name) for name in sorted(sources)]
    failure = _run([javac, "-nowarn", "-encoding", "UTF-8", "-cp", f"{jars}/*", "-d", str(target), *names])
    if failure:
        raise RuntimeError(f"the program does not compile: {failure}")


def _run(command: Sequence[str]) -> str:
    """Run a command; return its error output, empty after a success."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS_MAX, check=False)
    except subprocess.TimeoutExpired:
        return f"no end after {_SECONDS_MAX} s"
    lines = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
    return " | ".join(lines[:3] or [f"exit code {done.returncode}"]) if done.returncode else ""
