"""Promised orders are in the log, and refused orders are not."""

from collections.abc import Iterator
from pathlib import Path


def check(directory: Path, acknowledged: list[str], refused: list[str]) -> Iterator[str]:
    log = directory / "orders"
    found = log.read_text().split() if log.exists() else []
    yield from (f"{order} is lost" for order in acknowledged if order not in found)
    yield from (f"{order} was refused, and is in the log" for order in refused if order in found)
