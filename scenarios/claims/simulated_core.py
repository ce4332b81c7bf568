"""SimulatedCore: the functions of the C core in Python, for stores on simulated disks.

With a core, a store dispatches, recovers, indexes, pulls and puts by other code than without one. This class runs that
code in simulations, with the same results on machines with and without the C core. The C core itself would write to
memory without the knowledge of the simulated disk. `NativeCore` documents all functions.
"""

import struct
from array import array
from collections.abc import Iterator, Sequence
from functools import lru_cache
from sys import byteorder
from typing import Any

from ...faults.disk.mapped_file import MapPages
from ...store.errors import CorruptFileError, InvalidMessageError
from ...store.formats.batch import encode_batch_records
from ...store.formats.columns import COLUMNS, KEY_COLUMNS, ROWS_MAX, Pulled, Run
from ...store.formats.consume_queue import BLANK_ENTRY, decode_entry, encode_entry, is_ext_address
from ...store.formats.consume_queue import ENTRY_BYTES as QUEUE_ENTRY_BYTES
from ...store.formats.host import IPV4_BYTES, IPV6_BYTES, Host
from ...store.formats.index import (
    ENTRY,
    ENTRY_BYTES,
    HEADER_BYTES,
    SLOT,
    SLOT_BYTES,
    entries_position,
    time_diff_s,
)
from ...store.formats.index import encode_entry as encode_index_entry
from ...store.formats.index_key import key_hash, key_hashes, keys_of
from ...store.formats.java_hash import java_hash
from ...store.formats.message import (
    BLANK_BYTES,
    BORN_HOST_V6,
    HOST_V6_MASK,
    MAGIC_AT,
    MESSAGE_MAGIC,
    STORE_HOST_V6,
    TRANSACTION_MASK,
    TRANSACTION_PREPARED,
    TRANSACTION_ROLLBACK,
    encode_record,
    place_records,
)
from ...store.formats.messages import is_storable_topic
from ...store.formats.properties import PROPERTY_INNER_MULTI_DISPATCH, PROPERTY_TAGS, find_property
from ...store.formats.redirect import DELAY_MARK
from ...store.formats.scan import ScannedRecord, scan_records
from ...store.log.segment import Segment
from ...store.world import MappedFile

_UNQUEUED = (TRANSACTION_PREPARED, TRANSACTION_ROLLBACK)
_NO_QUEUE = -1
_MAGIC = MESSAGE_MAGIC.to_bytes(4, "big", signed=True)
_TAGS, _LIGHT = PROPERTY_TAGS.encode(), PROPERTY_INNER_MULTI_DISPATCH.encode()
_INT32_MAX, _INT64_MAX = (1 << 31) - 1, (1 << 63) - 1
_TIME_MAX_MS = 1 << 62
_AT_FRONT = (0,)
_KEYS_MAX = 1024
_HOSTS = ("born_timestamp_ms", "born_host", "store_host", "reconsume_times")
_RECORD_FIELDS = ("topic", "properties", "body", "queue_id", "flag", "sys_flag", *_HOSTS, "prepared_transaction_offset")
_BATCH_FIELDS = ("units", "topic", "shared_properties", "queue_id", "sys_flag", *_HOSTS)
"""Parameters of `NativeCore.encode` and `encode_batch`, in order."""


def plain_records(log: memoryview, start: int, base_offset: int, *, check_crc: bool) -> Iterator[ScannedRecord]:
    """Yield the records of a log from a position on, up to the first one that the C core leaves to Python."""
    at = start
    records = scan_records(log, start, len(log), file="", base_offset=base_offset, check_crc=check_crc)
    while True:
        try:
            record = next(records, None)
        except CorruptFileError:
            return
        if record is None or log[at + MAGIC_AT : at + MAGIC_AT + 4] != _MAGIC:
            return
        if 0 in record.properties or find_property(record.properties, _LIGHT):
            return
        yield record
        at += record.size_bytes


class SimulatedCore:
    """A core that reads at most `records_max` records at once. Small numbers make many batches of a short log."""

    def __init__(self, records_max: int = ROWS_MAX) -> None:
        assert records_max > 0, records_max
        self._records_max = records_max

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
        if not 0 <= start <= len(log):
            raise ValueError("start is outside of the log")
        table, key_table = _Table(rows, len(COLUMNS)), _Table(keys, len(KEY_COLUMNS))
        records_max, count, key_count, end = min(self._records_max, table.rows), 0, 0, start
        for record in plain_records(log, start, base_offset, check_crc=check_crc):
            tags = find_property(record.properties, _TAGS) or b""
            if not (record.topic.isascii() and tags.isascii()):
                break
            queue, transaction = _NO_QUEUE, record.sys_flag & TRANSACTION_MASK
            if transaction not in _UNQUEUED:
                name = record.queue_id.to_bytes(4, "big", signed=True) + record.topic.encode()
                queue = queues.get(name, _NO_QUEUE)
                if queue == _NO_QUEUE:
                    break
            if count == records_max or record.store_timestamp_ms > stored_ms_max:
                break
            hashes: tuple[int, ...] = ()
            if transaction != TRANSACTION_ROLLBACK:
                if not all(key.isascii() for key in keys_of(record.properties)):
                    break
                hashes = key_hashes(record.topic, record.properties)
            if key_count + len(hashes) > key_table.rows:
                break
            offset, stored_ms = record.physical_offset, record.store_timestamp_ms
            table.set(count, offset, record.size_bytes, queue, record.queue_offset, stored_ms, java_hash(tags.decode()))
            for number, hashed in enumerate(hashes, start=key_count):
                key_table.set(number, hashed, offset, stored_ms)
            count, key_count, end = count + 1, key_count + len(hashes), end + record.size_bytes
        return count, key_count, end

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
        segments: Sequence[Segment],
        segment_bytes: int,
        log_begin: int,
        limit: int,
        offsets: list[int],
        records: list[bytes],
        /,
    ) -> bool:
        encoded = _encode_and_hash(topic, key)
        if encoded is None:
            return False
        raw_topic, raw_key, hashed = encoded
        numbers = (next_entry, begin_ms, end_ms, count_max, limit)
        if not 0 <= file_begin_ms <= _TIME_MAX_MS or min(numbers) < -_INT64_MAX - 1 or max(numbers) > _INT64_MAX:
            return False
        entries_at = entries_position(slots)
        if slots <= 0 or entries_at > len(index):
            raise ValueError("slots or log is out of range, or a result is no list")
        (number,) = SLOT.unpack_from(index, HEADER_BYTES + SLOT_BYTES * (hashed % slots))
        if number > next_entry or number >= (len(index) - entries_at) // ENTRY_BYTES:
            return True
        while number > 0 and len(offsets) < count_max:
            stored_hash, offset, diff_s, previous = ENTRY.unpack_from(index, entries_at + ENTRY_BYTES * number)
            stored_ms = file_begin_ms + (1000 * diff_s if number > 1 else 0)
            is_in_time = begin_ms <= stored_ms + 999 and stored_ms <= end_ms
            if stored_hash == hashed and is_in_time and log_begin <= offset < limit and offset not in offsets:
                segment_number, position = divmod(offset - log_begin, segment_bytes)
                if segment_number >= len(segments):
                    return False
                room = min(limit - offset, segment_bytes - position)
                found = _record_with_key(
                    segments[segment_number].file, position, room, offset, raw_topic, raw_key, begin_ms
                )
                if found is None:
                    return False
                if found:
                    offsets.append(offset)
                    records.append(found)
            if stored_ms + 999 < begin_ms or previous >= number:
                return True
            number = previous
        return True

    def runs(self, rows: bytearray, count: int, queues: int, /) -> list[Run]:
        table = _Table(rows, len(COLUMNS))
        if not 0 <= count <= table.rows or queues < 0:
            raise ValueError("count or queues is out of range")
        runs: list[Run] = []
        ends: dict[int, int] = {}
        found = [table.get(row) for row in range(count)]
        if not all(_NO_QUEUE <= row[2] < queues for row in found):
            raise ValueError("a row has a queue that is out of range")
        for offset, size_bytes, queue, queue_offset, stored_ms, tags_code in sorted(found, key=lambda row: row[2]):
            if queue == _NO_QUEUE:
                continue
            entry, time = encode_entry(offset, size_bytes, tags_code), stored_ms.to_bytes(8, byteorder, signed=True)
            if ends.get(queue) == queue_offset:
                _, first, entries, times = runs.pop()
                runs.append((queue, first, entries + entry, times + time))
            else:
                runs.append((queue, queue_offset, entry, time))
            ends[queue] = queue_offset + 1
        return runs

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
        table = _Table(keys, len(KEY_COLUMNS))
        is_valid = 0 <= begin <= end <= table.rows and 1 <= number <= _INT32_MAX - (end - begin)
        if not is_valid or slots <= 0 or entries_position(slots) > len(index):
            raise ValueError("rows, slots or number is out of range")
        entries, used = bytearray(), 0
        for row in range(begin, end):
            hashed, offset, stored_ms = table.get(row)
            slot_at = entries_position(hashed % slots)
            previous = newest[slot_at] if slot_at in newest else SLOT.unpack_from(index, slot_at)[0]
            newest[slot_at] = number
            if not 0 < previous < number:  # the slot is invalid after a crash
                previous, used = 0, used + 1
            entries += encode_index_entry(hashed, offset, time_diff_s(begin_ms, stored_ms), previous)
            if number == 1:
                begin_ms = stored_ms
            number += 1
        return bytes(entries), used

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
        records: list[bytes] = []
        offsets: list[int] = []
        places: list[int] = []
        examined = taken_bytes = last = 0
        for place in range(len(entries) // QUEUE_ENTRY_BYTES):
            offset, size_bytes, tags_code = decode_entry(entries, place * QUEUE_ENTRY_BYTES)
            at = offset - base_offset
            if offset < begin or not 0 < size_bytes < BLANK_ENTRY.size_bytes or is_ext_address(tags_code):
                break
            if not 0 <= at <= len(log) - size_bytes:
                break
            if records and (len(records) >= count_max or taken_bytes + size_bytes > bytes_max):
                break
            examined, last = place + 1, offset
            if codes is None or tags_code & 0xFFFFFFFF in codes:
                records.append(bytes(log[at : at + size_bytes]))
                offsets.append(offset)
                places.append(place)
                taken_bytes += size_bytes
        return records, offsets, places, examined, taken_bytes, last

    def encode(self, *values: Any) -> bytearray | None:
        fields = dict(zip(_RECORD_FIELDS, values, strict=True))
        if b"\0" in fields["properties"] or not _do_host_bits_match(fields):
            return None
        try:
            return encode_record(**fields, store_timestamp_ms=0)
        except (InvalidMessageError, struct.error):
            return None

    def encode_batch(self, *values: Any) -> tuple[bytearray, tuple[int, ...]] | None:
        fields = dict(zip(_BATCH_FIELDS, values, strict=True))
        if b"\0" in fields["shared_properties"] or not _do_host_bits_match(fields):
            return None
        try:
            encoded = encode_batch_records(**fields, clean=None)
        except (CorruptFileError, InvalidMessageError, struct.error):
            return None
        return encoded if encoded[1] else None

    place = staticmethod(place_records)

    def store(
        self,
        pages: MapPages,
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
        host_bits = _host_bits(born_host, store_host)
        if host_bits is None or len(body) > body_bytes_max or sys_flag & TRANSACTION_MASK in _UNQUEUED:
            return 0
        if queue_id < 0 or not is_storable_topic(topic) or DELAY_MARK in properties:
            return 0
        try:
            raw_topic, raw_properties = topic.encode(), properties.encode()
        except UnicodeEncodeError:
            return 0
        record = self.encode(
            raw_topic,
            raw_properties,
            body,
            queue_id,
            flag,
            sys_flag & ~HOST_V6_MASK | host_bits,
            born_timestamp_ms,
            born_host,
            store_host,
            reconsume_times,
            prepared_transaction_offset,
        )
        if record is None or not 0 <= position <= len(pages) - len(record) - BLANK_BYTES:
            return 0
        is_v6 = bool(host_bits & BORN_HOST_V6)
        place_records(record, _AT_FRONT, queue_offset, physical_offset, store_timestamp_ms, is_v6)
        pages[position : position + len(record)] = record
        return len(record)


@lru_cache(maxsize=_KEYS_MAX)  # a query calls `find` for each index file
def _encode_and_hash(topic: str, key: str) -> tuple[bytes, bytes, int] | None:
    """Return topic and key in UTF-8, and their hash; None if UTF-8 cannot encode them."""
    try:
        raw_topic, raw_key = topic.encode(), key.encode()
    except UnicodeEncodeError:
        return None
    return raw_topic, raw_key, key_hash(topic, raw_key)


def _record_with_key(
    file: MappedFile, position: int, room: int, offset: int, topic: bytes, key: bytes, stored_ms_min: int
) -> bytes | None:
    """Return the record at a position if it has a key; empty bytes for another record; None if it is not plain."""
    if position + room > file.size_bytes:
        return None
    log = file.view(position, position + room)
    record = next(plain_records(log, 0, offset, check_crc=False), None)
    if record is None:
        return None
    if record.store_timestamp_ms < stored_ms_min or record.topic.encode() != topic:
        return b""
    if key not in keys_of(record.properties):
        return b""
    if next(plain_records(log, 0, offset, check_crc=True), None) is None:
        return None
    return bytes(log[: record.size_bytes])


def _do_host_bits_match(fields: dict[str, Any]) -> bool:
    return bool(fields["sys_flag"] & HOST_V6_MASK == _host_bits(fields["born_host"], fields["store_host"]))


def _host_bits(born_host: Host, store_host: Host) -> int | None:
    """Return the bits of sysFlag for two hosts; None if an address has an unusual length."""
    bits = 0
    for host, bit in ((born_host, BORN_HOST_V6), (store_host, STORE_HOST_V6)):
        if len(host.address) not in (IPV4_BYTES, IPV6_BYTES):
            return None
        bits |= bit if len(host.address) == IPV6_BYTES else 0
    return bits


class _Table:
    """A table of columns in a buffer, one column after the other."""

    def __init__(self, buffer: bytearray, columns: int) -> None:
        values = memoryview(buffer).cast("q")
        self.rows = len(values) // columns
        self._values = values[: self.rows * columns]

    def set(self, row: int, *values: int) -> None:
        self._values[row :: self.rows] = array("q", values)

    def get(self, row: int) -> list[int]:
        return self._values[row :: self.rows].tolist()
