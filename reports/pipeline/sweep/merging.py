"""Merging: the rows of many blocks become one file, sorted by seed.

    1. the merged file is written under the name of its seeds, whole or not there, as any file of rows
    2. it is read again: every page's checksum, and every seed once and in order
    3. the blocks' files, which it covers, are deleted

A merge that is interrupted leaves all rows readable, once each, at any point: until 1 has ended the blocks' files are
read, from then on the merged one is, and which it is is known by their names. Called again it goes on. Nothing is
locked, listed or renamed for that, so it is the same on POSIX, on HDFS and on object stores.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import chain

import pyarrow as pa
import pyarrow.compute as pc

from ..spark.engine import Engine
from .request import Begun, SeedSpan, SweepFileError
from .row_files import RowFiles
from .table import Table


@dataclass(frozen=True, slots=True)
class Merge:
    """The file to make, and the files it is made of, ascending."""

    span: SeedSpan
    parts: tuple[str, ...]


class MergeError(Exception):
    """Files that do not hold the seeds that they are named by; nothing was deleted."""


def merge_table(table: Table, engine: Engine) -> int:
    """Merge what is complete of a sweep's rows, and return how many files of rows that can be read are left.

    Raises SweepFileError if there is no sweep or one is at work here, MergeError if rows are not what names say.
    """
    with table.held():
        begun = table.begun()
        if begun is None:
            raise SweepFileError("no sweep is there")
        files = table.files(every_page=True, engine=engine)
        covered, left = set(files.covered), len(files.whole)
        for merge in engine.results(partial(merge_files, table.place), _merges(begun, files)):
            covered.discard(merge.span.file_name)  # a damaged one, which is whole now
            covered.update(merge.parts)
            left += 1 - len(merge.parts)
        table.delete_files(covered, engine)
    return left


def merge_files(place: str, merge: Merge) -> Merge:
    """Make a merged file, and return what was asked for once the file is proved to hold it."""
    table = Table(place)
    parts = chain.from_iterable(map(table.batches_of, merge.parts))
    table.write_file(merge.span, _of_every_seed(parts, merge.span))
    for _ in _of_every_seed(table.batches_of(merge.span.file_name), merge.span):
        pass
    return merge


def _merges(begun: Begun, files: RowFiles) -> Iterator[Merge]:
    for span in begun.merged():
        parts = files.within(span)
        if files.holds(span) and len(parts) > 1:
            yield Merge(span, tuple(parts))


def _of_every_seed(batches: Iterator[pa.RecordBatch], span: SeedSpan) -> Iterator[pa.RecordBatch]:
    """Pass rows on. Raises MergeError unless they are those of each seed of a span, once and ascending."""
    at = span.first
    for batch in batches:
        seeds = pa.array(range(at, at + batch.num_rows), pa.int64())
        if not batch["seed"].equals(seeds) or pc.any(pc.not_equal(batch["scenario"], span.scenario)).as_py():
            raise MergeError(f"{span.file_name}: expected the rows of seed {at} and the next ones, found others")
        at += batch.num_rows
        yield batch
    if at != span.end:
        raise MergeError(f"{span.file_name}: expected rows up to seed {span.end - 1}, found none from {at} on")
