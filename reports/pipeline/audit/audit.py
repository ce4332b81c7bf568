"""Audit: runs the checks of `tornlog verify` as parallel tasks on Spark.

The findings and their order are the same as from `tornlog verify`. Each task checks parts of the log, of the queues or
of the index, and this module joins the results.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from io import BytesIO
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from ....store.tools.geometry import Geometry
from ....store.tools.verify import Verification, verify_directory
from ....store.tools.violation import DirectoryViolation
from ..place import make_directory, open_place, whole_file
from ..source.directory import StoreDirectory
from ..spark.engine import Engine
from .place_files import EngineSpread, files_at

_SPLIT_BYTES = 1 << 30
"""Segment bytes per task: half a second of work. A segment that must be copied before reading is not divided."""
SCHEMA = pa.schema(
    [("promise", pa.string()), ("file", pa.string()), ("offset", pa.int64())]
    + [(name, pa.string()) for name in ("field", "expected", "found")]
)
_FILE = "findings.parquet"


def audit(
    engine: Engine, place: str, geometry: Geometry | None = None, advance: Callable[[int], None] = lambda read: None
) -> Verification:
    """Verify the store at a path or URI. `advance` is called with the number of log bytes checked so far.

    Log paths in `geometry` may be URIs too. Raises FileNotFoundError if `place` has no store, OSError if a file is
    unreadable.
    """
    geometry = geometry or Geometry()
    directory = StoreDirectory(place, geometry.commit_log_paths)
    if not directory.exists:
        raise FileNotFoundError(f"{place}: no such directory")
    if not directory.segments() and not directory.has_queues:
        raise FileNotFoundError(f"{place}: no store: neither a segment of a log nor a queue")
    logs = [open_place(one.strip())[1] for one in geometry.commit_log_paths.split(",") if one.strip()]
    geometry = replace(geometry, commit_log_paths=",".join(logs))
    system, _ = open_place(place)
    split_bytes = _SPLIT_BYTES if isinstance(system, fs.LocalFileSystem) else 0
    spread = EngineSpread(engine, place)
    return verify_directory(files_at(place), directory.root, geometry, advance, spread=spread, split_bytes=split_bytes)


def select_violations(violations: Sequence[DirectoryViolation], limit: int) -> list[DirectoryViolation]:
    """Return at most `limit` violations in the given order, with an equal share for each promise.

    One corrupt record may break one promise hundreds of times, and would hide other broken promises.
    """
    ranks, seen = list[tuple[int, int]](), Counter[str]()
    for position, violation in enumerate(violations):
        seen[violation.promise.value] += 1
        ranks.append((seen[violation.promise.value], position))
    return [violations[position] for position in sorted(position for _, position in sorted(ranks)[:limit])]


def fields_of_violation(violation: DirectoryViolation) -> dict[str, Any]:
    return violation._asdict() | {"promise": violation.promise.value}


def write_violations(violations: Sequence[DirectoryViolation], place: str) -> None:
    """Overwrite the Parquet file of an earlier audit."""
    table = pa.Table.from_pylist([fields_of_violation(violation) for violation in violations], SCHEMA)
    raw = BytesIO()
    pq.write_table(table, raw)
    system, root = open_place(place)
    make_directory(system, root)
    with whole_file(system, f"{root.rstrip('/')}/{_FILE}") as stream:
        stream.write(raw.getvalue())
