"""Drivers of RocketMQ's official clients: fetched from package registries, built, and the commands that start them."""

import os
import shutil
import subprocess
import venv
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from tests.conformance.maven import java_program

BUILD_S = 600
HERE = Path(__file__).parent
JVM_OPTIONS = (
    *("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx384m"),
    "-Drocketmq.client.rebalance.waitInterval=1000",  # by default a consumer finds a new queue after 20 s
    *("-Drocketmq.client.logRoot={logs}", "-Duser.home={logs}"),  # 5.x logs into the home directory
    "-Drocketmq.client.localOffsetStoreDir={logs}/offsets",
    "-Drocketmq.serialize.type={header_form}",
)
MOVED_IN_5 = {
    "org.apache.rocketmq.common.admin.": "org.apache.rocketmq.remoting.protocol.admin.",
    "org.apache.rocketmq.common.protocol.": "org.apache.rocketmq.remoting.protocol.",
    "org.apache.rocketmq.common.subscription.": "org.apache.rocketmq.remoting.protocol.subscription.",
}
"""Java packages of 4.9, and where their classes are since 5.1."""
CPP_PACKAGE = "rocketmq==0.4.4"
"""A wheel of 2019 with the library of RocketMQ's C++ client, which does not tell its version.

`rocketmq-client-python` 2.0.0 is newer, but has no library. Debian has no package.
"""


class ClientMissing(Exception):
    """A client or a tool to build it is missing; the message names it."""


def _java_client(version: str, _place: Path) -> list[str]:
    artifacts = [f"org.apache.rocketmq:rocketmq-tools:{version}", "com.alibaba:fastjson:1.2.83"]
    sources = {path.name: path.read_text() for path in (HERE / "java" / "driver").glob("*.java")}
    if not version.startswith("4."):
        for old, new in MOVED_IN_5.items():
            sources = {name: text.replace(old, new) for name, text in sources.items()}
    program = java_program(f"client-driver-{version}", artifacts, sources)
    return [program.java, *JVM_OPTIONS, "-cp", program.class_path, "Driver"]


def _go_client(place: Path) -> list[str]:
    go = shutil.which("go")
    if go is None:
        raise ClientMissing("go is not on the PATH: the Go client needs a toolchain")
    shutil.copytree(HERE / "go" / "driver", place, dirs_exist_ok=True)
    env = os.environ | {"GOTOOLCHAIN": "local", "GOFLAGS": "-mod=readonly -buildvcs=false"}
    _fetch("the Go client", [go, "mod", "download"], place, env)
    subprocess.run([go, "build", "-o", "driver", "."], cwd=place, env=env, check=True, timeout=BUILD_S)
    return [str(place / "driver")]


def _cpp_client(place: Path) -> list[str]:
    venv.create(place, with_pip=True)
    python = str(place / "bin" / "python")
    _fetch("the C++ client", [python, "-m", "pip", "install", "-q", CPP_PACKAGE], place, os.environ)
    _fetch("the C++ client", [python, "-c", "import rocketmq.client"], place, os.environ)  # may lack a system library
    return [python, str(HERE / "cpp" / "driver.py")]


def _fetch(name: str, command: Sequence[str], place: Path, env: Mapping[str, str]) -> None:
    done = subprocess.run(command, cwd=place, env=env, capture_output=True, text=True, timeout=BUILD_S, check=False)
    if done.returncode:
        raise ClientMissing(f"{name} cannot be had here: {done.stderr[-300:]}")


PROGRAMS: dict[str, Callable[[Path], list[str]]] = {
    "Java 4.9.8": partial(_java_client, "4.9.8"),
    "Java 5.1.4": partial(_java_client, "5.1.4"),
    "Java 5.3.3": partial(_java_client, "5.3.3"),
    "Java 5.5.0": partial(_java_client, "5.5.0"),
    "Go 2.1.2": _go_client,
    "C++ (2019)": _cpp_client,
}
"""Functions that make a client's driver in a directory and return its command. They raise ClientMissing or JavaMissing.

In a command, `{logs}` stands for a directory, `{header_form}` for JSON or ROCKETMQ.
"""
