"""Sweep sums: aggregates rows without Spark, in constant memory.

Pass rates, latencies and detections have the columns and values of `pipeline.analysis`.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ....scenarios.campaigns.pairs import Pair, pairs_in
from ...quantities import confidence_bounds, nearest_ranks
from .table import Table

Row = dict[str, Any]
_RUN = ["mutant", "scenario", "disk", "policy"]
_PUT = ["sync_flush", "disk", "producers"]
_FOUND = ["outcome", "invariant", "signature", "injected", "marks", "features", "tried", "put_latency"]
_COLUMNS = [*_RUN, "sync_flush", "producers", *_FOUND]
_COUNTS = pa.list_(pa.struct([("name", pa.string()), ("times", pa.int64())]))


@dataclass(slots=True)
class SweepSums:
    """Sums over the rows of a sweep."""

    judged: Counter[str] = field(default_factory=Counter)
    """Seeds with a verdict, by disk."""
    tried: Counter[tuple[str, str]] = field(default_factory=Counter)
    """By invariant and disk: seeds that checked the invariant after a fault that could break it."""
    broken: Counter[tuple[str, str]] = field(default_factory=Counter)
    """By invariant and disk: seeds that broke the invariant."""
    signatures: Counter[str] = field(default_factory=Counter)
    injected: Counter[str] = field(default_factory=Counter)
    marks: Counter[str] = field(default_factory=Counter)
    pairs: Counter[Pair] = field(default_factory=Counter)
    """Seeds in which two features or faults occurred together."""
    _outcomes: dict[tuple[Any, ...], Counter[str]] = field(default_factory=dict)
    _puts: dict[tuple[Any, ...], Counter[int]] = field(default_factory=dict)

    def add(self, rows: pa.RecordBatch) -> None:
        table = pa.Table.from_batches([rows])
        for *run, outcome, seeds in _combinations_with_count(table, [*_RUN, "outcome"]):
            self._outcomes.setdefault(tuple(run), Counter())[outcome] += seeds
            if outcome in ("held", "violated"):
                self.judged[run[2]] += seeds
        judged = rows.filter(pc.is_in(rows["outcome"], pa.array(["held", "violated"])))
        pairs = {
            "tried": pc.list_flatten(judged["tried"]),
            "disk": judged["disk"].take(pc.list_parent_indices(judged["tried"])),
        }
        for invariant, disk, seeds in _combinations_with_count(pa.table(pairs), ["tried", "disk"]):
            self.tried[invariant, disk] += seeds
        violated = table.filter(pc.equal(table["outcome"], "violated"))
        for invariant, disk, signature, seeds in _combinations_with_count(violated, ["invariant", "disk", "signature"]):
            self.broken[invariant, disk] += seeds
            self.signatures[signature] += seeds
        _add_counts(self.injected, rows["injected"])
        _add_counts(self.marks, rows["marks"])
        for features, injected in zip(rows["features"].to_pylist(), rows["injected"].to_pylist(), strict=True):
            self.pairs.update(pairs_in(features or (), dict(injected or ())))
        self._add_puts(rows.filter(pc.is_null(rows["mutant"])))

    def pass_rates(self) -> list[Row]:
        return [
            {
                **dict(zip(_RUN, run, strict=True)),
                "seeds": counts.total(),
                "held": counts["held"],
                "violated": counts["violated"],
                "other": counts.total() - counts["held"] - counts["violated"],
                "pass_rate": counts["held"] / counts.total(),
                **dict(zip(("rate_low", "rate_high"), confidence_bounds(counts["held"], counts.total()), strict=True)),
            }
            for run, counts in sorted(self._outcomes.items(), key=lambda pair: _sort_null_first(pair[0]))
        ]

    def put_latency(self) -> list[Row]:
        return [
            dict(zip(_PUT, put, strict=True)) | {"puts": puts.total(), **nearest_ranks(puts), "max_us": max(puts)}
            for put, puts in sorted(self._puts.items())
        ]

    def _add_puts(self, rows: pa.RecordBatch) -> None:
        pairs = pc.list_flatten(rows["put_latency"])
        of_row = rows.select(_PUT).take(pc.list_parent_indices(rows["put_latency"]))
        table = pa.Table.from_batches([of_row])
        for name in ("us", "puts"):
            table = table.append_column(name, pc.struct_field(pairs, name))
        for row in table.group_by([*_PUT, "us"]).aggregate([("puts", "sum")]).to_pylist():
            put = tuple(row[name] for name in _PUT)
            self._puts.setdefault(put, Counter())[row["us"]] += row["puts_sum"]


def sum_sweep(table: Table) -> SweepSums:
    sums = SweepSums()
    for rows in table.batches(_COLUMNS):
        sums.add(rows)
    return sums


def detections(table: Table, mutant: str) -> list[Row]:
    rows = table.read(["scenario", "seed", "outcome", "invariant", "wall_seconds"])
    found = []
    for scenario in pc.unique(rows["scenario"]).to_pylist():
        mine = rows.filter(pc.equal(rows["scenario"], scenario))  # `read` sorts rows by seed
        first = pc.index(mine["outcome"], "violated").as_py()
        used = mine if first < 0 else mine.slice(0, first + 1)
        found.append(
            {
                "mutant": mutant,
                "scenario": scenario,
                "found": first >= 0,
                "invariant": None if first < 0 else mine["invariant"][first].as_py(),
                "seeds": used.num_rows,
                "seconds": round(pc.sum(used["wall_seconds"]).as_py(), 6),
            }
        )
    return found


def _combinations_with_count(table: pa.Table, columns: list[str]) -> Iterator[tuple[Any, ...]]:
    groups = table.group_by(columns).aggregate([([], "count_all")])
    for row in groups.to_pylist():
        yield (*(row[name] for name in columns), row["count_all"])


def _add_counts(sums: Counter[str], counts: pa.Array) -> None:
    pairs = counts.cast(_COUNTS).flatten()
    table = pa.table({name: pc.struct_field(pairs, name) for name in ("name", "times")})
    for row in table.group_by("name").aggregate([("times", "sum")]).to_pylist():
        sums[row["name"]] += row["times_sum"]


def _sort_null_first(values: tuple[Any, ...]) -> list[tuple[bool, Any]]:
    return [(value is not None, value or "") for value in values]
