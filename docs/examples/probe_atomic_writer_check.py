"""The promise of `probe_atomic_writer`: settings are whole, and not older than the last printed version."""

from collections.abc import Iterator
from pathlib import Path

VERSIONS = {f"version {number}\n" * 100: number for number in range(1, 4)}


def check(directory: Path, acknowledged: list[str]) -> Iterator[str]:
    """Yield each defect of the settings."""
    promised = int(acknowledged[-1]) if acknowledged else 0
    file = directory / "settings"
    found = VERSIONS.get(file.read_text(), -1) if file.exists() else 0
    if found < 0:
        yield "the settings are not whole"
    elif found < promised:
        yield f"version {promised} was promised, found {f'version {found}' if found else 'none'}"
