"""A sweep's table: one Parquet file per block, on any file system that Arrow knows.

    DIR/sweep.json             what was asked for, the fields of `SweepRequest`, and by which code
    DIR/sweep.lock             held by the sweep that is at work here; on this machine's file systems only
    DIR/rows/<block>.parquet   the rows of a block, whole or not there

A file is written aside and then given its name, which is the block's own. So whoever writes a block twice, be it a
sweep that goes on after it was killed or a task that was tried again, leaves every seed there once. A block that was
reported as done stays so through a power cut: `whole_file` syncs the file and its name.

Whether a file is whole is not believed of its name: the footer has to be there, at the end of the file, with the
columns of `rows` and as many rows as the block has seeds, and every page has a checksum. What is not whole is damaged:
it is not read, it is named, and its block is to be done again.
"""

import errno
import fcntl
import os
import re
import time
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from pyarrow import fs

from ..place import is_aside, is_local, make_directory, open_place, whole_file
from .request import Begun, Block, SweepFileError, SweepRequest
from .rows import SCHEMA, Row, batch_of

_ROWS_AT_ONCE = 100
_BLOCK = re.compile(r"(.+)-([0-9]{10,})-([0-9]+)\.parquet")
"""`Block.file_name`: scenario, first seed, count."""
_ORPHAN_SECONDS = 86_400
"""Age from which on a file that was written aside is nobody's, where no lock shows whether a sweep is at work."""
_CHECKED = ds.ParquetFileFormat(
    default_fragment_scan_options=ds.ParquetFragmentScanOptions(page_checksum_verification=True)
)


@dataclass(frozen=True, slots=True)
class RowFiles:
    """The files of rows that are in a table's place, by name."""

    whole: frozenset[str] = frozenset()
    damaged: dict[str, str] = field(default_factory=dict)
    """Those that hold no block's rows, or not all of them, and why."""


@dataclass(frozen=True, slots=True)
class Table:
    """The rows of one sweep; `place` is a path or a URI."""

    place: str

    def begun(self) -> Begun | None:
        """Return what the sweep here was asked for and by which code, None if there is none. Raises SweepFileError."""
        system, root = open_place(self.place)
        path = f"{root}/sweep.json"
        if system.get_file_info(path).type != fs.FileType.File:
            return None
        with system.open_input_stream(path) as stream:
            return Begun.from_json(stream.read().decode())

    def begin(self, request: SweepRequest) -> None:
        """Make the place, and note there what is asked for. Raises SweepFileError if rows of some sweep are there."""
        system, root = open_place(self.place)
        make_directory(system, f"{root}/rows")
        if self._names():
            raise SweepFileError("sweep.json is gone, and there are rows: of which sweep they are cannot be known")
        with whole_file(system, f"{root}/sweep.json") as stream:
            stream.write(Begun(request).to_json().encode())

    @contextmanager
    def held(self) -> Iterator[None]:
        """Keep other sweeps out of the place for as long as the block lasts, and remove what killed ones left aside.

        Raises SweepFileError if another one is at work here. Only file systems of this machine know locks.
        """
        system, root = open_place(self.place)
        if not is_local(system):
            self._remove_orphans(older_than=time.time() - _ORPHAN_SECONDS)
            yield
            return
        make_directory(system, root)
        with open(f"{root}/sweep.lock", "a+") as lock:
            try:
                # its children do not have it, and a death ends it
                fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                if error.errno not in (errno.EACCES, errno.EAGAIN):
                    raise
                lock.seek(0)
                who = lock.read().strip() or "unknown"
                raise SweepFileError(f"another sweep is at work there, process {who}") from error
            lock.truncate(0)
            lock.write(f"{os.getpid()}\n")
            lock.flush()
            self._remove_orphans()
            yield

    def files(self, *, every_page: bool = False) -> RowFiles:
        """Return which files of rows are whole by their footers, or, if so asked, by the checksum of every page."""
        system, root = open_place(self.place)
        whole, damaged = set(), {}
        for name in self._names():
            path = f"{root}/rows/{name}"
            reason = _damage(system, path, name, every_page=every_page)
            if reason is None:
                whole.add(name)
            else:
                damaged[name] = reason
        return RowFiles(frozenset(whole), damaged)

    def write(self, block: Block, rows: Iterable[Row]) -> None:
        """Write a block's rows, all of them or nothing, in place of what may be there; they are durable then."""
        system, root = open_place(self.place)
        with (
            whole_file(system, f"{root}/rows/{block.file_name}") as stream,
            pq.ParquetWriter(stream, SCHEMA, compression="zstd", write_page_checksum=True) as writer,
        ):
            for some in _in_groups(rows):
                writer.write_batch(batch_of(some))

    def read(self, columns: list[str] | None = None) -> pa.Table:
        """Return all rows, by scenario and seed."""
        keys = [name for name in ("scenario", "seed") if columns is not None and name not in columns]
        found = self._rows().to_table(None if columns is None else [*columns, *keys])
        return found.sort_by([("scenario", "ascending"), ("seed", "ascending")]).drop_columns(keys)

    def batches(self, columns: list[str]) -> Iterator[pa.RecordBatch]:
        """Yield some columns of all rows, piece by piece and in no order."""
        yield from self._rows().to_batches(columns=columns)

    def failure_text(self, scenario: str, seed: int) -> str:
        """Return the failure artefact of a seed that has one."""
        names = [name for name in self._names() if _may_hold(name, scenario, seed)]
        wanted = (ds.field("scenario") == scenario) & (ds.field("seed") == seed)
        (text,) = self._rows(names).to_table(["failure"], filter=wanted)["failure"].to_pylist()
        return str(text)

    def _rows(self, names: Iterable[str] | None = None) -> ds.Dataset:
        """Return the rows in some files; without names, in all whole ones."""
        system, root = open_place(self.place)
        paths = [f"{root}/rows/{name}" for name in sorted(self.files().whole if names is None else names)]
        return ds.dataset(paths, schema=SCHEMA, filesystem=system, format=_CHECKED)

    def _names(self) -> list[str]:
        """Return the names of all files of rows but those that are aside."""
        return [file.base_name for file in self._listed() if not is_aside(file.base_name)]

    def _listed(self) -> list[fs.FileInfo]:
        system, root = open_place(self.place)
        return list(system.get_file_info(fs.FileSelector(f"{root}/rows", allow_not_found=True)))

    def _remove_orphans(self, older_than: float | None = None) -> None:
        system, root = open_place(self.place)
        beside = system.get_file_info(fs.FileSelector(root, allow_not_found=True))
        for file in [*self._listed(), *beside]:
            if is_aside(file.base_name) and (older_than is None or file.mtime.timestamp() < older_than):
                system.delete_file(file.path)


def _damage(system: fs.FileSystem, path: str, name: str, *, every_page: bool) -> str | None:
    """Return why a file does not hold the rows of the block it is named by, None if it does."""
    block = _BLOCK.fullmatch(name)
    if block is None:
        return "file name: expected that of a block of seeds"
    try:
        footer = pq.read_metadata(path, filesystem=system)
        if footer.num_rows != int(block[3]):
            return f"rows: expected {int(block[3])}, found {footer.num_rows}"
        if not footer.schema.to_arrow_schema().equals(SCHEMA):
            return "columns: expected those of this version"
        if every_page:
            pages = ds.dataset([path], schema=SCHEMA, filesystem=system, format=_CHECKED).to_batches()
            deque(pages, 0)
    except (pa.ArrowInvalid, OSError) as error:
        return str(error).partition("\n")[0]
    return None


def _may_hold(name: str, scenario: str, seed: int) -> bool:
    block = _BLOCK.fullmatch(name)
    return block is not None and block[1] == scenario and 0 <= seed - int(block[2]) < int(block[3])


def _in_groups(rows: Iterable[Row]) -> Iterator[list[Row]]:
    group: list[Row] = []
    for row in rows:
        group.append(row)
        if len(group) == _ROWS_AT_ONCE:
            yield group
            group = []
    if group:
        yield group
