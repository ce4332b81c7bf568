"""File shadows: compare file contents, to find stores that caused no stop."""

import errno
import os
from collections.abc import Iterator

from . import ptrace
from .files import KnownFile

PAGE_BYTES = 4096
_BLOCK_BYTES = 1 << 16
_SHORT_BYTES = 64


def difference(old: bytes, new: bytes) -> tuple[int, int] | None:
    """Return the range in which two versions of a page differ, or None. Zeros extend the shorter version."""
    if old == new:
        return None
    size = max(len(old), len(new))
    old, new = old.ljust(size, b"\0"), new.ljust(size, b"\0")
    if ptrace.CORE is not None:
        return ptrace.CORE.difference(old, new)
    start, end = 0, size
    while end - start > _SHORT_BYTES:  # fast path for short stores
        middle = (start + end) // 2
        if old[start:middle] == new[start:middle]:
            start = middle
        elif old[middle:end] == new[middle:end]:
            end = middle
        else:
            break
    bits = int.from_bytes(old[start:end], "little") ^ int.from_bytes(new[start:end], "little")
    if not bits:
        return None
    return start + ((bits & -bits).bit_length() - 1) // 8, start + (bits.bit_length() + 7) // 8


class FileShadow:
    """The last known content of one file. Holes are omitted."""

    def __init__(self, file: KnownFile) -> None:
        self._file = file
        self._blocks: dict[int, bytes] = {}
        self.refresh()

    def refresh(self) -> None:
        self._blocks = dict(self._read_blocks())

    def changes(self) -> Iterator[tuple[int, bytes]]:
        """Yield the changed bytes of each page with their offset, and update the known content."""
        for at, new in self._read_blocks():
            old = self._blocks.get(at, b"")
            if old == new:
                continue
            self._blocks[at] = new
            for page in range(0, len(new), PAGE_BYTES):
                content = new[page : page + PAGE_BYTES]
                span = difference(old[page : page + PAGE_BYTES], content)
                if span is not None:
                    yield at + page + span[0], content[span[0] : span[1]]

    def _read_blocks(self) -> Iterator[tuple[int, bytes]]:
        """Yield all blocks except holes, with their offsets."""
        descriptor, at, size = self._file.descriptor, 0, self._file.size_bytes
        while at < size:
            try:
                at = max(at, os.lseek(descriptor, at, os.SEEK_DATA) // _BLOCK_BYTES * _BLOCK_BYTES)
            except OSError as error:
                if error.errno != errno.ENXIO:
                    raise
                return  # the rest of the file is a hole
            yield at, os.pread(descriptor, _BLOCK_BYTES, at)
            at += _BLOCK_BYTES
