"""Columns: the plain records of a log, thousands at a time, as the core in C reads them.

The core takes the place of a loop in Python over `scan_records`, where there is one and the world hands it on. What is
not plain (native/records.c says what that is) it leaves: `scan_records` knows the whole rule, takes that one record or
says what is wrong with it, and the core goes on behind it. Either way the same records are found.

A table is columns one behind the other, each of the machine's own 64-bit integers, with room for the same number of
rows. numpy can take one without a copy: `numpy.frombuffer(table, numpy.int64).reshape(len(COLUMNS), -1)`.
"""

from typing import Protocol

from .delay_level import SCHEDULE_TOPIC
from .host import Host

COLUMNS = ("physical_offset", "size_bytes", "queue", "queue_offset", "store_timestamp_ms", "tags_code")
"""Of a record. queue: its number among those that are known, -1 if the record belongs in no queue."""
KEY_COLUMNS = ("key_hash", "physical_offset", "store_timestamp_ms")
"""Of a key that the index has."""

ROWS_MAX = 8192
"""Of a table: few enough to stay in a processor's cache until they are used."""
_INT64_BYTES = 8
NEVER_MS = (1 << 63) - 1
"""Behind the store time of any record."""


Run = tuple[int, int, bytes, bytes]
"""Records of one queue whose queueOffsets rise by one: the queue's number, the first queueOffset, the entries that the
queue has of them, and their store times, as 64-bit integers of the machine."""

Pulled = tuple[list[bytes], list[int], list[int], int, int, int]
"""Records, their log offsets, and the numbers of their entries; then how many entries were looked at, how many bytes
the records are, and the log offset that the last of these entries has."""


class Core(Protocol):
    """What the core in C does."""

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
        """Write the plain records from a position on into a table, and their keys into another.

        Ends in front of a record that is not plain, whose queue is not among queues, that was stored behind
        stored_ms_max, or for which there is no room. Return how many records there are, how many keys, and the position
        behind.
        """

    def with_key(
        self, log: memoryview, physical_offset: int, topic: bytes, key: bytes, stored_ms_min: int, /
    ) -> bytes | None:
        """Return the record that log begins with if it has that topic and key, and was stored no earlier than that.

        No bytes if it is another one; None if it is not plain.
        """

    def runs(self, rows: bytearray, count: int, queues: int, /) -> list[Run]:
        """Return the first count records as the longest runs there are, queue by queue, each queue's in log order."""

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
        """Return index entries for the keys in some rows of a table, and how many slots these are the first of.

        They are numbered from number on, and each leads to the one before it in its slot: to one that newest has for
        the slot's position in the file, where they are noted too, or to one that the file has. begin_ms: the time in
        its header.
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
        """Return the records that entries of one queue lead to, in one segment, as far as readers may see that.

        Wanted are those whose tag's hash is among codes, None for all. Ends in front of an entry that is not plain,
        whose record is not in log or in front of the log offset begin, or with which there would be more than count_max
        records or bytes_max bytes; the first is taken however long it is.
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
        """Return a record that is to be placed, as `encode_record` does; None where that would raise an error."""

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
        """Return records, as `encode_batch_records` does; None where that would raise an error, or find no unit."""

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
        """Write what only the put lock can know into records, as `place_records` does."""


class PlainRecords:
    """Some plain records of a log in columns; the next ones take their place."""

    def __init__(self, core: Core) -> None:
        self.end = 0
        """Position behind the last one."""
        self.count = 0
        self.key_count = 0
        self._core = core
        self._runs: list[Run] | None = None
        self.queues: list[tuple[str, int]] = []
        """The queues that are known, by number."""
        self._numbers: dict[bytes, int] = {}
        self._rows = bytearray(_INT64_BYTES * len(COLUMNS) * ROWS_MAX)
        self._keys = bytearray(_INT64_BYTES * len(KEY_COLUMNS) * ROWS_MAX)

    def know(self, topic: str, queue_id: int) -> int | None:
        """Find records of a queue from now on, and return its number.

        None, and nothing changes, for queues of delayed messages: their tagsCode is no hash.
        """
        if topic == SCHEDULE_TOPIC:
            return None
        name = queue_id.to_bytes(4, "big", signed=True) + topic.encode()
        number = self._numbers.setdefault(name, len(self.queues))
        if number == len(self.queues):
            self.queues.append((topic, queue_id))
        return number

    def forget_queues(self) -> None:
        """Know no queue any more."""
        self._numbers.clear()
        self.queues.clear()

    def scan(
        self, view: memoryview, start: int, base_offset: int, *, check_crc: bool, stored_ms_max: int = NEVER_MS
    ) -> bool:
        """Take as many records as are plain and as there is room for; return whether there are any.

        base_offset is the log offset of the view's first byte. Records stored later than stored_ms_max are left.
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
        """Return one of COLUMNS, until the next scan."""
        return _column(self._rows, COLUMNS.index(name), self.count)

    def key_column(self, name: str) -> "memoryview[int]":
        """Return one of KEY_COLUMNS, until the next scan."""
        return _column(self._keys, KEY_COLUMNS.index(name), self.key_count)

    def runs(self) -> list[Run]:
        """Return what `Core.runs` does, until the next scan."""
        if self._runs is None:
            self._runs = self._core.runs(self._rows, self.count, len(self.queues))
        return self._runs

    def link(
        self, begin: int, end: int, index: memoryview, slots: int, newest: dict[int, int], number: int, begin_ms: int
    ) -> tuple[bytes, int]:
        """Return what `Core.link` does, of the keys in rows from begin to end."""
        assert 0 <= begin <= end <= self.key_count, (begin, end, self.key_count)
        return self._core.link(self._keys, begin, end, index, slots, newest, number, begin_ms)


def _column(table: bytearray, number: int, count: int) -> "memoryview[int]":
    begin = _INT64_BYTES * ROWS_MAX * number
    return memoryview(table)[begin : begin + _INT64_BYTES * count].cast("q")
