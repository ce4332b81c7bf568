"""Sessions: Spark inside this process, or a cluster's, with what all of tornlog's jobs need.

    with session() as spark:
        spark.read.parquet("out/sweep").show()

    with session("spark://head:7077", ship=["tornlog-0.1.0-cp311-abi3-linux_x86_64.whl"]) as spark: ...

What a session brings along for its executors:

    tornlog.zip                       a wheel, .zip, .egg or .py: imported from where it is put, so Python only
    environment.tar.gz#environment    an archive with a whole environment in it, unpacked as ./environment

Anything compiled has to be installed where executors run, or come in such an environment. tornlog does without its own.

Local masters listen on loopback only, have no UI, log problems only, and are tuned to start within a few seconds.
"""

import os
import shutil
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import current_thread, main_thread

from pyspark.sql import SparkSession

from ..source.rocketmq import RocketMQSource
from .engine import LOOPBACK, is_in_this_environment, is_on_this_machine
from .jdk import java_home

_IMPORTABLE = (".whl", ".zip", ".egg", ".py")
_ARCHIVES = (".tar.gz", ".tgz", ".tar")
LOCAL = "local[*]"
_QUICK_START = "-XX:TieredStopAtLevel=1"
"""Java compiles quickly, and not well: a first job ends 1 s of 12 sooner, a long query takes 1.3 times as long."""
_LOGGING = Path(__file__).with_name("log4j2.properties")
_JAVA_OPTIONS = "spark.driver.extraJavaOptions"
_ALWAYS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.python.worker.reuse": "true",
    "spark.sql.adaptive.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
}
_LOCALLY = {
    "spark.driver.bindAddress": LOOPBACK,
    "spark.driver.host": LOOPBACK,
    _JAVA_OPTIONS: f"-XX:+UseSerialGC -Dlog4j2.configurationFile={_LOGGING.as_uri()}",
    "spark.sql.shuffle.partitions": "8",
}


class CargoError(ValueError):
    """Something that cannot be shipped."""


@dataclass(frozen=True, slots=True)
class Cargo:
    """What is shipped, by kind. Invariant: every part that is a local file is there."""

    importable: tuple[str, ...] = ()
    archives: tuple[str, ...] = ()
    """Each with `#NAME` behind it if it is not to be unpacked under its own name."""

    @classmethod
    def of(cls, parts: Sequence[str]) -> "Cargo":
        """Sort paths and URIs by kind. Raises CargoError if one is of no kind, or not there."""
        archives = tuple(part for part in parts if "#" in part or part.endswith(_ARCHIVES))
        importable = tuple(part for part in parts if part not in archives)
        for part in parts:
            path = part.partition("#")[0]
            if "://" not in path and not Path(path).is_file():
                raise CargoError(f"{path}: no such file")
        for part in importable:
            if not part.endswith(_IMPORTABLE):
                kinds = ", ".join((*_IMPORTABLE, *_ARCHIVES))
                raise CargoError(f"{part}: expected one of {kinds}, or an archive as FILE#NAME")
            if "://" in part and part.endswith(".whl"):
                raise CargoError(f"{part}: a wheel has to be a local file; or name it .zip")
        return cls(importable, archives)

    @property
    def python(self) -> str | None:
        """Return the Python of the environment, as an executor starts it; None if there is no environment."""
        if not self.archives:
            return None
        path, _, name = self.archives[0].partition("#")
        return f"./{name or Path(path).name}/bin/python"

    def as_spark_imports_it(self, aside: Path) -> Iterator[str]:
        """Yield the importable parts. A wheel is copied aside as .zip, for Spark leaves others off the path."""
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
    """Yield a session on a master, and stop it.

    config counts before what is set here. ship: paths or URIs of what executors are to import, see above.
    computes_little: whether Java only hands rows on, and is to begin sooner for it; on this machine.
    Raises NoJavaError if there is no Java to start Spark with, CargoError for what cannot be shipped.
    """
    cargo = Cargo.of(ship)
    if ship and is_in_this_environment(master):
        raise CargoError(f"{master} works in this environment: there is nothing to ship to")
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
        with _interrupts_held_back():
            spark = builder.getOrCreate()
            begun.callback(spark.stop)
        for path in cargo.as_spark_imports_it(Path(aside)):
            spark.sparkContext.addPyFile(path)
        spark.dataSource.register(RocketMQSource)  # which notes what there is to import from by then
        yield spark


@contextmanager
def _interrupts_held_back() -> Iterator[None]:
    """Hold SIGINT and SIGTERM back until the end of this block, and restore the handlers of before.

    A session that is interrupted as it begins prints pages, and PySpark leaves a handler that nobody else hears of.
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
    """Name Java and the Pythons for what is started in this block; but for Java, what the user has named stays.

    python: what executors run; None for this process's on this machine, and for Spark's own choice elsewhere.
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
