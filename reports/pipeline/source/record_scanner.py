"""Record scanner: finds consecutive whole records, in C if the compiled core is installed."""

import numpy as np

from ....store.errors import CorruptFileError
from ....store.formats.columns import ROWS_MAX, PlainRecords
from ....store.formats.scan import scan_records
from ....store.real.native import load_core
from .segment_slice import Array

_QUEUES_MAX = 1 << 16


class RecordScanner:
    """Scans views of one file."""

    def __init__(self, file: str) -> None:
        core = load_core()
        self._file = file
        self._plain = None if core is None else PlainRecords(core)

    def scan(
        self, view: memoryview, at: int, stop: int, base_offset: int
    ) -> tuple[Array, int, CorruptFileError | None]:
        """Return the starts of the next records, the position after the last record, and the error that ended the scan.

        A scan returns at most about ROWS_MAX records that start before `stop`. A record that extends past the view is
        an error only if it is the first record. base_offset: log offset of the first byte of the view.
        """
        found, rows, error = list[Array](), 0, None
        while at < stop and rows < ROWS_MAX and error is None:
            plain = self._plain
            if plain is not None and plain.scan(view[:stop], at, base_offset, check_crc=True):
                some = np.array(plain.column("physical_offset")) - base_offset
                behind = plain.end
            else:
                some, behind, error = self._scan_in_python(view, at, stop, base_offset)
                if not len(some):
                    break
            found.append(some)
            rows += len(some)
            at = behind
        return np.concatenate(found) if found else np.empty(0, np.int64), at, error

    def _scan_in_python(
        self, view: memoryview, at: int, stop: int, base_offset: int
    ) -> tuple[Array, int, CorruptFileError | None]:
        """If the compiled core is installed, scan only one record; the core scans the next ones."""
        starts, behind, plain = list[int](), at, self._plain
        scan = scan_records(view, at, len(view), file=self._file, base_offset=base_offset, check_crc=True)
        try:
            for record in scan:
                starts.append(behind)
                behind += record.size_bytes
                if plain is not None:
                    if len(plain.queues) >= _QUEUES_MAX:
                        plain.forget_queues()
                    plain.register_queue(record.topic, record.queue_id)
                if plain is not None or behind >= stop or len(starts) == ROWS_MAX:
                    break
        except CorruptFileError as found:
            return np.array(starts, np.int64), behind, found
        return np.array(starts, np.int64), behind, None
