"""Sessions: Spark inside this process, or a cluster's, with what all of tornlog's jobs need.

    with session() as spark:
        spark.read.parquet("out/sweep").show()

Local masters listen on loopback only, have no UI, log problems only, and are tuned to start within a few seconds.
"""

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import SparkSession

from .jdk import java_home

LOCAL = "local[*]"
_LOOPBACK = "127.0.0.1"
_QUICK_START = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""For a driver that hands rows on and computes little: half the time to the first job, by measurement."""
_LOGGING = Path(__file__).with_name("log4j2.properties")

_ALWAYS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.python.filterPushdown.enabled": "true",
    "spark.python.worker.reuse": "true",
    "spark.sql.adaptive.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
}
_LOCALLY = {
    "spark.driver.bindAddress": _LOOPBACK,
    "spark.driver.host": _LOOPBACK,
    "spark.driver.extraJavaOptions": f"{_QUICK_START} -Dlog4j2.configurationFile={_LOGGING.as_uri()}",
    "spark.sql.shuffle.partitions": "8",
}


@contextmanager
def session(
    master: str = LOCAL, *, app_name: str = "tornlog", config: Mapping[str, str] | None = None
) -> Iterator[SparkSession]:
    """Yield a session on a master, and stop it. config counts before what is set here.

    Raises NoJavaError if there is no Java to start Spark with.
    """
    _prepare_environment(master)
    settings = {**_ALWAYS, **(_LOCALLY if is_on_this_machine(master) else {}), **(config or {})}
    builder = SparkSession.builder.master(master).appName(app_name)
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    try:
        yield spark
    finally:
        spark.stop()


def is_on_this_machine(master: str) -> bool:
    """Return whether a master stands for processes of this machine alone."""
    return master.startswith("local") or f"//{_LOOPBACK}:" in master


def _prepare_environment(master: str) -> None:
    """Name the Java and the Pythons that are started from here; whatever the user has named stays."""
    os.environ["JAVA_HOME"] = str(java_home())
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    if is_on_this_machine(master):
        os.environ.setdefault("SPARK_LOCAL_IP", _LOOPBACK)
        os.environ.setdefault("SPARK_LOCAL_HOSTNAME", "localhost")
