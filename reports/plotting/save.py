"""Leaving a picture, as PNG and SVG, beside its data as CSV. The same picture has the same bytes."""

import csv
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure


def save_figure(figure: Figure, directory: Path, name: str) -> list[Path]:
    """Write NAME.png and NAME.svg to a directory; return where."""
    directory.mkdir(parents=True, exist_ok=True)
    png, svg = directory / f"{name}.png", directory / f"{name}.svg"
    figure.savefig(png, metadata={"Software": None})
    figure.savefig(svg, metadata={"Date": None, "Creator": None})
    return [png, svg]


def save_table(header: Sequence[str], rows: Iterable[Sequence[Any]], directory: Path, name: str) -> Path:
    """Write NAME.csv to a directory; return where."""
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f"{name}.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(header)
        table.writerows(rows)
    return path
