"""Spark cluster: starts a master and two workers as processes on loopback."""

import os
import re
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pyspark
import pytest

from tests.chromium import browser as browser
from tornlog.reports.pipeline.spark.session import java_home

_HERE = "127.0.0.1"
_LISTEN = "0A"
_LOOPBACKS = {"0100007F", "0" * 24 + "01000000", "0000000000000000FFFF00000100007F"}
"""127.0.0.1, ::1 and 127.0.0.1 as an IPv6 address, as the kernel prints them."""
_QUICK_START = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
_SECONDS_MAX = 120.0


@dataclass(frozen=True, slots=True)
class Cluster:
    """The URL and the processes of a cluster: the master first, then the workers."""

    master: str
    daemons: tuple[int, ...]

    def executors(self) -> list[int]:
        """Return the running processes that workers started for sessions."""
        children = (child for worker in self.daemons[1:] for child in children_of(worker))
        return [child for child in children if b"ExecutorBackend" in command_of(child)]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A cluster with two workers of one core each. All processes end after the tests of the module."""
    work = tmp_path_factory.mktemp("cluster")
    with ExitStack() as processes:
        options = ("--host", _HERE, "--port", "0", "--webui-port", "0")
        master = processes.enter_context(daemon("master.Master", *options, log=work / "master.log"))
        (url,) = await_lines(work / "master.log", r"Starting Spark master at (\S+)", 1)
        size = ("--cores", "1", "--memory", "1g", "--work-dir", str(work))
        workers = [
            processes.enter_context(daemon("worker.Worker", *options, *size, url, log=work / name))
            for name in ("first.log", "second.log")
        ]
        await_lines(work / "master.log", r"Registering worker (\S+)", len(workers))
        yield Cluster(url, (master.pid, *(worker.pid for worker in workers)))


@pytest.fixture
def other_listen_addresses() -> Callable[[int], list[str]]:
    """Return the addresses other than loopback on which a process listens. The process must listen on an address."""

    def addresses(pid: int) -> list[str]:
        listening = addresses_listened_on(pid)
        assert listening
        return [address for address in listening if address not in _LOOPBACKS]

    return addresses


@contextmanager
def daemon(name: str, *arguments: str, log: Path) -> Iterator["subprocess.Popen[bytes]"]:
    """Start a process of a cluster, and end it after the block."""
    spark = Path(pyspark.__file__).parent
    environment = {
        "PATH": os.defpath,
        "JAVA_HOME": str(java_home()),
        "SPARK_HOME": str(spark),
        "SPARK_LOCAL_IP": _HERE,
        "SPARK_LOCAL_DIRS": str(log.parent),
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": f"{_QUICK_START} -Dspark.master.rest.enabled=false",
    }
    command = [str(spark / "bin" / "spark-class"), f"org.apache.spark.deploy.{name}", *arguments]
    with (
        log.open("wb") as output,
        subprocess.Popen(command, env=environment, cwd=log.parent, stdout=output, stderr=subprocess.STDOUT) as running,
    ):
        try:
            yield running
        finally:
            running.terminate()
            try:
                running.wait(_SECONDS_MAX)
            except subprocess.TimeoutExpired:
                running.kill()


def await_lines(log: Path, pattern: str, count: int) -> list[str]:
    """Wait until a log has `count` matching lines, and return them."""
    deadline = time.monotonic() + _SECONDS_MAX
    while len(found := re.findall(pattern, log.read_text())) < count:
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.05)
    return found


def children_of(pid: int) -> list[int]:
    """Return the child processes, except those of threads that end during the listing."""
    children: list[int] = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        with suppress(FileNotFoundError, ProcessLookupError):
            children += map(int, (task / "children").read_text().split())
    return children


def command_of(pid: int) -> bytes:
    """Return the command line of a process; empty after its end."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return b""


def addresses_listened_on(pid: int) -> list[str]:
    links = (os.readlink(link) for link in Path(f"/proc/{pid}/fd").iterdir())
    sockets = {link[len("socket:[") : -1] for link in links if link.startswith("socket:[")}
    lines = [
        line.split()
        for table in ("tcp", "tcp6")
        for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]
    ]
    return [line[1].partition(":")[0] for line in lines if line[3] == _LISTEN and line[9] in sockets]
