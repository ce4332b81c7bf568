"""A key-value store in a write-ahead log: plain code without any test support.

A directory holds segments `log-00000001`, `log-00000002`, … of fixed size, made of consecutive records, then
zeros, and perhaps a `checkpoint` of the same kind of records. Its first record has no key; its value is the number of
the first segment that the checkpoint does not cover, and the number of records that follow.

    record   crc of the rest (4 bytes), bytes of the key (2), of the value (2, -1: the key is deleted), key, value
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager
from struct import Struct
from typing import Any, Protocol
from zlib import crc32

SEGMENT_BYTES = 64
_HEAD = Struct(">IHh")
_COVER = Struct(">II")


class Tasks(Protocol):
    """Tasks, and the objects by which they synchronize."""

    def spawn(self, name: str, body: Any) -> Any: ...
    def lock(self, name: str) -> AbstractContextManager[None]: ...
    def signal(self, name: str) -> Any: ...


class World(Protocol):
    """The environment of the store: threads and files on a real machine, simulated ones in a test."""

    @property
    def tasks(self) -> Tasks: ...
    @property
    def files(self) -> Any: ...


class KvLog:
    """Keys and values of bytes. A put or delete is durable when it returns."""

    def __init__(self, world: World, directory: str) -> None:
        self._tasks, self._files, self._directory = world.tasks, world.files, directory
        self._lock = self._tasks.lock("log")
        self._work = self._tasks.signal("work")
        self._values: dict[bytes, bytes] = {}
        self._number = 0  # of the segment in use
        self._unsynced: list[Any] = []  # segments
        self._waiting: list[Any] = []  # signals of puts that wait for a sync
        self._is_open = False

    def open(self) -> None:
        """Recover from a crash image, and start."""
        self._files.make_directories(self._directory)
        self._files.sync_directory("/")
        self._recover()
        self._is_open = True
        self.compact()  # makes recovered data durable, and removes torn records
        self._flusher = self._tasks.spawn("flusher", self._flush)

    def close(self) -> None:
        """Stop. No put is in flight."""
        self._is_open = False
        self._work.notify()
        self._flusher.join(None)

    def get(self, key: bytes) -> bytes | None:
        """Return the value of a key, None for a missing key."""
        return self._values.get(key)

    def items(self) -> dict[bytes, bytes]:
        """Return all keys with their values."""
        return dict(self._values)

    def put(self, key: bytes, value: bytes | None) -> None:
        """Set the value of a key, and return when it is durable. None deletes the key."""
        durable = self._tasks.signal("durable")
        record = _encode(key, value)
        with self._lock:
            if self._end + len(record) > SEGMENT_BYTES:
                self._rotate()
            self._segment.store(self._end, record)
            self._end += len(record)
            self._apply(key, value)
            if self._segment not in self._unsynced:
                self._unsynced.append(self._segment)
            self._waiting.append(durable)
        self._work.notify()
        durable.wait(None)

    def delete(self, key: bytes) -> None:
        """Remove a key, and return when the removal is durable."""
        self.put(key, None)

    def compact(self) -> None:
        """Write all values to a new checkpoint and remove the segments it covers. One task at a time."""
        with self._lock:
            values, covered = self.items(), self._number
            self._rotate()
        self._replace_checkpoint(values, covered + 1)
        self._remove_segments(upto=covered)

    def _flush(self) -> None:
        """Make puts durable, many by one sync. This is the flusher's task."""
        while self._is_open:
            self._work.wait(None)
            with self._lock:
                segments, self._unsynced = self._unsynced, []
                waiting, self._waiting = self._waiting, []
            for segment in segments:
                segment.fdatasync()
            for durable in waiting:
                durable.notify()

    def _rotate(self) -> None:
        """Begin a new segment. Its name must be durable before a sync of its content counts."""
        self._number += 1
        self._segment = self._files.map(self._path(self._number), SEGMENT_BYTES)
        self._end = 0
        self._sync_names()

    def _replace_checkpoint(self, values: dict[bytes, bytes], first: int) -> None:
        """Replace the last checkpoint by a complete one."""
        new, name = f"{self._directory}/checkpoint.new", f"{self._directory}/checkpoint"
        self._files.write(new, encode_checkpoint(values, first))
        self._files.sync(new)
        self._files.rename(new, name)
        self._sync_names()

    def _sync_names(self) -> None:
        self._files.sync_directory(self._directory)

    def _recover(self) -> None:
        first = self._load_checkpoint() if self._files.status(f"{self._directory}/checkpoint") else 1
        self._remove_segments(upto=first - 1)
        self._number = first - 1
        for number in self._segments():
            for key, value in _decode(self._files.read(self._path(number))):
                self._apply(key, value)
            self._number = number

    def _load_checkpoint(self) -> int:
        """Load the checkpoint, and return the number of the first segment it does not cover."""
        records = list(_decode(self._files.read(f"{self._directory}/checkpoint")))
        if not records or records[0][0] or records[0][1] is None:
            raise ValueError("checkpoint: expected a head, found none")
        first, count = _COVER.unpack(records[0][1])
        if len(records) != 1 + count:
            raise ValueError(f"checkpoint: expected {count} records, found {len(records) - 1}")
        for key, value in records[1:]:
            self._apply(key, value)
        return int(first)

    def _remove_segments(self, upto: int) -> None:
        for number in self._segments():
            if number <= upto:
                self._files.unlink(self._path(number))

    def _segments(self) -> list[int]:
        names = self._files.list_directory(self._directory)
        return [int(name.removeprefix("log-")) for name in names if name.startswith("log-")]

    def _path(self, number: int) -> str:
        return f"{self._directory}/log-{number:08}"

    def _apply(self, key: bytes, value: bytes | None) -> None:
        if value is None:
            self._values.pop(key, None)
        else:
            self._values[key] = value


def encode_checkpoint(values: dict[bytes, bytes], first: int) -> bytes:
    """Return a checkpoint's content; first: the number of the first segment it does not cover."""
    head = _encode(b"", _COVER.pack(first, len(values)))
    return head + b"".join(_encode(key, value) for key, value in values.items())


def _encode(key: bytes, value: bytes | None) -> bytes:
    size = -1 if value is None else len(value)
    rest = _HEAD.pack(0, len(key), size)[4:] + key + (value or b"")
    return crc32(rest).to_bytes(4, "big") + rest


def _decode(data: bytes) -> Iterator[tuple[bytes, bytes | None]]:
    """Yield records up to the first incomplete one."""
    at = 0
    while at + _HEAD.size <= len(data):
        crc, key_bytes, value_bytes = _HEAD.unpack_from(data, at)
        middle = at + _HEAD.size + key_bytes
        end = middle + max(value_bytes, 0)
        if crc32(data[at + 4 : end]) != crc:
            return
        yield data[at + _HEAD.size : middle], None if value_bytes < 0 else data[middle:end]
        at = end
