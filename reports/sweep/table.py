"""Where a sweep's rows are: one Parquet file per block, on any file system that Arrow knows.

    DIR/sweep.json             what was asked for: the fields of `Request`, and `rounds` only if it is guided
    DIR/rows/<block>.parquet   the rows of a block, whole or not there

A block's file is written aside and then given its name, which is the block's own. So whoever writes a block twice,
be it a sweep that goes on after it was killed or a task that was tried again, leaves every seed there once.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from pyarrow import fs

from ..place import open_place
from .request import Block, Request
from .rows import SCHEMA, Row, batch_of

_ROWS_AT_ONCE = 100


@dataclass(frozen=True, slots=True)
class Table:
    """The rows of one sweep; `place` is a path or a URI."""

    place: str

    def request(self) -> Request | None:
        """Return what the sweep here was asked for, None if there is none. Raises SweepFileError."""
        system, root = open_place(self.place)
        path = f"{root}/sweep.json"
        if system.get_file_info(path).type != fs.FileType.File:
            return None
        with system.open_input_stream(path) as stream:
            return Request.from_json(stream.read().decode())

    def begin(self, request: Request) -> None:
        """Make the place, and note there what is asked for."""
        system, root = open_place(self.place)
        system.create_dir(f"{root}/rows", recursive=True)
        with system.open_output_stream(f"{root}/sweep.json") as stream:
            stream.write(request.to_json().encode())

    def finished(self) -> set[str]:
        """Return the names of the files of the blocks that are done."""
        system, root = open_place(self.place)
        selector = fs.FileSelector(f"{root}/rows", allow_not_found=True)
        return {
            file.base_name for file in system.get_file_info(selector) if file.base_name.endswith(".parquet")
        }

    def write(self, block: Block, rows: Iterable[Row]) -> None:
        """Write a block's rows, all of them or nothing, in place of what may be there."""
        system, root = open_place(self.place)
        aside = f"{root}/rows/.{block.file_name}.{uuid4().hex}"
        with system.open_output_stream(aside) as stream, _writer(stream) as writer:
            for some in _in_groups(rows):
                writer.write_batch(batch_of(some))
        system.move(aside, f"{root}/rows/{block.file_name}")

    def read(self, columns: list[str] | None = None) -> pa.Table:
        """Return all rows, by scenario and seed."""
        system, root = open_place(self.place)
        keys = [name for name in ("scenario", "seed") if columns is not None and name not in columns]
        found = ds.dataset(f"{root}/rows", schema=SCHEMA, filesystem=system, format="parquet").to_table(
            None if columns is None else [*columns, *keys]
        )
        return found.sort_by([("scenario", "ascending"), ("seed", "ascending")]).drop_columns(keys)

    def batches(self, columns: list[str]) -> Iterator[pa.RecordBatch]:
        """Yield some columns of all rows, piece by piece and in no order."""
        system, root = open_place(self.place)
        rows = ds.dataset(f"{root}/rows", schema=SCHEMA, filesystem=system, format="parquet")
        yield from rows.to_batches(columns=columns)

    def rows_of(self, blocks: Iterable[Block], columns: list[str]) -> Iterator[Row]:
        """Yield some columns of the rows of blocks that are done, block by block."""
        system, root = open_place(self.place)
        for block in blocks:
            path = f"{root}/rows/{block.file_name}"
            yield from pq.read_table(path, columns=columns, filesystem=system).to_pylist()

    def failure_text(self, scenario: str, seed: int) -> str:
        """Return the failure artefact of a seed that has one."""
        wanted = (ds.field("scenario") == scenario) & (ds.field("seed") == seed)
        system, root = open_place(self.place)
        rows = ds.dataset(f"{root}/rows", schema=SCHEMA, filesystem=system, format="parquet")
        (text,) = rows.to_table(["failure"], filter=wanted)["failure"].to_pylist()
        found: str = text
        return found


def _writer(stream: Any) -> pq.ParquetWriter:
    return pq.ParquetWriter(stream, SCHEMA, compression="zstd")


def _in_groups(rows: Iterable[Row]) -> Iterator[list[Row]]:
    group: list[Row] = []
    for row in rows:
        group.append(row)
        if len(group) == _ROWS_AT_ONCE:
            yield group
            group = []
    if group:
        yield group
