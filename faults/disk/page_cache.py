"""Page cache of one file: visible bytes, durable bytes, and pending writes.

The kernel may write a dirty page back at any moment. So after a power cut each dirty page contains its first k writes,
with a separate k for each page. A sync raises the lowest possible k. A failed sync makes its pages clean and stale:
readers see the data, but it reaches the disk only if a later write dirties the page again.

FileFlaws are unreadable sectors, and holes without a block. A map loads whole pages, so an access to a page with a bad
sector raises SIGBUS. A write through a descriptor reads only the sectors that the write covers in part. A bad sector
that is overwritten completely is remapped and readable at once. A hole reads as zeros, and the first write to a hole
allocates a block.

Sources: Bairavasundaram et al., "An Analysis of Latent Sector Errors in Disk Drives", SIGMETRICS 2007; mmap(2), SIGBUS;
posix_fallocate(3) for extended files without data.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Sequence

from ..kinds import FaultKind
from .content import Content
from .image import DamagedRange, FileImage

Write = tuple[int, int, bytes]
"""A write that may not be durable: operation number, offset, data."""
Range = tuple[int, int, int]
"""A range after all operations up to a number: number, start, end."""
_NOTHING = bytearray()  # all empty inodes share it, because growth makes a new buffer
_NOTHING_READABLE = memoryview(b"")
_NO_PAGES: frozenset[int] = frozenset()


class Inode:
    """Content of a file in plain bytes. `SparseInode` is for long files.

    Invariant: durable bytes, extended with zeros and overwritten by all pending writes, oldest first, equal the cache,
    except in stale pages. pending is ordered by operation number.
    """

    __slots__ = (
        *("_durable", "_frozen", "_wrote_at", "cache", "changed_at", "flaws", "identity", "in_drive", "loaded"),
        *("mtime_ns", "page_bytes", "pending", "readable", "settlements", "stale", "synced_upto", "visible"),
    )

    def __init__(self, identity: int, page_bytes: int, mtime_ns: int, loaded: FileImage | None = None) -> None:
        assert page_bytes > 0, page_bytes
        self.identity = identity
        self.page_bytes = page_bytes
        self.mtime_ns = mtime_ns
        """Virtual time of the last write plus the offset of the wall clock."""
        self.loaded = loaded
        """The file in the image, until newer bytes are durable."""
        self._frozen = loaded
        """The loaded content, until the file is mapped or written. Most files need no page cache."""
        self.cache = _NOTHING
        self.readable = _NOTHING_READABLE
        self.pending: list[Write] = []
        self.stale: frozenset[int] = _NO_PAGES
        self.synced_upto = -1
        """Number of the last operation that a sync covers."""
        self.changed_at = -1
        """Number of the last operation that changed names or length of the file."""
        self._wrote_at = -1  # the last operation with a write that is no longer pending
        self.in_drive: tuple[Range, ...] = ()
        """Pending ranges in the drive's volatile cache, which a lying sync has acknowledged."""
        self._durable = _NOTHING
        self.settlements = 0
        """Incremented at each change of durable bytes or of `pending`, except a new write at its end."""
        self.visible: FileImage | None = None
        """The last result of `visible_file`, until the cache or the time changes. Only for `SparseInode`."""
        self.flaws: FileFlaws | None = None
        """Unreadable sectors and holes; None for most files."""

    @property
    def size_bytes(self) -> int:
        """Size as readers see it."""
        return len(self.cache) if self._frozen is None else len(self._frozen.held)

    @property
    def allocated_bytes(self) -> int:
        holes_bytes = 0 if self.flaws is None else self.flaws.hole_bytes(self.size_bytes)
        return self.size_bytes - holes_bytes

    def make_flaws(self, sector_bytes: int) -> "FileFlaws":
        if self.flaws is None:
            self.flaws = FileFlaws(self.page_bytes, sector_bytes)
        return self.flaws

    def mtime_ms(self, wall_start_ms: int) -> int:
        """Wall-clock time of the last write. The clock started at wall_start_ms."""
        return wall_start_ms + self.mtime_ns // 1_000_000

    @property
    def last_write_operation(self) -> int:
        return self.pending[-1][0] if self.pending else self._wrote_at

    def last_allocating_operation(self, upto: int, start: int, end: int) -> int:
        """The last operation, at most upto, that wrote to a page of [start, end) without a block, or -1."""
        page_bytes = self.page_bytes
        durable = self._durable if self.loaded is None else self.loaded.held
        covered = _page_numbers(start, end - start, page_bytes)
        with_block: set[int] = set()
        for number, at, data in reversed(self.pending):
            if number > upto:
                continue
            touched = _page_numbers(at, len(data), page_bytes)
            for page in range(max(touched.start, covered.start), min(touched.stop, covered.stop)):
                if page in with_block:
                    continue
                if not bytes(durable[page * page_bytes : (page + 1) * page_bytes]).lstrip(b"\0"):
                    return number
                with_block.add(page)
        return -1

    @property
    def is_clean(self) -> bool:
        return not self.pending and not self.stale

    def has_durable(self, start: int, end: int) -> bool:
        """Whether visible bytes equal durable bytes, even if a write of equal bytes is pending."""
        if self.is_clean:
            return True
        pending = [write for write in self.pending if write[1] < end and start < write[1] + len(write[2])]
        if not pending and not self.stale:
            return True
        durable_bytes = self.durable_bytes(self.size_bytes)
        for _, at, data in pending:
            first, last = max(at, start), min(at + len(data), end)
            if data[first - at : last - at] != durable_bytes[first:last]:
                return False
        return durable_bytes[start:end] == self.content()[start:end]

    def is_dirty(self, start: int, end: int) -> bool:
        """Whether a write to [start, end) is pending."""
        return any(at < end and start < at + len(data) for _, at, data in self.pending)

    def is_reclaimable(self, start: int, end: int) -> bool:
        """Whether the system may evict these pages: not dirty, not stale, not zeros."""
        touched = _page_numbers(start, end - start, self.page_bytes)
        if not self.stale.isdisjoint(touched):
            return False
        first, last = touched.start * self.page_bytes, touched.stop * self.page_bytes
        if self.is_dirty(first, last):
            return False
        return bool(bytes(self.cache[first:last]).strip(b"\0"))

    def content(self) -> Content:
        loaded = self.loaded
        if loaded is not None and self.is_clean and self.size_bytes == len(loaded.held):
            return loaded.held
        return bytes(self.cache)

    def set_mtime_ns(self, mtime_ns: int) -> None:
        self.mtime_ns = mtime_ns
        self.visible = None

    def visible_file(self, wall_start_ms: int) -> FileImage:
        """Return the bytes that readers see as a file of an image."""
        return self.file_image_with(self.content(), wall_start_ms)

    def file_image_with(self, content: Content, wall_start_ms: int) -> FileImage:
        """Return a file of an image with this content. An unchanged file is the loaded object."""
        mtime_ms = self.mtime_ms(wall_start_ms)
        if self.loaded is not None and content is self.loaded.held:
            return self.loaded.with_mtime(mtime_ms)
        return FileImage(content, mtime_ms)

    def durable_bytes(self, size_bytes: int) -> Content:
        """Return durable bytes, truncated or extended with zeros to size_bytes."""
        durable = self._durable if self.loaded is None else self.loaded.content
        if len(durable) == size_bytes:
            return bytes(durable)  # bytes() returns the same object for bytes, so images share unchanged files
        return bytes(durable[:size_bytes].ljust(size_bytes, b"\0"))

    def writable_cache(self, size_bytes: int) -> bytearray:
        """Return the page cache, extended with zeros to size_bytes. Earlier views see the old bytes."""
        if self._frozen is not None:
            self.cache = bytearray(self._frozen.content)
            self.readable = memoryview(self.cache).toreadonly()
            self._frozen = None
        if len(self.cache) < size_bytes:
            self._grow(size_bytes)
        return self.cache

    def _grow(self, size_bytes: int) -> None:
        if self.cache:
            try:  # in place, because a file may grow with each write
                self.readable.release()
                self.cache.extend(bytes(size_bytes - len(self.cache)))
            except BufferError:  # a view exists
                self.cache = self.cache.ljust(size_bytes, b"\0")
        else:
            self.cache = bytearray(size_bytes)
        self.readable = memoryview(self.cache).toreadonly()
        assert len(self.cache) == len(self.readable) == size_bytes, (len(self.cache), size_bytes)

    def write(self, number: int, at: int, data: bytes, mtime_ns: int) -> None:
        """Write to the page cache. `SimMappedFile.store` inlines this."""
        assert not self.pending or self.pending[-1][0] < number, (self.pending[-1][0], number)
        cache = self.writable_cache(at + len(data))
        cache[at : at + len(data)] = data
        self.mtime_ns = mtime_ns
        if self.stale:
            at, data = self.write_in_cache(at, data)
        self.pending.append((number, at, data))

    def zero(self, number: int, start: int, end: int, mtime_ns: int) -> None:
        self.write(number, start, bytes(end - start), mtime_ns)

    def cut(self, identity: int, size_bytes: int, mtime_ns: int) -> "Inode":
        """Return a new Inode with the first size_bytes and their pending writes."""
        assert 0 <= size_bytes < self.size_bytes, (size_bytes, self.size_bytes)
        rest = self._durable_prefix(identity, size_bytes, mtime_ns)
        left = [write for write in self.pending if write[1] < size_bytes]
        rest.pending = [(number, at, data[: size_bytes - at]) for number, at, data in left]
        rest.stale = frozenset(page for page in self.stale if page * self.page_bytes < size_bytes)
        rest.synced_upto, rest.in_drive = self.synced_upto, self.in_drive
        rest.flaws = None if self.flaws is None else self.flaws.truncated(size_bytes)
        rest._wrote_at = self.last_write_operation
        return rest

    def _durable_prefix(self, identity: int, size_bytes: int, mtime_ns: int) -> "Inode":
        rest = Inode(identity, self.page_bytes, mtime_ns)
        rest.cache = bytearray(self.writable_cache(0)[:size_bytes])
        rest.readable = memoryview(rest.cache).toreadonly()
        durable = self._durable if self.loaded is None else self.loaded.content
        rest._durable = bytearray(durable[:size_bytes])
        return rest

    def write_in_cache(self, at: int, data: bytes) -> tuple[int, bytes]:
        """Return a write. If it touches a stale page, extend it to whole pages."""
        touched = _page_numbers(at, len(data), self.page_bytes)
        if self.stale.isdisjoint(touched):
            return at, data
        self.stale = self.stale.difference(touched)
        start = touched.start * self.page_bytes
        return start, bytes(self.cache[start : touched.stop * self.page_bytes])

    def make_durable(self, upto: int, start: int, end: int) -> None:
        """Make the pages durable with the writes of operations up to upto."""
        pending = self.pending
        if not pending:
            return
        self._wrote_at = pending[-1][0]
        self.settlements += 1
        page_bytes = self.page_bytes
        start -= start % page_bytes  # write-back writes whole pages
        end += -end % page_bytes
        durable = self._durable
        if self.loaded is not None or len(durable) < len(self.cache):
            durable = self._grow_durable_bytes()
        assert len(durable) >= len(self.cache), (len(durable), len(self.cache))
        rest: list[Write] = []
        for write in pending:
            number, at, data = write
            stop = at + len(data)
            if number > upto or at >= end or stop <= start:
                rest.append(write)
            elif start <= at and stop <= end:
                durable[at:stop] = data
            else:
                first, last = max(at, start), min(stop, end)
                durable[first:last] = data[first - at : last - at]
                rest += _write_parts_outside(write, start, end)
        self.pending = rest

    def acknowledged_writes(self, page: int, writes: Sequence[Write]) -> int:
        """Return how many of a page's oldest pending writes the drive has falsely acknowledged."""
        start, end = page * self.page_bytes, (page + 1) * self.page_bytes
        held = (number for number, first, last in self.in_drive if first < end and start < last)
        upto = max(held, default=-1)
        return sum(number <= upto for number, _, _ in writes)

    def covered_pages(self, upto: int, start: int, end: int) -> list[int]:
        """Return the pages that `make_durable` would write."""
        found: set[int] = set()
        for number, at, data in self.pending:
            if number <= upto:
                found.update(_page_numbers(at, len(data), self.page_bytes))
        return sorted(found.intersection(_page_numbers(start, end - start, self.page_bytes)))

    def restore_old_page(self, number: int, at: int, data: bytes) -> bool:
        """Restore the durable bytes before an operation, and make the page dirty or stale. Return whether bytes
        changed.
        """
        assert at % self.page_bytes == 0, (at, self.page_bytes)
        assert len(data) <= self.page_bytes, (at, len(data))
        durable = self._grow_durable_bytes()
        end = at + len(data)
        now = bytes(durable[at:end])
        if now == data:
            return False
        self.settlements += 1
        durable[at:end] = data
        if any(first < end and at < first + len(late) for _, first, late in self.pending):
            # The page's bytes count as a write by that operation, so a later sync makes them durable.
            first_later = bisect_left(self.pending, number, key=lambda write: write[0])
            self.pending.insert(first_later, (number, at, now))
        else:
            self.stale |= {at // self.page_bytes}
        return True

    def fail_write_back(self, upto: int, start: int, end: int) -> set[int]:
        """Fail a write-back. Return the lost pages, now clean and stale. Pages written after upto stay dirty."""
        self.settlements += 1
        self._wrote_at = self.last_write_operation
        early: set[int] = set()
        late: set[int] = set()
        for number, at, data in self.pending:
            (late if number > upto else early).update(_page_numbers(at, len(data), self.page_bytes))
        lost = early - late
        lost.intersection_update(_page_numbers(start, end - start, self.page_bytes))
        self.stale |= lost
        rest: list[Write] = []
        for write in self.pending:
            _, at, data = write
            if lost.isdisjoint(_page_numbers(at, len(data), self.page_bytes)):
                rest.append(write)
            else:
                rest += (piece for page, piece in _split_by_page(write, self.page_bytes) if page not in lost)
        self.pending = rest
        assert not lost or lost.isdisjoint(self.covered_pages(upto, start, end)), lost
        return lost

    def revert_stale_page(self, page: int) -> tuple[int, int]:
        """Replace a stale page by its durable bytes. Return the range of the page."""
        assert page in self.stale, page
        durable_bytes = self.durable_bytes(self.size_bytes)
        start = page * self.page_bytes
        end = min(start + self.page_bytes, len(durable_bytes))
        self.cache[start:end] = durable_bytes[start:end]
        self.stale = self.stale.difference((page,))
        return start, end

    def dirty_pages(self, size_bytes: int) -> list[tuple[int, list[Write]]]:
        """Return dirty pages before size_bytes, each with its pending writes, oldest first."""
        page_bytes = self.page_bytes
        pages: dict[int, list[Write]] = defaultdict(list)
        for write in self.pending:
            _, at, data = write
            page = at // page_bytes
            pages[page].append(write)  # most writes touch one page
            rest_bytes = at % page_bytes + len(data) - page_bytes
            while rest_bytes > 0:
                page += 1
                pages[page].append(write)
                rest_bytes -= page_bytes
        return [(page, pages[page]) for page in sorted(pages) if page * page_bytes < size_bytes]

    def _grow_durable_bytes(self) -> bytearray:
        if self.loaded is not None:
            self._durable = bytearray(self.loaded.content)
            self.loaded = None
        missing = self.size_bytes - len(self._durable)
        if missing > 0:
            self._durable = self._durable + bytes(missing)
        return self._durable


class FileFlaws:
    """Bad sectors and holes of a file, by number. Invariant: each hole begins within the file."""

    __slots__ = ("_page_bytes", "_sector_bytes", "bad_sectors", "holes")

    def __init__(self, page_bytes: int, sector_bytes: int) -> None:
        assert page_bytes % sector_bytes == 0, (page_bytes, sector_bytes)
        self._page_bytes = page_bytes
        self._sector_bytes = sector_bytes
        self.bad_sectors: set[int] = set()
        self.holes: set[int] = set()

    def truncated(self, size_bytes: int) -> "FileFlaws":
        rest = FileFlaws(self._page_bytes, self._sector_bytes)
        rest.bad_sectors = {sector for sector in self.bad_sectors if sector * self._sector_bytes < size_bytes}
        rest.holes = {page for page in self.holes if page * self._page_bytes < size_bytes}
        return rest

    def hole_bytes(self, size_bytes: int) -> int:
        page_bytes = self._page_bytes
        assert not self.holes or max(self.holes) * page_bytes < size_bytes, (self.holes, size_bytes)
        return sum(min(size_bytes - page * page_bytes, page_bytes) for page in self.holes)

    def grow(self, before_bytes: int, after_bytes: int) -> None:
        """Turn the new whole pages of a growing file into holes."""
        assert before_bytes < after_bytes, (before_bytes, after_bytes)
        self.holes.update(range(-(-before_bytes // self._page_bytes), -(-after_bytes // self._page_bytes)))

    def has_bad_page(self, start: int, end: int) -> bool:
        if not self.bad_sectors or start >= end:
            return False
        page_bytes = self._page_bytes
        first = start // page_bytes * page_bytes // self._sector_bytes
        last = -(-end // page_bytes) * page_bytes // self._sector_bytes
        return not self.bad_sectors.isdisjoint(range(first, last))

    def read_hits_bad_sector(self, start: int, end: int) -> bool:
        sector_bytes = self._sector_bytes
        sectors = range(start // sector_bytes, -(-end // sector_bytes))
        return start < end and not self.bad_sectors.isdisjoint(sectors)

    def write_hits_bad_sector(self, start: int, end: int) -> bool:
        """Whether a write through a descriptor reads a bad sector."""
        sector_bytes = self._sector_bytes
        edges = {at // sector_bytes for at in (start, end) if at % sector_bytes}
        return start < end and not self.bad_sectors.isdisjoint(edges)

    def record_overwrite(self, start: int, end: int) -> None:
        """Make completely overwritten bad sectors readable."""
        if self.bad_sectors:
            sector_bytes = self._sector_bytes
            self.bad_sectors.difference_update(range(-(-start // sector_bytes), end // sector_bytes))

    def holes_in(self, start: int, end: int) -> list[int]:
        if not self.holes or start >= end:
            return []
        pages = range(start // self._page_bytes, -(-end // self._page_bytes))
        return [page for page in pages if page in self.holes]

    def ranges(self, path: str, size_bytes: int) -> list[DamagedRange]:
        sector_bytes = self._sector_bytes
        return [
            DamagedRange(path, at, min(at + sector_bytes, size_bytes), FaultKind.LATENT_SECTOR_ERROR)
            for at in (sector * sector_bytes for sector in sorted(self.bad_sectors))
        ]


def _page_numbers(at: int, size_bytes: int, page_bytes: int) -> range:
    return range(at // page_bytes, -(-(at + size_bytes) // page_bytes))


def _write_parts_outside(write: Write, start: int, end: int) -> Iterator[Write]:
    number, at, data = write
    if at < start:
        yield number, at, data[: start - at]
    if at + len(data) > end:
        yield number, end, data[end - at :]


def _split_by_page(write: Write, page_bytes: int) -> Iterator[tuple[int, Write]]:
    """Split data at page boundaries; yield each piece with its page number."""
    number, at, data = write
    for page in _page_numbers(at, len(data), page_bytes):
        first = max(page * page_bytes, at)
        last = min((page + 1) * page_bytes, at + len(data))
        yield page, (number, first, data[first - at : last - at])
