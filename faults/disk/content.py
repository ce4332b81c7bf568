"""Content of a file: plain bytes, or sparse pages that store no zeros.

A segment of 1 GiB with a hundred records must cost only the memory of the records, so long files are `SparseBytes`.
Simulation runs have small files and read them through views, so these files are `bytes`. Both classes have a length and
slices.
"""

from collections.abc import Iterator, Mapping
from hashlib import blake2b
from itertools import compress
from operator import ne

PAGE_BYTES = 4096
_NOTHING = bytes(PAGE_BYTES)
_FLAT_BYTES_MAX = 1 << 20  # up to this length, sparse and plain content have the same digest
_SUM_BITS = 128


class SparseBytes:
    """Mutable bytes, mostly zeros. Invariant: a stored page has PAGE_BYTES bytes, not all zero, with zeros after the
    end.
    """

    __slots__ = ("_pages", "_size_bytes", "_sum")

    def __init__(self, size_bytes: int = 0, pages: Mapping[int, bytes] | None = None) -> None:
        self._size_bytes = size_bytes
        self._pages = dict(pages or {})
        self._sum: int | None = None
        """Sum of the page digests; None before the first use."""

    @classmethod
    def from_content(cls, content: "Content") -> "SparseBytes":
        if isinstance(content, SparseBytes):
            return content.copy()
        made = cls(len(content))
        made[0 : len(content)] = content
        return made

    def copy(self) -> "SparseBytes":
        twin = SparseBytes(self._size_bytes, self._pages)
        if self._size_bytes > _FLAT_BYTES_MAX:
            self.page_sum()  # before the copy, so that the copy inherits it
        twin._sum = self._sum
        return twin

    def __len__(self) -> int:
        return self._size_bytes

    def __getitem__(self, where: slice) -> bytes:
        start, end, _ = where.indices(self._size_bytes)
        first, last = start // PAGE_BYTES, -(-end // PAGE_BYTES)
        if first >= last or start >= end:
            return b""
        if last == first + 1:  # most calls touch one page
            return self._pages.get(first, _NOTHING)[start - first * PAGE_BYTES : end - first * PAGE_BYTES]
        found = b"".join(self._pages.get(page, _NOTHING) for page in range(first, last))
        return found[start - first * PAGE_BYTES : end - first * PAGE_BYTES]

    def __setitem__(self, where: slice, data: bytes | bytearray | memoryview) -> None:
        start, end, _ = where.indices(self._size_bytes)
        assert len(data) == end - start, (start, end, len(data))
        for page in range(start // PAGE_BYTES, -(-end // PAGE_BYTES)):
            at = page * PAGE_BYTES
            first, last = max(at, start), min(at + PAGE_BYTES, end)
            piece = bytes(data[first - start : last - start])
            if len(piece) < PAGE_BYTES:
                before = self._pages.get(page, _NOTHING)
                piece = before[: first - at] + piece + before[last - at :]
            self._set_page(page, piece)

    def with_pages_replaced(self, pages: Mapping[int, bytes | bytearray]) -> "SparseBytes":
        """Return a copy with these bytes at their offsets, or the same object if the bytes are equal."""
        changed = {start: page for start, page in pages.items() if self[start : start + len(page)] != page}
        if not changed:
            return self
        twin = self.copy()
        if self._size_bytes <= _FLAT_BYTES_MAX:
            twin._sum = None  # short contents rarely need the sum twice
        for start, page in changed.items():
            twin[start : start + len(page)] = page
        return twin

    def changed_pages(self, other: "SparseBytes") -> dict[int, bytes]:
        """Return the differing pages of another content for `patched`. A page of zeros is b""."""
        before, now = self._pages, other._pages
        changed = dict(compress(now.items(), map(ne, map(before.get, now), now.values())))
        return changed if before.keys() <= now.keys() else changed | dict.fromkeys(before.keys() - now.keys(), b"")

    def patched(self, size_bytes: int, pages: Mapping[int, bytes]) -> "SparseBytes":
        """Apply the pages from `changed_pages`, and set the length."""
        twin = SparseBytes(size_bytes, self._pages)
        twin._pages.update(pages)
        for page in [page for page, content in pages.items() if not content]:
            del twin._pages[page]
        return twin

    def __reduce__(self) -> tuple[type["SparseBytes"], tuple[int, dict[int, bytes]]]:
        return SparseBytes, (self._size_bytes, self._pages)

    def resize(self, size_bytes: int) -> None:
        if size_bytes < self._size_bytes:
            kept = -(-size_bytes // PAGE_BYTES)
            for page in [page for page in self._pages if page >= kept]:
                self._set_page(page, _NOTHING)
            if size_bytes % PAGE_BYTES and kept - 1 in self._pages:
                rest = self._pages[kept - 1][: size_bytes % PAGE_BYTES]
                self._set_page(kept - 1, rest.ljust(PAGE_BYTES, b"\0"))
            assert not self._pages or max(self._pages) < kept, (size_bytes, max(self._pages))
        self._size_bytes = size_bytes

    def _set_page(self, page: int, content: bytes) -> None:
        assert len(content) == PAGE_BYTES, (page, len(content))
        before = self._pages.get(page, _NOTHING)
        if self._sum is not None and before != content:
            self._sum += page_digest(page, content) - page_digest(page, before)
        if content != _NOTHING:
            self._pages[page] = content
        else:
            self._pages.pop(page, None)

    def pages(self) -> Iterator[int]:
        return iter(sorted(self._pages))

    def extents(self) -> Iterator[tuple[int, bytes]]:
        """Yield runs of adjacent stored pages with their offsets. The last run ends at the end of the file."""
        for start, run in self.runs():
            yield start, b"".join(run)

    def runs(self) -> Iterator[tuple[int, list[bytes]]]:
        """Yield the pages of each extent, with its offset."""
        numbers = sorted(self._pages)
        first, count = 0, len(numbers)
        ends = range(1, count + 1)
        if numbers and numbers[-1] - numbers[0] == count - 1:
            ends = range(count, count + 1)  # one run
        for end in ends:
            if end < count and numbers[end] == numbers[end - 1] + 1:
                continue
            run = list(map(self._pages.__getitem__, numbers[first:end]))
            if end == count:
                run[-1] = run[-1][: self._size_bytes - numbers[-1] * PAGE_BYTES]
            yield numbers[first] * PAGE_BYTES, run
            first = end

    @property
    def data_bytes(self) -> int:
        return len(self._pages) * PAGE_BYTES

    def digest(self) -> bytes:
        """Return a digest of the content; incremental for long content."""
        if self._size_bytes <= _FLAT_BYTES_MAX:
            return blake2b(self[0 : self._size_bytes], digest_size=16).digest()
        return blake2b(f"{self._size_bytes} {self.page_sum() % (1 << _SUM_BITS)}".encode(), digest_size=16).digest()

    def page_sum(self) -> int:
        """Return the sum of the page digests, which each later change updates."""
        if self._sum is None:
            self._sum = sum(page_digest(page, content) for page, content in self._pages.items())
        return self._sum

    def __bytes__(self) -> bytes:
        return self[0 : self._size_bytes]

    def __eq__(self, other: object) -> bool:
        if isinstance(other, bytes):
            return self._size_bytes == len(other) and bytes(self) == other
        if not isinstance(other, SparseBytes):
            return NotImplemented
        return self._size_bytes == other._size_bytes and self._pages == other._pages

    __hash__ = None  # type: ignore[assignment]  # mutable

    def __repr__(self) -> str:
        return f"SparseBytes({self._size_bytes} bytes, {len(self._pages)} pages)"


Content = bytes | SparseBytes


def page_digest(page: int, content: bytes) -> int:
    """Return the summand of a page in the digest sum; 0 for zeros."""
    if content == (_NOTHING if len(content) == PAGE_BYTES else bytes(len(content))):
        return 0
    digest = blake2b(content, digest_size=_SUM_BITS // 8, salt=page.to_bytes(8, "little"))
    return int.from_bytes(digest.digest(), "little")


def with_pages_replaced(content: Content, pages: Mapping[int, bytes | bytearray]) -> Content:
    """Return the content with these bytes at their offsets, or the same object if the bytes are equal."""
    if isinstance(content, SparseBytes):
        return content.with_pages_replaced(pages)
    changed = bytearray(content)
    for start, page in pages.items():
        changed[start : start + len(page)] = page
    return content if changed == content else bytes(changed)


def first_difference(one: Content, other: Content) -> int | None:
    """Return the first different offset, or None. If one content is a prefix of the other, return its length."""
    shorter = min(len(one), len(other))
    if isinstance(one, SparseBytes) and isinstance(other, SparseBytes):
        starts = [page * PAGE_BYTES for page in sorted({*one.pages(), *other.pages()})]
    else:
        starts = list(range(0, shorter, PAGE_BYTES))
    for start in starts:
        end = min(start + PAGE_BYTES, shorter)
        left, right = one[start:end], other[start:end]
        if left != right:
            return start + next(at for at, (a, b) in enumerate(zip(left, right, strict=True)) if a != b)
    return shorter if len(one) != len(other) else None
