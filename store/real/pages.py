"""Memory maps from libc, as memoryviews that own their pages.

The mmap module would hold the interpreter lock during an msync, keep one descriptor per map, and refuse to close a map
with an exported view. Calls of this module release the interpreter lock, a map needs no descriptor, and its pages are
unmapped when the last slice of its memoryview is released.
"""

import ctypes
import mmap
import os
import weakref
from collections.abc import Callable
from ctypes import c_int, c_long, c_size_t, c_void_p

PAGE_BYTES = mmap.PAGESIZE

# Linux constants that the mmap module lacks.
_MS_SYNC = 4
_MAP_FIXED = 0x10
_MAP_NORESERVE = 0x4000
_READ_WRITE = mmap.PROT_READ | mmap.PROT_WRITE

_libc = ctypes.CDLL(None, use_errno=True)  # CDLL, unlike PyDLL, releases the interpreter lock during calls
_mmap, _munmap, _msync = _libc.mmap, _libc.munmap, _libc.msync
_mlock, _munlock, _madvise = _libc.mlock, _libc.munlock, _libc.madvise
_mmap.restype = c_void_p
_mmap.argtypes = [c_void_p, c_size_t, c_int, c_int, c_int, c_long]  # the last is an off_t
_munmap.argtypes = _mlock.argtypes = _munlock.argtypes = [c_void_p, c_size_t]
_msync.argtypes = _madvise.argtypes = [c_void_p, c_size_t, c_int]
_MAP_FAILED = c_void_p(-1).value


def map_shared(descriptor: int, size_bytes: int) -> memoryview:
    """Map the first size_bytes of an open file, shared with the page cache.

    The descriptor may be closed afterwards. An access to a page after the end of the file kills the process (SIGBUS).
    """
    return _owning_view(_map_pages(None, size_bytes, mmap.MAP_SHARED, descriptor), size_bytes)


def map_private(descriptor: int, file_bytes: int, size_bytes: int) -> memoryview:
    """Map a file's first file_bytes, then zeros up to size_bytes, as private memory.

    A page is copied at the first write to this page. So the call reads no page, the map never changes the file, and it
    may be larger than memory.
    """
    assert 0 <= file_bytes <= size_bytes, (file_bytes, size_bytes)
    private = mmap.MAP_PRIVATE | _MAP_NORESERVE
    address = _map_pages(None, size_bytes, private | mmap.MAP_ANONYMOUS, -1)
    pages = _owning_view(address, size_bytes)
    if file_bytes:
        _map_pages(address, file_bytes, private | _MAP_FIXED, descriptor)  # replaces the first pages of zeros
    return pages


def sync_pages(pages: memoryview, start: int, end: int, path: str) -> None:
    """Write the pages of bytes [start, end) to the disk, and wait. Errors name path."""
    assert 0 <= start <= end <= len(pages), (start, end, len(pages))
    if start == end:
        return
    first = start - start % PAGE_BYTES  # msync needs a page boundary, and rounds the length up
    held = ctypes.c_char.from_buffer(pages[first:end])  # keeps the pages mapped during msync
    if _msync(ctypes.addressof(held), end - first, _MS_SYNC) != 0:
        raise _os_error(path)


def buffer_pages(size_bytes: int) -> memoryview:
    """Return zeroed anonymous memory."""
    return _owning_view(_map_pages(None, size_bytes, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1), size_bytes)


def lock_pages(pages: memoryview, path: str | None) -> None:
    """Lock pages in memory. OSError (ENOMEM or EPERM) above the limit of locked memory."""
    _call_on_pages(_mlock, pages, path)


def unlock_pages(pages: memoryview, path: str) -> None:
    _call_on_pages(_munlock, pages, path)


def will_need_pages(pages: memoryview, path: str) -> None:
    """Advise the operating system to read pages ahead."""
    _call_on_pages(_madvise, pages, path, mmap.MADV_WILLNEED)


def dont_need_pages(pages: memoryview, start: int, end: int, path: str) -> None:
    """Release the whole pages within bytes [start, end) from the memory of this process.

    The next access to a page loads it again: shared, or private and unchanged.
    """
    assert 0 <= start <= end <= len(pages), (start, end, len(pages))
    # Only pages inside the range, because the bytes around it may still be in use.
    first = -(-start // PAGE_BYTES) * PAGE_BYTES
    last = end if end == len(pages) else end - end % PAGE_BYTES
    if first < last:
        _call_on_pages(_madvise, pages[first:last], path, mmap.MADV_DONTNEED)


def _call_on_pages(call: Callable[..., int], pages: memoryview, path: str | None, *arguments: int) -> None:
    held = ctypes.c_char.from_buffer(pages)  # keeps the pages mapped during the call
    if call(ctypes.addressof(held), len(pages), *arguments) != 0:
        raise _os_error(path)


def _map_pages(address: int | None, size_bytes: int, flags: int, descriptor: int) -> int:
    mapped: int = _mmap(address, size_bytes, _READ_WRITE, flags, descriptor, 0)
    if mapped == _MAP_FAILED:
        raise _os_error(None)
    return mapped


def _owning_view(address: int, size_bytes: int) -> memoryview:
    array = (ctypes.c_ubyte * size_bytes).from_address(address)
    # Not at exit, when daemon threads may still use these pages. The end of the process unmaps them.
    weakref.finalize(array, _munmap, address, size_bytes).atexit = False
    return memoryview(array).cast("B")


def _os_error(path: str | None) -> OSError:
    code = ctypes.get_errno()
    return OSError(code, os.strerror(code), path)
