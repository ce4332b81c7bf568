"""The real store as a source of turns (see `reports/studies/latency/real/turns.py`)."""

import json
from pathlib import Path

from tests.conformance.maven import VERSIONS, JavaProgram, java_program, real_store_sources
from tests.conformance.real_store import settings_of, store_options
from tornlog.reports.studies.latency.real.process import PUT_TIMEOUT_MS
from tornlog.reports.studies.latency.traffic import Setup

VERSION = "rocketmq-4.9.8"
_SOURCES = ("Settings.java", "Version.java")
"""Sources of tests/conformance/java that open a store."""
_HEAP = ("-Xms64m", "-Xmx64m", "-XX:MaxDirectMemorySize=256m")
"""A small heap, so that a memory limit leaves pages for files. Direct memory holds the pool's buffers."""


def real_store_program() -> JavaProgram:
    """Return the driver. Raises JavaMissing."""
    opening = {name: text for name, text in real_store_sources(VERSION).items() if name in _SOURCES}
    driver = Path(__file__).parent / "java" / "PacedPuts.java"
    return java_program(VERSION, [VERSIONS[VERSION].artifact], opening | {driver.name: driver.read_text("utf-8")})


class RealSource:
    """Makes commands of processes with the real store."""

    def __init__(self, program: JavaProgram) -> None:
        self._program = program

    def __call__(self, root: Path, setup: Setup) -> list[str]:
        config = setup.config(str(root))
        settings = settings_of(config) | {
            "flushDiskType": config.flush_disk_type.value,
            "warmMapedFileEnable": config.warm_mapped_file_enable,
            "osPageCacheBusyTimeOutMills": PUT_TIMEOUT_MS,
            "syncFlushTimeout": PUT_TIMEOUT_MS,
        }
        home = root.parent / f"{root.name}-home"
        command = [self._program.java, *_HEAP, *store_options(home), "-cp", self._program.class_path, "PacedPuts"]
        return [*command, str(root), json.dumps(settings), str(setup.body_bytes)]
