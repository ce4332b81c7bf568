"""Sweep rows: define the columns that a sweep stores for each seed.

    column          type                              meaning
    scenario        string                            name
    seed            int64
    mutant          string                            the bug put into the store; null for the unmodified store
    disk            string                            name in `DISK_MODELS`, drawn or requested
    policy          string                            drawn or requested
    profiles        list<string>                      the crash profile of each process run
    sync_flush      bool
    producers       int32
    lives           int32
    heals           bool                              whether the run checked liveness
    parameters      string                            all values that the seed drew before the run, as JSON
    outcome         string                            held, violated, nondeterministic, harness-error, timed-out or
                                                      crashed
    invariant       string                            the promise that broke first; null if no promise broke
    signature       string                            scenario, promise and kind of violation; null if no promise broke
    digest          string                            digest of the run, or empty
    crashes, ...    int32, int64                      each count of `RunCounts`: messages, steps
    virtual_ns      int64
    injected        map<string, int64>                injected faults, by kind
    marks           map<string, int64>                rare code paths of the run
    features        list<string>                      names of `pairs.FEATURES` that the plan switched on
    tried           list<string>                      invariants that were checked after a fault that could break them
    put_latency     list<struct<us: int64, puts: int64>>  virtual time of acknowledged puts, exact to 1 us, ascending
    size            struct<messages, preemptions, sectors: int32>  of the failure; null without one
    failure         string                            the failure artefact; null without a failure
    error           string                            error of the harness or of its process; null if there was none
    code            string                            version and source hash of the code that ran the seed
    tornlog, python string                            versions
    wall_seconds    double                            the only column that differs between runs of a seed

Except for wall_seconds, the row of a seed does not depend on the machine, the process or the order of seeds.
"""

import json
import platform
from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa

from .... import __version__
from ....scenarios.campaigns.seeds import SeedResult
from ....scenarios.claims.plan import Plan
from ....scenarios.runs.outcome import COUNTED
from ..spark.engine import own_code_version

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
