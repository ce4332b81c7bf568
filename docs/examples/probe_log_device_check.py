"""Each promised order is in the log."""

from collections.abc import Iterator
from pathlib import Path


def check(directory: Path, acknowledged: list[str]) -> Iterator[str]:
    log = directory / "log" / "wal"
    found = log.read_text().splitlines() if log.exists() else []
    yield from (f"{order} is lost" for order in acknowledged if order not in found)
