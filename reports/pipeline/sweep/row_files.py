"""Row files: finds the row files of a sweep and their damage.

    DIR/rows/<scenario>-<first>-<count>.parquet   the rows of seeds [first, first + count) of a scenario, by seed

File names alone determine which files to read, so no list of files exists. A merged file has the same form of name, and
covers the files of its blocks: readers skip the covered files, and a merge deletes them. So every row is read once,
even after an interrupted merge.
"""

from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from pyarrow import fs

from .request import SeedSpan
from .rows import SCHEMA

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
                damaged[span.file_name] = f"seeds: expected none below {until}, for another file has them"
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
        """Return the files whose seeds are all in a span, in ascending order."""
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
