"""Sweep table: stores rows in Parquet files, on any file system that Arrow supports, and merges these files.

A complete file has a checksum in each page, and a footer with the columns of `rows` and the number of rows in its name.
Any other file is damaged: it is reported but not read, and its blocks run again. Seeds determine the name of a file, so
if a retried task writes a block again, the second file replaces the first.

A merged file is written, then read again and checked, and then the files of its blocks are deleted. File names alone
determine which files to read, so readers read every row exactly once at any moment of a merge, and an interrupted merge
can be continued without a lock, a list of files or a rename. docs/sweeps.md describes the files.
"""

import errno
import fcntl
import os
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice
from typing import TypeVar

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from pyarrow import fs

from ..place import is_local, is_temporary_name, make_directory, open_place, whole_file
from ..spark.engine import Engine, InProcessEngine
from .request import Block, SeedSpan, StartedSweep, SweepFileError
from .rows import CHECKED, SCHEMA, Row, RowFiles, batch_of, damage_of_row_file, files_that_may_contain

Item = TypeVar("Item")

GROUP_ROWS = 20_000
"""Rows per Parquet row group: few enough for memory, and enough to make footers negligible."""
_ROWS_AT_ONCE = 100
"""Maximum number of rows that exist as Python objects, which need far more memory than Arrow arrays."""
_FILES_PER_TASK = 64
_ZSTD_LEVEL = 9
_ORPHAN_SECONDS = 86_400
"""On file systems without locks, an older temporary file counts as abandoned."""


@dataclass(frozen=True, slots=True)
class Table:
    """The rows of one sweep; `place` is a path or a URI."""

    place: str

    def begun(self) -> StartedSweep | None:
        """Return the started sweep, or None. Raises SweepFileError if sweep.json is unusable."""
        system, root = open_place(self.place)
        path = f"{root}/sweep.json"
        if system.get_file_info(path).type != fs.FileType.File:
            return None
        with system.open_input_stream(path) as stream:
            return StartedSweep.from_json(stream.read().decode())

    def start_sweep(self, begun: StartedSweep) -> None:
        """Create the place, and write sweep.json. Raises SweepFileError if the place has rows."""
        system, root = open_place(self.place)
        make_directory(system, f"{root}/rows")
        if self._row_file_names():
            raise SweepFileError("sweep.json is missing, so the sweep of the existing rows is unknown")
        with whole_file(system, f"{root}/sweep.json") as stream:
            stream.write(begun.to_json().encode())

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Lock the table during the block, and remove temporary files of killed sweeps.

        Raises SweepFileError if another sweep is writing this table. Remote file systems have no locks.
        """
        system, root = open_place(self.place)
        if not is_local(system):
            self._remove_orphans(older_than=time.time() - _ORPHAN_SECONDS)
            yield
            return
        make_directory(system, root)
        with open(f"{root}/sweep.lock", "a+") as lock:
            try:
                # a forked child does not inherit this lock; the kernel releases it if the process dies
                fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                if error.errno not in (errno.EACCES, errno.EAGAIN):
                    raise
                lock.seek(0)
                who = lock.read().strip() or "unknown"
                raise SweepFileError(f"another sweep is running there, process {who}") from error
            lock.truncate(0)
            lock.write(f"{os.getpid()}\n")
            lock.flush()
            self._remove_orphans()
            yield

    def files(self, *, every_page: bool = False, engine: Engine | None = None) -> RowFiles:
        """Find the row files, and damage in their footers.

        every_page: verify the checksum of every page too. engine: runs the checks, else this process does.
        """
        look = partial(_damage_of_files, self.place, every_page=every_page)
        found = (engine or InProcessEngine()).results(look, _in_batches(self._row_file_names(), _FILES_PER_TASK))
        return RowFiles.classify({name: reason for some in found for name, reason in some.items()})

    def write(self, block: Block, rows: Iterable[Row]) -> None:
        """Write the rows of a block durably and atomically; an earlier file is replaced."""
        self.write_file(block.span, (batch_of(some) for some in _in_batches(rows, _ROWS_AT_ONCE)))

    def write_file(self, span: SeedSpan, batches: Iterable[pa.RecordBatch]) -> None:
        system, root = open_place(self.place)
        with (
            whole_file(system, f"{root}/rows/{span.file_name}") as stream,
            pq.ParquetWriter(
                stream, SCHEMA, compression="zstd", compression_level=_ZSTD_LEVEL, write_page_checksum=True
            ) as writer,
        ):
            for group in _row_groups(batches):
                writer.write_table(group, row_group_size=GROUP_ROWS)

    def delete_files(self, names: Iterable[str], engine: Engine) -> None:
        for _ in engine.results(partial(_delete_files, self.place), _in_batches(sorted(names), _FILES_PER_TASK)):
            pass

    def read(self, columns: list[str] | None = None, where: ds.Expression | None = None) -> pa.Table:
        """Return rows, sorted by scenario and seed."""
        keys = [name for name in ("scenario", "seed") if columns is not None and name not in columns]
        found = self._dataset_of().to_table(None if columns is None else [*columns, *keys], filter=where)
        return found.sort_by([("scenario", "ascending"), ("seed", "ascending")]).drop_columns(keys)

    def batches(self, columns: list[str]) -> Iterator[pa.RecordBatch]:
        """Yield batches of unsorted rows."""
        yield from self._dataset_of().to_batches(columns=columns)

    def batches_of(self, name: str) -> Iterator[pa.RecordBatch]:
        """Yield the batches of one file, sorted by seed."""
        yield from self._dataset_of([name]).to_batches(batch_readahead=2)

    def failure_text(self, scenario: str, seed: int) -> str:
        names = files_that_may_contain(self.files().whole, scenario, seed)
        wanted = (ds.field("scenario") == scenario) & (ds.field("seed") == seed)
        (text,) = self._dataset_of(names).to_table(["failure"], filter=wanted)["failure"].to_pylist()
        return str(text)

    def _dataset_of(self, names: Iterable[str] | None = None) -> ds.Dataset:
        system, root = open_place(self.place)
        paths = [f"{root}/rows/{name}" for name in sorted(self.files().whole if names is None else names)]
        return ds.dataset(paths, schema=SCHEMA, filesystem=system, format=CHECKED)

    def _row_file_names(self) -> list[str]:
        return [file.base_name for file in self._listed_files() if not is_temporary_name(file.base_name)]

    def _listed_files(self) -> list[fs.FileInfo]:
        system, root = open_place(self.place)
        return list(system.get_file_info(fs.FileSelector(f"{root}/rows", allow_not_found=True)))

    def _remove_orphans(self, older_than: float | None = None) -> None:
        system, root = open_place(self.place)
        root_files = system.get_file_info(fs.FileSelector(root, allow_not_found=True))
        for file in [*self._listed_files(), *root_files]:
            if is_temporary_name(file.base_name) and (older_than is None or file.mtime.timestamp() < older_than):
                system.delete_file(file.path)


def _delete_files(place: str, names: list[str]) -> None:
    system, root = open_place(place)
    for name in names:
        try:
            system.delete_file(f"{root}/rows/{name}")
        except FileNotFoundError:
            continue  # another run of this task has already deleted the file


def _in_batches(items: Iterable[Item], count: int) -> Iterator[list[Item]]:
    source = iter(items)
    while some := list(islice(source, count)):
        yield some


def _damage_of_files(place: str, names: list[str], *, every_page: bool) -> dict[str, str | None]:
    system, root = open_place(place)
    return {name: damage_of_row_file(system, f"{root}/rows/{name}", name, every_page=every_page) for name in names}


def _row_groups(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Yield tables of GROUP_ROWS rows; the last table may be smaller."""
    waiting: list[pa.RecordBatch] = []
    for batch in batches:
        waiting.append(batch)
        if sum(one.num_rows for one in waiting) >= GROUP_ROWS:
            some = pa.Table.from_batches(waiting, SCHEMA)
            full = some.num_rows // GROUP_ROWS * GROUP_ROWS
            yield some.slice(0, full)
            waiting = some.slice(full).to_batches()
    if waiting:
        yield pa.Table.from_batches(waiting, SCHEMA)


@dataclass(frozen=True, slots=True)
class Merge:
    """The merged file to write, with its source files in ascending order."""

    span: SeedSpan
    parts: tuple[str, ...]


class MergeError(Exception):
    """The rows of a file do not match its name. No file was deleted."""


def merge_table(table: Table, engine: Engine) -> int:
    """Merge the row files of a sweep, and return the number of readable row files.

    Raises SweepFileError without a sweep or while it is running, MergeError if rows do not match their file name.
    """
    with table.locked():
        begun = table.begun()
        if begun is None:
            raise SweepFileError("expected a sweep, found none")
        files = table.files(every_page=True, engine=engine)
        covered, left = set(files.covered), len(files.whole)
        for merge in engine.results(partial(merge_files, table.place), _plan_merges(begun, files)):
            covered.discard(merge.span.file_name)  # the new merged file replaces a damaged one
            covered.update(merge.parts)
            left += 1 - len(merge.parts)
        # otherwise a deletion would lose rows
        assert covered <= set(files.covered) | set(files.whole) | set(files.damaged), covered
        table.delete_files(covered, engine)
    return left


def merge_files(place: str, merge: Merge) -> Merge:
    """Write and verify a merged file."""
    table = Table(place)
    parts = chain.from_iterable(map(table.batches_of, merge.parts))
    table.write_file(merge.span, _check_every_seed(parts, merge.span))
    for _ in _check_every_seed(table.batches_of(merge.span.file_name), merge.span):
        pass
    return merge


def _plan_merges(begun: StartedSweep, files: RowFiles) -> Iterator[Merge]:
    for span in begun.merged():
        parts = files.within(span)
        if files.holds(span) and len(parts) > 1:
            yield Merge(span, tuple(parts))


def _check_every_seed(batches: Iterator[pa.RecordBatch], span: SeedSpan) -> Iterator[pa.RecordBatch]:
    """Raises MergeError unless the batches contain each seed of the span once, in ascending order."""
    at = span.first
    for batch in batches:
        seeds = pa.array(range(at, at + batch.num_rows), pa.int64())
        if not batch["seed"].equals(seeds) or pc.any(pc.not_equal(batch["scenario"], span.scenario)).as_py():
            raise MergeError(f"{span.file_name}: expected the rows of seed {at} and the next ones, found others")
        at += batch.num_rows
        yield batch
    if at != span.end:
        raise MergeError(f"{span.file_name}: expected rows up to seed {span.end - 1}, found none from {at} on")
