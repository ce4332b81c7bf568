"""Our measurements with the real RocketMQ store, 4.9.8.

Java compiles at run time. So its loops run for some seconds before the measurement, and a small log is recovered some
times before the large one. Our store needs no warm-up. Pulls of the real store copy the messages, as its broker does,
because pulls of our store do.
"""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.conformance.maven import JavaMissing, real_store_program, require_tools
from tests.conformance.real_store import RealStore, settings_of
from tornlog.reports.studies.closed_loop import Sample
from tornlog.reports.studies.recovery.filled import TOPIC
from tornlog.store.config import FlushDiskType, StoreConfig

from .store_measurements import KEY_STRIDE, keys_in
from .workplace import Workplace

_VERSION = "rocketmq-4.9.8"
_WARM_TIMES = 4
"""Factor of the warm-up loop's length over the measured one, and number of warm-up recoveries."""


@cache
def why_missing() -> str:
    """Return why the real store cannot be measured here; empty if it can."""
    try:
        require_tools()
    except JavaMissing as missing:
        return str(missing)
    return ""


def measure_real_puts(
    place: Workplace, body_bytes: int, flush: FlushDiskType, producers: int = 1, *, batch: bool = False
) -> Sample:
    """Measure single puts per second of all producers, or messages per second of one producer in batches of 32."""
    with place.directory() as directory, _real_store() as real:
        config = place.config(directory, flush_disk_type=flush)
        settings = settings_of(config) | {"flushDiskType": flush.value}
        how = {"bodyBytes": body_bytes, "producers": producers, "batch": batch}
        return _rate(_ask(real, place, config, {"do": "bench-put", **how, "config": settings}))


def measure_real_queries(place: Workplace) -> Sample:
    """Measure queries per second, each for a key of one message."""
    filled, keys = place.filled(place.settings.small_log_bytes, keyed=True), keys_in(place)
    with place.directory() as directory, _real_store() as real:
        command = {"do": "bench-query", "keys": keys, "stride": KEY_STRIDE}
        return _rate(_ask(real, place, _copied(place, filled, directory), command))


def measure_real_pulls(place: Workplace, body_bytes: int) -> Sample:
    """Measure messages per second of one consumer in batches of 32, over the queue again and again."""
    filled = place.filled(place.settings.small_log_bytes, body_bytes)
    with place.directory() as directory, _real_store() as real:
        return _rate(_ask(real, place, _copied(place, filled, directory), {"do": "bench-get"}))


def measure_real_recovery_scan(place: Workplace) -> Sample:
    """Return MB (10^6 bytes) of log per second that recovery reads after an unclean exit, with CRC and queues."""
    small, large = (place.filled(size) for size in (place.settings.small_log_bytes, place.settings.log_bytes))
    with _real_store() as real:
        for _ in range(_WARM_TIMES):
            _recovery(real, place, small)
        found = _recovery(real, place, large)
    return Sample(found["maxPhyOffset"] / found["seconds"] / 1e6)


def _recovery(real: RealStore, place: Workplace, filled: str) -> dict[str, Any]:
    with place.directory() as directory:
        config = _copied(place, filled, directory)
        root = Path(config.store_path_root_dir)
        (root / "abort").touch()
        (root / "checkpoint").unlink()  # or recovery would read only the last files
        found = _ask(real, place, config, {"do": "bench-load"})
    if not found["load"]:
        raise RuntimeError("the real store did not open the log")
    return found


def _rate(found: dict[str, Any]) -> Sample:
    return Sample(found["count"] / found["seconds"])


def _copied(place: Workplace, filled: str, directory: str) -> StoreConfig:
    """Copy a store, because the real store changes it. The copy is in the page cache."""
    shutil.copytree(f"{filled}/store", f"{directory}/store")
    return place.config(directory)


@contextmanager
def _real_store() -> Iterator[RealStore]:
    program = real_store_program(_VERSION)
    with (
        TemporaryDirectory(prefix="tornlog-bench-") as home,
        RealStore(program, Path(home), stores=1, is_fast=True) as real,
    ):
        yield real


def _ask(real: RealStore, place: Workplace, config: StoreConfig, command: dict[str, Any]) -> dict[str, Any]:
    seconds = place.settings.seconds
    found = real.ask(
        {
            "root": config.store_path_root_dir,
            "config": settings_of(config),
            "topic": TOPIC,
            "seconds": seconds,
            "warmSeconds": _WARM_TIMES * seconds,
            **command,
        }
    )
    if "exception" in found:
        raise RuntimeError(f"the real store: {found['exception']} at {found['thrownAt']}")
    return found
