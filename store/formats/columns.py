"""Columns: tables of plain records that the C core reads from the log.

The optional C core replaces a Python loop over `scan_records` and finds the same records. The core stops before each
record that is not plain, as defined in native/scan.c. `scan_records` then decodes this record or reports its error.

A table contains equally long columns of native 64-bit integers, one after the other:
`numpy.frombuffer(table, numpy.int64).reshape(len(COLUMNS), -1)`.
"""

from typing import Protocol

from .delay_level import SCHEDULE_TOPIC
from .host import Host

COLUMNS = ("physical_offset", "size_bytes", "queue", "queue_offset", "store_timestamp_ms", "tags_code")
"""`queue` is a number from `PlainRecords.register_queue`, or -1 if the record belongs to no queue."""
KEY_COLUMNS = ("key_hash", "physical_offset", "store_timestamp_ms")
"""Columns of index keys."""

ROWS_MAX = 8192
"""Number of rows in a table, which fits into the CPU cache."""
_INT64_BYTES = 8
NEVER_MS = (1 << 63) - 1


Run = tuple[int, int, bytes, bytes]
"""Records of one queue with consecutive queueOffsets: queue number, first queueOffset, encoded queue entries, and store
times as native 64-bit integers.
"""

Pulled = tuple[list[bytes], list[int], list[int], int, int, int]
"""Records, their log offsets, the numbers of their entries, the number of examined entries, the total size of the
records, and the log offset in the last examined entry.
"""


class NativeCore(Protocol):
    """Functions of the C core."""

    def scan(
        self,
        log: memoryview,
        start: int,
        base_offset: int,
        check_crc: bool,
        queues: dict[bytes, int],
        stored_ms_max: int,
        rows: bytearray,
        keys: bytearray,
        /,
    ) -> tuple[int, int, int]:
        """Write the plain records from `start` on into the table `rows`, and their keys into the table `keys`.

        Stops before a record that is not plain, has an unknown queue, is newer than stored_ms_max or does not fit
        into a table. Returns the numbers of records and keys, and the position after the last record.
        """

    def find(
        self,
        index: memoryview,
        slots: int,
        next_entry: int,
        file_begin_ms: int,
        topic: str,
        key: str,
        begin_ms: int,
        end_ms: int,
        count_max: int,
        segments: tuple[object, ...],
        segment_bytes: int,
        log_begin: int,
        limit: int,
        offsets: list[int],
        records: list[bytes],
        /,
    ) -> bool:
        """Add the records with this topic and key from one index file, and their log offsets, to two lists.

        Selects the same entries as `IndexFile.select_offsets`, and reads records up to log offset `limit`. next_entry
        and file_begin_ms are from the header of the index file. `segments` are the log's, the first at log_begin.

        Returns False, with incomplete lists, if a record to read is not plain, an argument does not fit into 64
        bits, or topic or key is not valid Unicode.
        """

    def runs(self, rows: bytearray, count: int, queues: int, /) -> list[Run]:
        """Group the first `count` rows into the longest possible runs."""

    def link(
        self,
        keys: bytearray,
        begin: int,
        end: int,
        index: memoryview,
        slots: int,
        newest: dict[int, int],
        number: int,
        begin_ms: int,
        /,
    ) -> tuple[bytes, int]:
        """Encode index entries for the keys in rows `begin` to `end`. Returns the entries and the number of new slots.

        The first entry has the number `number`. Each entry refers to the previous entry of its slot, which is in
        `newest` or the file. The core updates `newest`, which maps the position of a slot to its newest entry.
        begin_ms is the begin time in the file's header.
        """

    def pull(
        self,
        entries: memoryview,
        log: memoryview,
        base_offset: int,
        begin: int,
        codes: frozenset[int] | None,
        count_max: int,
        bytes_max: int,
        /,
    ) -> Pulled:
        """Return the records to which entries of one queue point. `log` is the readable part of one segment.

        `codes` are the tag hashes to return, or None for all. Stops before an entry that is not plain, or if its record
        is outside `log` or before log offset `begin`. Returns up to count_max records and bytes_max bytes, but the
        first record may be larger.
        """

    def encode(
        self,
        topic: bytes,
        properties: bytes,
        body: bytes,
        queue_id: int,
        flag: int,
        sys_flag: int,
        born_timestamp_ms: int,
        born_host: Host,
        store_host: Host,
        reconsume_times: int,
        prepared_transaction_offset: int,
        /,
    ) -> bytearray | None:
        """Encode a record, or return None if `encode_record` would raise an error."""

    def encode_batch(
        self,
        units: bytes,
        topic: bytes,
        shared_properties: bytes,
        queue_id: int,
        sys_flag: int,
        born_timestamp_ms: int,
        born_host: Host,
        store_host: Host,
        reconsume_times: int,
        /,
    ) -> tuple[bytearray, tuple[int, ...]] | None:
        """Encode records, or return None if there is no unit or `encode_batch_records` would raise an error."""

    def place(
        self,
        records: bytearray,
        starts: tuple[int, ...],
        queue_offset: int,
        physical_offset: int,
        store_timestamp_ms: int,
        born_host_v6: bool,
        /,
    ) -> None:
        """Do the same as `place_records`."""

    def store(
        self,
        pages: memoryview,
        position: int,
        body_bytes_max: int,
        topic: str,
        properties: str,
        body: bytes,
        queue_id: int,
        flag: int,
        sys_flag: int,
        born_timestamp_ms: int,
        born_host: Host,
        store_host: Host,
        reconsume_times: int,
        prepared_transaction_offset: int,
        queue_offset: int,
        physical_offset: int,
        store_timestamp_ms: int,
        /,
    ) -> int:
        """Write the record of a plain message at a position of a segment's pages, like `encode` and `place`.

        Returns the size of the record. Returns 0, without a change, if the record and a blank record do not fit, or if
        the message is not plain: it has a delay, a transaction type without queue offset, or an error.
        """


class PlainRecords:
    """A batch of plain records. Each scan overwrites the previous batch."""

    def __init__(self, core: NativeCore) -> None:
        self.end = 0
        self.count = 0
        self.key_count = 0
        self._core = core
        self._runs: list[Run] | None = None
        self.queues: list[tuple[str, int]] = []
        """Topic and queue id of each registered queue. The index in this list is the number of the queue."""
        self._numbers: dict[bytes, int] = {}
        self._rows = bytearray(_INT64_BYTES * len(COLUMNS) * ROWS_MAX)
        self._keys = bytearray(_INT64_BYTES * len(KEY_COLUMNS) * ROWS_MAX)

    def register_queue(self, topic: str, queue_id: int) -> int | None:
        """Include the records of a queue in later scans. Returns the number of the queue.

        Returns None, without an effect, for delayed messages, because their tagsCode is not a hash.
        """
        if topic == SCHEDULE_TOPIC:
            return None
        name = queue_id.to_bytes(4, "big", signed=True) + topic.encode()
        number = self._numbers.setdefault(name, len(self.queues))
        if number == len(self.queues):
            self.queues.append((topic, queue_id))
        return number

    def forget_queues(self) -> None:
        self._numbers.clear()
        self.queues.clear()

    def scan(
        self, view: memoryview, start: int, base_offset: int, *, check_crc: bool, stored_ms_max: int = NEVER_MS
    ) -> bool:
        """Scan plain records until the table is full. Returns whether the table has a record.

        base_offset is the log offset of the view. The scan stops before a record with a store time after stored_ms_max.
        """
        self._runs = None
        count, key_count, end = self._core.scan(
            view, start, base_offset, check_crc, self._numbers, stored_ms_max, self._rows, self._keys
        )
        assert 0 <= count <= ROWS_MAX, count
        assert 0 <= key_count <= ROWS_MAX, key_count
        assert start <= end <= len(view), (start, end, len(view))
        self.count, self.key_count, self.end = count, key_count, end
        return count > 0

    def column(self, name: str) -> "memoryview[int]":
        """Return one of COLUMNS. The view is valid until the next scan."""
        return _column_view(self._rows, COLUMNS.index(name), self.count)

    def key_column(self, name: str) -> "memoryview[int]":
        return _column_view(self._keys, KEY_COLUMNS.index(name), self.key_count)

    def runs(self) -> list[Run]:
        if self._runs is None:
            self._runs = self._core.runs(self._rows, self.count, len(self.queues))
        return self._runs

    def link(
        self, begin: int, end: int, index: memoryview, slots: int, newest: dict[int, int], number: int, begin_ms: int
    ) -> tuple[bytes, int]:
        assert 0 <= begin <= end <= self.key_count, (begin, end, self.key_count)
        return self._core.link(self._keys, begin, end, index, slots, newest, number, begin_ms)


def _column_view(table: bytearray, number: int, count: int) -> "memoryview[int]":
    begin = _INT64_BYTES * ROWS_MAX * number
    return memoryview(table)[begin : begin + _INT64_BYTES * count].cast("q")
