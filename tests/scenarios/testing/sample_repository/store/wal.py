"""A write-ahead log in one file: consecutive records of length, CRC and payload, then zeros."""

from struct import Struct
from zlib import crc32

CAPACITY_BYTES = 4096
_HEAD = Struct(">HI")


class WriteAheadLog:
    """A log whose payloads survive a crash once `append` has returned."""

    def __init__(self, files, directory):
        self._files, self._directory = files, directory
        self._path = f"{directory}/wal"
        self._end = 0

    def open(self):
        """Read the stored payloads and return them. Then `append` adds payloads after them."""
        if self._files.status(self._directory) is None:
            self._files.make_directories(self._directory)
            self._files.sync_directory("/")
        self._file = self._files.map(self._path, CAPACITY_BYTES)
        payloads = list(self._payloads())
        self._file.store(self._end, bytes(CAPACITY_BYTES - self._end))
        self._file.fdatasync()
        return payloads

    def append(self, payload):
        """Store a payload, durably."""
        record = _HEAD.pack(len(payload), crc32(payload)) + payload
        self._file.store(self._end, record)
        self._end += len(record)
        self._file.fdatasync()

    def _payloads(self):
        raw = bytes(self._file.view(0, CAPACITY_BYTES))
        while self._end + _HEAD.size < CAPACITY_BYTES:
            length, crc = _HEAD.unpack_from(raw, self._end)
            payload = raw[self._end + _HEAD.size : self._end + _HEAD.size + length]
            if not length or crc32(payload) != crc:
                return
            self._end += _HEAD.size + length
            yield payload
