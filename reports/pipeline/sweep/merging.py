"""Merging: joins the row files of many blocks into one file, sorted by seed.

    1. the merged file is written atomically and named by its seeds, like any row file
    2. the merged file is read again: every page checksum must match, and every seed must exist once, in order
    3. the row files of the merged blocks are deleted

Readers read every row exactly once, also after an interrupted merge: before step 1 is done from the block files, then
from the merged file. Only file names determine which files to read. So merging needs no lock, no list of files and no
rename, and works on POSIX, HDFS and object stores. The next call continues an interrupted merge.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import chain

import pyarrow as pa
import pyarrow.compute as pc

from ..spark.engine import Engine
from .request import SeedSpan, StartedSweep, SweepFileError
from .row_files import RowFiles
from .table import Table


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
            raise SweepFileError("no sweep is there")
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
