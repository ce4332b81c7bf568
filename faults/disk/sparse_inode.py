"""Sparse page cache: an `Inode` of `SparseBytes` for long files, without views.

Both content classes have slices, so only methods that create, grow or copy whole contents differ.
"""

from typing import cast

from .content import PAGE_BYTES, Content, SparseBytes
from .image import FileImage
from .page_cache import Inode


class SparseInode(Inode):
    """One file's content, with a memory cost proportional to the written pages."""

    __slots__ = ("_touched",)

    def __init__(
        self,
        identity: int,
        page_bytes: int,
        mtime_ns: int,
        loaded: FileImage | None = None,
        touched: set[int] | None = None,
    ) -> None:
        """touched: gets the identity of the inode when `visible_file` may have changed."""
        assert page_bytes == PAGE_BYTES, page_bytes
        super().__init__(identity, page_bytes, mtime_ns, loaded)
        self._touched = set[int]() if touched is None else touched
        self._set_contents(SparseBytes(), SparseBytes())

    def _set_contents(self, cache: SparseBytes, durable: SparseBytes) -> None:
        # Inherited methods use only length and slices.
        self.cache = cast(bytearray, cache)
        self.readable = cast("memoryview[int]", cache)
        self._durable = cast(bytearray, durable)

    @property
    def _sparse_cache(self) -> SparseBytes:
        return cast(SparseBytes, self.cache)

    @property
    def _sparse_durable(self) -> SparseBytes:
        return cast(SparseBytes, self._durable)

    def content(self) -> Content:
        return self._sparse_cache.copy() if self._frozen is None else self._frozen.held

    def visible_file(self, wall_start_ms: int) -> FileImage:
        if self._frozen is None:
            self._sparse_cache.page_sum()  # before the copy, so that the copy inherits it
        self.visible = super().visible_file(wall_start_ms)
        return self.visible

    def set_mtime_ns(self, mtime_ns: int) -> None:
        self._note_change()
        super().set_mtime_ns(mtime_ns)

    def _note_change(self) -> None:
        self.visible = None
        self._touched.add(self.identity)

    def revert_stale_page(self, page: int) -> tuple[int, int]:
        self._note_change()
        return super().revert_stale_page(page)

    def durable_bytes(self, size_bytes: int) -> Content:
        if self.loaded is not None and len(self.loaded.held) == size_bytes:
            return self.loaded.held
        found = self._sparse_durable.copy() if self.loaded is None else SparseBytes.from_content(self.loaded.held)
        found.resize(size_bytes)
        return found

    def writable_cache(self, size_bytes: int) -> bytearray:
        self._note_change()
        if self._frozen is not None:
            self._set_contents(SparseBytes.from_content(self._frozen.held), self._sparse_durable)
            self._frozen = None
        if len(self.cache) < size_bytes:
            self._sparse_cache.resize(size_bytes)
        return self.cache

    def zero(self, number: int, start: int, end: int, mtime_ns: int) -> None:
        """Write zeros. Skip pages with zeros in the cache and on the disk."""
        self.writable_cache(0)
        held = {*self._sparse_cache.pages(), *SparseBytes.from_content(self.durable_bytes(self.size_bytes)).pages()}
        for _, at, data in self.pending:
            held.update(range(at // PAGE_BYTES, -(-(at + len(data)) // PAGE_BYTES)))
        for page in sorted(held):
            first, last = max(page * PAGE_BYTES, start), min((page + 1) * PAGE_BYTES, end)
            if first < last:
                self.cache[first:last] = bytes(last - first)
                self.pending.append((number, first, bytes(last - first)))
        self.mtime_ns = mtime_ns

    def _durable_prefix(self, identity: int, size_bytes: int, mtime_ns: int) -> Inode:
        rest = SparseInode(identity, self.page_bytes, mtime_ns, touched=self._touched)
        self.writable_cache(0)
        cache, durable = self._sparse_cache.copy(), SparseBytes.from_content(self.durable_bytes(self.size_bytes))
        for content in (cache, durable):
            content.resize(size_bytes)
        rest._set_contents(cache, durable)
        return rest

    def _grow_durable_bytes(self) -> bytearray:
        if self.loaded is not None:
            self._set_contents(self._sparse_cache, SparseBytes.from_content(self.loaded.held))
            self.loaded = None
        if len(self._durable) < self.size_bytes:
            self._sparse_durable.resize(self.size_bytes)
        return self._durable
