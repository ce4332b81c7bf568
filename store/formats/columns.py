"""Columns: tables of plain records that the C core reads from the log.

The C core, if it was built, replaces a Python loop over `scan_records`. The core stops before each record that is not
plain, as defined in native/scan.c. `scan_records` then decodes the record or reports its error, and the core continues
after the record. The core and `scan_records` find the same records.

A table contains equally long columns of native 64-bit integers, one column after the other. numpy can read it without
a copy: `numpy.frombuffer(table, numpy.int64).reshape(len(COLUMNS), -1)`.
"""

from typing import Protocol

from .delay_level import SCHEDULE_TOPIC
from .host import Host

COLUMNS = ("physical_offset", "size_bytes", "queue", "queue_offset", "store_timestamp_ms", "tags_code")
"""`queue` is a number from `PlainRecords.register_queue`, or -1 if the record is added to no queue."""
KEY_COLUMNS = ("key_hash", "physical_offset", "store_timestamp_ms")
"""Columns of an index key."""

ROWS_MAX = 8192
"""Rows of a table: few enough to stay in the CPU cache until they are used."""
_INT64_BYTES = 8
NEVER_MS = (1 << 63) - 1


Run = tuple[int, int, bytes, bytes]
"""Records of one queue with consecutive queueOffsets: queue number, first queueOffset, encoded queue entries, and the
store times as native 64-bit integers.
"""

Pulled = tuple[list[bytes], list[int], list[int], int, int, int]
"""The records, their log offsets and the numbers of their entries; then the number of examined entries, the total size
of the records, and the log offset in the last examined entry.
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
        into a table. Returns the number of records, the number of keys, and the position after the last record.
        """

    def with_key(
        self, log: memoryview, physical_offset: int, topic: bytes, key: bytes, stored_ms_min: int, /
    ) -> bytes | None:
        """Return the first record in `log` if it has this topic and key and is not older than stored_ms_min.

        Returns empty bytes if the record does not match, and None if it is not plain.
        """

    def runs(self, rows: bytearray, count: int, queues: int, /) -> list[Run]:
        """Group the first `count` rows into runs that are as long as possible, by queue and then in log order."""

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
        """Return the encoded index entries of the keys in rows begin to end, and how many begin a slot.

        Entries are numbered from `number` on. Each refers to the previous entry of its slot, from `newest` or else
        from the file. `newest` maps the position of a slot in the file to its newest entry, and is updated. begin_ms
        is the begin time in the file's header.
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

        `codes` are the tag hashes to return; None returns all records. Stops before an entry that is not plain, whose
        record is outside `log` or before log offset `begin`, or with which the result would exceed count_max or
        bytes_max. The first record may exceed bytes_max.
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
        """Encode a record like `encode_record`. Returns None if `encode_record` would raise an error."""

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
        """Encode records like `encode_batch_records`.

        Returns None if `encode_batch_records` would raise an error or find no unit.
        """

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
        """Write offsets and times into records like `place_records`."""

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
        """Queues (topic, id); the number of a queue is its index in this list."""
        self._numbers: dict[bytes, int] = {}
        self._rows = bytearray(_INT64_BYTES * len(COLUMNS) * ROWS_MAX)
        self._keys = bytearray(_INT64_BYTES * len(KEY_COLUMNS) * ROWS_MAX)

    def register_queue(self, topic: str, queue_id: int) -> int | None:
        """Let later scans include the records of a queue, and return the number of the queue.

        Returns None and does nothing for a queue of delayed messages, because its tagsCode is not a hash.
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
        """Scan plain records until the table is full. Returns whether any were found.

        base_offset is the log offset of the view. The scan stops before a record that was stored after stored_ms_max.
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
        """See `NativeCore.runs`."""
        if self._runs is None:
            self._runs = self._core.runs(self._rows, self.count, len(self.queues))
        return self._runs

    def link(
        self, begin: int, end: int, index: memoryview, slots: int, newest: dict[int, int], number: int, begin_ms: int
    ) -> tuple[bytes, int]:
        """See `NativeCore.link`."""
        assert 0 <= begin <= end <= self.key_count, (begin, end, self.key_count)
        return self._core.link(self._keys, begin, end, index, slots, newest, number, begin_ms)


def _column_view(table: bytearray, number: int, count: int) -> "memoryview[int]":
    begin = _INT64_BYTES * ROWS_MAX * number
    return memoryview(table)[begin : begin + _INT64_BYTES * count].cast("q")
