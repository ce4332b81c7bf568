"""Another checkout beside this one: each figure of both, measured in turns, and their ratio.

Machines of one kind differ by a factor of two from day to day, and one machine from minute to minute. So a figure says
something only beside another one of the same run. Rounds alternate: this checkout, the other one, and so on, each in a
process of its own under the Python that runs now. A ratio is of two measurements that followed each other.
"""

import json
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from rich.table import Table

from ..cli.console import plain_table

SEEDS = "seeds of every scenario"
SEEDS_EACH = 12
_LESS_IS_BETTER = ("ms", "µs", "%", "bytes/put")
_THIS = Path(__file__).resolve().parents[2]


class OtherCheckoutError(Exception):
    """It cannot be run, or does not say what it has measured."""


@dataclass(frozen=True, slots=True)
class Compared:
    """One figure of both checkouts, a sample of each for every round."""

    name: str
    unit: str
    this: list[float] = field(default_factory=list)
    other: list[float] = field(default_factory=list)

    @property
    def ratios(self) -> list[float]:
        """Return how many times better this one is, round by round."""
        pairs = zip(self.this, self.other, strict=True)
        return [theirs / ours if self.unit in _LESS_IS_BETTER else ours / theirs for ours, theirs in pairs]

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON takes it."""
        fields = {"name": self.name, "unit": self.unit, "this": self.this, "other": self.other}
        return {**fields, "ratio": median(self.ratios)}


class Checkout:
    """A checkout whose command line is run as it stands there, with the libraries of this Python."""

    def __init__(self, path: Path) -> None:
        """OtherCheckoutError if there is none at path."""
        self._types = path.resolve() / ".types"
        if not (self._types / "tornlog").exists():
            raise OtherCheckoutError(f"{path}: expected a checkout of tornlog, found none")

    def run(self, *arguments: str) -> tuple[Any, float]:
        """Run a command that writes JSON; return that, and the CPU time in s that it took with its children."""
        environment = {**os.environ, "PYTHONPATH": str(self._types)}
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        with tempfile.TemporaryDirectory() as scratch:
            done = subprocess.run(
                [sys.executable, "-m", "tornlog", *arguments, "--json", "-"],
                env=environment,
                cwd=scratch,
                capture_output=True,
                text=True,
                check=False,
            )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        try:
            found = json.loads(done.stdout)
        except ValueError:
            last = (done.stderr or done.stdout).strip().splitlines()[-1:]
            raise OtherCheckoutError(f"{self._types.parent}: {' '.join(arguments[:2])}: {' '.join(last)}") from None
        return found, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    def scenarios(self) -> list[str]:
        """Return the names of its scenarios."""
        return list(self.run("list")[0]["scenarios"])

    def figures(self, arguments: Sequence[str]) -> Mapping[str, tuple[str, float]]:
        """Measure once; return unit and value of each figure by its name."""
        found, _ = self.run("bench", "--rounds", "1", *arguments)
        return {one["name"]: (one["unit"], one["median"]) for one in found["figures"]}

    def seeds_per_s(self, scenarios: Sequence[str], first: int) -> float:
        """Return how many seeds of some scenarios a second of CPU buys, from a seed on."""
        last = first + SEEDS_EACH
        return SEEDS_EACH * len(scenarios) / self.run("run", *scenarios, "--seeds", f"{first}:{last}")[1]


def compare(
    other: Path, rounds: int, only: Sequence[str], arguments: Sequence[str], on_begin: Callable[[str], None]
) -> list[Compared]:
    """Measure what both checkouts can measure, in turns; only: parts of names, none for all.

    arguments: further ones of `tornlog bench`. Raises OtherCheckoutError.
    """
    checkouts = {"this": Checkout(_THIS), "other": Checkout(other)}
    wants_seeds = not only or any(text.lower() in SEEDS for text in only)
    texts = [text for text in only if text.lower() not in SEEDS]
    wants_figures = not only or bool(texts)
    selected = [part for text in texts for part in ("--only", text)]
    common = set.intersection(*(set(one.scenarios()) for one in checkouts.values())) if wants_seeds else set[str]()
    compared: dict[str, Compared] = {}
    for number in range(rounds):
        measured: dict[str, dict[str, tuple[str, float]]] = {}
        for side, checkout in checkouts.items():
            on_begin(f"round {number + 1} of {rounds}: {side} checkout")
            values = measured[side] = {}
            if wants_seeds:
                values[SEEDS] = "seeds/s", checkout.seeds_per_s(sorted(common), number * SEEDS_EACH)
            if wants_figures:
                values |= checkout.figures([*selected, *arguments])
        for name in [name for name in measured["this"] if name in measured["other"]]:
            unit, ours = measured["this"][name]
            one = compared.setdefault(name, Compared(name, unit))
            one.this.append(ours)
            one.other.append(measured["other"][name][1])
    return list(compared.values())


def table_of(compared: Sequence[Compared], rounds: int) -> Table:
    """Return one row a figure: medians of both, and how many times better this checkout is."""
    table = plain_table(
        f"medians of {rounds}, in turns; a ratio above 1 is better",
        ("what",),
        ("this", "other", "ratio", "least", "most"),
    )
    for one in compared:
        values = (median(one.this), median(one.other))
        ratios = (median(one.ratios), min(one.ratios), max(one.ratios))
        shown = [f"{value:,.0f}" if value >= 100 else f"{value:,.2f}" for value in values]
        table.add_row(f"{one.name}, {one.unit}", *shown, *(f"{ratio:.2f}" for ratio in ratios))
    return table
