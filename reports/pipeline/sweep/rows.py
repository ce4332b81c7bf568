"""Sweep rows: define the columns that a sweep stores for each seed, and find the row files and their damage.

Except for wall_seconds, the row of a seed does not depend on the machine, the process or the order of seeds.
docs/sweeps.md describes the columns. File names alone determine which files to read, so no list of files exists.
"""

import json
import platform
from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from pyarrow import fs

from .... import __version__
from ....scenarios.campaigns.seeds import SeedResult
from ....scenarios.claims.plan import Plan
from ....scenarios.runs.outcome import COUNTED
from ..spark.engine import own_code_version
from .request import SeedSpan

_COUNTS = pa.map_(pa.string(), pa.int64())
_LATENCY = pa.list_(pa.struct([("us", pa.int64()), ("puts", pa.int64())]))
_SIZE = pa.struct([("messages", pa.int32()), ("preemptions", pa.int32()), ("sectors", pa.int32())])

SCHEMA = pa.schema(
    [
        pa.field("scenario", pa.string(), nullable=False),
        pa.field("seed", pa.int64(), nullable=False),
        pa.field("mutant", pa.string()),
        pa.field("disk", pa.string()),
        pa.field("policy", pa.string()),
        pa.field("profiles", pa.list_(pa.string())),
        pa.field("sync_flush", pa.bool_()),
        pa.field("producers", pa.int32()),
        pa.field("lives", pa.int32()),
        pa.field("heals", pa.bool_()),
        pa.field("parameters", pa.string()),
        pa.field("outcome", pa.string(), nullable=False),
        pa.field("invariant", pa.string()),
        pa.field("signature", pa.string()),
        pa.field("digest", pa.string(), nullable=False),
        *(pa.field(one.column, pa.type_for_alias(f"int{one.bits}")) for one in COUNTED),
        pa.field("virtual_ns", pa.int64()),
        pa.field("injected", _COUNTS),
        pa.field("marks", _COUNTS),
        pa.field("features", pa.list_(pa.string())),
        pa.field("tried", pa.list_(pa.string())),
        pa.field("put_latency", _LATENCY),
        pa.field("size", _SIZE),
        pa.field("failure", pa.string()),
        pa.field("error", pa.string()),
        pa.field("code", pa.string(), nullable=False),
        pa.field("tornlog", pa.string()),
        pa.field("python", pa.string()),
        pa.field("wall_seconds", pa.float64()),
    ]
)

Row = dict[str, Any]
_OF_RESULT = ("scenario", "seed", "outcome", "digest", "virtual_ns", "wall_seconds")
"""Columns copied from `SeedResult`."""


def row_of(result: SeedResult, mutant: str | None) -> Row:
    failure = result.failure
    size = None if failure is None else failure.smallest.size
    return {
        **{name: getattr(result, name) for name in _OF_RESULT},
        **{one.column: getattr(result, one.name) for one in COUNTED},
        "mutant": mutant,
        **_drawn_columns(result.plan),
        "invariant": None if failure is None else failure.violations[0].invariant,
        "signature": None if failure is None else failure.signature,
        "injected": _count_columns(result.injected),
        "marks": _count_columns(result.marks),
        "features": list(result.features),
        "tried": list(result.tried),
        "put_latency": [{"us": us, "puts": puts} for us, puts in sorted(result.put_us.items())],
        "size": None if size is None else {field.name: getattr(size, field.name) for field in _SIZE},
        "failure": None if failure is None else failure.to_json(),
        "error": result.error or None,
        "code": own_code_version(),
        "tornlog": __version__,
        "python": platform.python_version(),
    }


def batch_of(rows: Iterable[Row]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(list(rows), schema=SCHEMA)


def _drawn_columns(plan: Plan | None) -> Row:
    if plan is None:
        names = ("disk", "policy", "profiles", "sync_flush", "producers", "lives", "heals", "parameters")
        return dict.fromkeys(names)
    return {
        "disk": plan.disk,
        "policy": plan.policy,
        "profiles": [life.profile for life in plan.lives],
        "sync_flush": plan.sync_flush,
        "producers": plan.producers,
        "lives": len(plan.lives),
        "heals": plan.heals,
        "parameters": json.dumps(plan.to_json(), sort_keys=True),
    }


def _count_columns(counter: Mapping[str, int]) -> list[tuple[str, int]]:
    return sorted(counter.items())


CHECKED = ds.ParquetFileFormat(
    default_fragment_scan_options=ds.ParquetFragmentScanOptions(page_checksum_verification=True)
)
"""The format of row files, with verification of page checksums."""


@dataclass(frozen=True, slots=True)
class RowFiles:
    """Names of the row files of a table. Invariant: no two files of `whole` contain the same seed."""

    whole: frozenset[str] = frozenset()
    covered: frozenset[str] = frozenset()
    """Files that are not read, because all their seeds are in files of `whole`."""
    damaged: Mapping[str, str] = field(default_factory=dict)
    """File -> reason why its rows do not match its name."""
    _held: Mapping[str, list[tuple[int, int]]] = field(default_factory=dict)
    """Ranges of the seeds in `whole`, by scenario; ascending, not adjacent."""

    @classmethod
    def classify(cls, found: Mapping[str, str | None]) -> "RowFiles":
        """found: file name -> damage, or None."""
        damaged = {name: reason for name, reason in found.items() if reason is not None}
        spans = [span for name in found if name not in damaged and (span := SeedSpan.of_file(name)) is not None]
        whole, covered = set(), set()
        held: dict[str, list[tuple[int, int]]] = {}
        for span in sorted(spans, key=lambda span: (span.scenario, span.first, -span.count)):
            ranges = held.setdefault(span.scenario, [])
            until = ranges[-1][1] if ranges else 0
            if span.end <= until:
                covered.add(span.file_name)
            elif span.first < until:
                damaged[span.file_name] = f"seeds: expected none below {until}, because another file has them"
            else:
                whole.add(span.file_name)
                first = ranges.pop()[0] if ranges and span.first == until else span.first
                ranges.append((first, span.end))
        for name in list(damaged):
            lost = SeedSpan.of_file(name)
            if lost is not None and _files_in_span(held, lost):
                covered.add(name)
                del damaged[name]
        assert not whole & (covered | damaged.keys()), whole & (covered | damaged.keys())
        return cls(frozenset(whole), frozenset(covered), damaged, held)

    def holds(self, span: SeedSpan) -> bool:
        return _files_in_span(self._held, span)

    def within(self, span: SeedSpan) -> list[str]:
        """Return the files with only seeds in a span, in ascending order."""
        found = [one for one in map(SeedSpan.of_file, self.whole) if one is not None and _is_part_of(one, span)]
        return [one.file_name for one in sorted(found)]


def damage_of_row_file(system: fs.FileSystem, path: str, name: str, *, every_page: bool) -> str | None:
    """Return why the rows of a file do not match its name; None if they match."""
    span = SeedSpan.of_file(name)
    if span is None:
        return "file name: expected that of a block of seeds"
    try:
        footer = pq.read_metadata(path, filesystem=system)
        if footer.num_rows != span.count:
            return f"rows: expected {span.count}, found {footer.num_rows}"
        if not footer.schema.to_arrow_schema().equals(SCHEMA):
            return "columns: expected those of this version"
        if every_page:
            pages = ds.dataset([path], schema=SCHEMA, filesystem=system, format=CHECKED).to_batches()
            deque(pages, 0)
    except (pa.ArrowInvalid, OSError) as error:
        return str(error).partition("\n")[0]
    return None


def files_that_may_contain(names: Iterable[str], scenario: str, seed: int) -> list[str]:
    return [
        name for name in names if (span := SeedSpan.of_file(name)) and _is_part_of(SeedSpan(scenario, seed, 1), span)
    ]


def _is_part_of(one: SeedSpan, other: SeedSpan) -> bool:
    return one.scenario == other.scenario and other.first <= one.first and one.end <= other.end


def _files_in_span(held: Mapping[str, list[tuple[int, int]]], span: SeedSpan) -> bool:
    ranges = held.get(span.scenario, [])
    at = bisect_right(ranges, span.first, key=lambda one: one[0]) - 1
    return at >= 0 and span.end <= ranges[at][1]
