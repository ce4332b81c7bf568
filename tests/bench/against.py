"""Comparison of two checkouts: measures both alternately, and prints the ratio.

Machines of one kind differ by a factor of two from day to day, and the speed of one machine changes from minute to
minute. So only figures of the same run are comparable. Rounds alternate between this checkout and the other one, each
in its own process under the present Python. A ratio is of two successive measurements. For rates, processor time is
compared as well: other users of the machine change it less than the rate.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from rich.table import Table

from tornlog.reports.cli.console import plain_table

from .figure import cpu_seconds_spent

SEEDS = "seeds of every scenario"
SEEDS_EACH = 12
_LESS_IS_BETTER = ("s", "ms", "µs", "%", "bytes/put")
_THIS = Path(__file__).resolve().parents[2]


class OtherCheckoutError(Exception):
    """The other checkout failed, or printed no figures."""


@dataclass(frozen=True, slots=True)
class Compared:
    """One figure of both checkouts, with a sample for every round."""

    name: str
    unit: str
    this: list[float] = field(default_factory=list)
    other: list[float] = field(default_factory=list)
    cpu_ratios: list[float] = field(default_factory=list)
    """Per round: the other checkout's processor time per unit, divided by ours. Empty if one of them reports none."""

    @property
    def ratios(self) -> list[float]:
        """Return the factor by which this checkout is better, per round."""
        pairs = zip(self.this, self.other, strict=True)
        return [theirs / ours if self.unit in _LESS_IS_BETTER else ours / theirs for ours, theirs in pairs]

    def to_json(self) -> dict[str, Any]:
        fields = {"name": self.name, "unit": self.unit, "this": self.this, "other": self.other}
        cpu = {"cpu_ratio": median(self.cpu_ratios)} if self.cpu_ratios else {}
        return {**fields, "ratio": median(self.ratios), **cpu}


class Measured(NamedTuple):
    """One figure of one checkout in one round."""

    unit: str
    value: float
    cpu_us: float | None = None
    """Processor time for one unit of a rate."""


class Checkout:
    """A checkout whose command line runs with the libraries of the present Python."""

    def __init__(self, path: Path) -> None:
        """Raises OtherCheckoutError if path has no checkout."""
        self._root = path.resolve()
        if not (self._root / ".types" / "tornlog").exists():
            raise OtherCheckoutError(f"{path}: expected a checkout of tornlog, found none")

    def run(self, module: str, *arguments: str) -> tuple[Any, float]:
        """Run a module that writes JSON; return that, and its CPU time in s including children."""
        environment = {**os.environ, "PYTHONPATH": f"{self._root / '.types'}{os.pathsep}{self._root}"}
        before = cpu_seconds_spent()
        with tempfile.TemporaryDirectory() as scratch:
            done = subprocess.run(
                [sys.executable, "-m", module, *arguments, "--json", "-"],
                env=environment,
                cwd=scratch,
                capture_output=True,
                text=True,
                check=False,
            )
        spent = cpu_seconds_spent() - before
        try:
            found = json.loads(done.stdout)
        except ValueError:
            last = (done.stderr or done.stdout).strip().splitlines()[-1:]
            raise OtherCheckoutError(f"{self._root}: {' '.join((module, *arguments[:2]))}: {' '.join(last)}") from None
        return found, spent

    def scenarios(self) -> list[str]:
        return list(self.run("tornlog", "list")[0]["scenarios"])

    def figures(self, arguments: Sequence[str]) -> dict[str, "Measured"]:
        """Measure once; return each figure by its name."""
        found, _ = self.run("tests.bench", "--rounds", "1", *arguments)
        return {one["name"]: Measured(one["unit"], one["median"], one.get("cpu_us")) for one in found["figures"]}

    def seeds_per_s(self, scenarios: Sequence[str], first: int) -> float:
        """Run seeds of some scenarios, from first on. Return the number of seeds per second of CPU time."""
        last = first + SEEDS_EACH
        return SEEDS_EACH * len(scenarios) / self.run("tornlog", "run", *scenarios, "--seeds", f"{first}:{last}")[1]


def compare(
    other: Path, rounds: int, only: Sequence[str], arguments: Sequence[str], on_begin: Callable[[str], None]
) -> list[Compared]:
    """Measure the common figures of both checkouts, in turns. only: parts of names; empty: all.

    arguments: further ones of `python -m tests.bench`. Raises OtherCheckoutError.
    """
    checkouts = {"this": Checkout(_THIS), "other": Checkout(other)}
    wants_seeds = not only or any(text.lower() in SEEDS for text in only)
    texts = [text for text in only if text.lower() not in SEEDS]
    wants_figures = not only or bool(texts)
    selected = [part for text in texts for part in ("--only", text)]
    common = set.intersection(*(set(one.scenarios()) for one in checkouts.values())) if wants_seeds else set[str]()
    compared: dict[str, Compared] = {}
    for number in range(rounds):
        measured: dict[str, dict[str, Measured]] = {}
        for side, checkout in checkouts.items():
            on_begin(f"round {number + 1} of {rounds}: {side} checkout")
            values = measured[side] = {}
            if wants_seeds:
                values[SEEDS] = Measured("seeds/s", checkout.seeds_per_s(sorted(common), number * SEEDS_EACH))
            if wants_figures:
                values |= checkout.figures([*selected, *arguments])
        for name in [name for name in measured["this"] if name in measured["other"]]:
            ours, theirs = measured["this"][name], measured["other"][name]
            one = compared.setdefault(name, Compared(name, ours.unit))
            one.this.append(ours.value)
            one.other.append(theirs.value)
            if ours.cpu_us is not None and theirs.cpu_us is not None:
                one.cpu_ratios.append(theirs.cpu_us / ours.cpu_us)
    return list(compared.values())


def table_of(compared: Sequence[Compared], rounds: int) -> Table:
    """Return one row per figure: medians of both, and the factor by which this checkout is better."""
    table = plain_table(
        f"medians of {rounds}, in turns; a ratio above 1 is better",
        ("what",),
        ("this", "other", "ratio", "least", "most", "CPU ratio"),
    )
    for one in compared:
        values = (median(one.this), median(one.other))
        ratios = (median(one.ratios), min(one.ratios), max(one.ratios))
        shown = [f"{value:,.0f}" if value >= 100 else f"{value:,.2f}" for value in values]
        cpu = f"{median(one.cpu_ratios):.2f}" if one.cpu_ratios else ""
        table.add_row(f"{one.name}, {one.unit}", *shown, *(f"{ratio:.2f}" for ratio in ratios), cpu)
    return table
