"""Memory maps made by libc calls, as memoryviews that own their pages.

Python's mmap module holds the GIL during msync, keeps a descriptor per map, and refuses to close a map with an exported
view. This module releases the GIL during calls and keeps no descriptor. The pages are unmapped when the last slice of
the memoryview is released.
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

_libc = ctypes.CDLL(None, use_errno=True)  # CDLL, unlike PyDLL, releases the GIL during calls
_mmap, _munmap, _msync = _libc.mmap, _libc.munmap, _libc.msync
_mlock, _munlock, _madvise = _libc.mlock, _libc.munlock, _libc.madvise
_mmap.restype = c_void_p
_mmap.argtypes = [c_void_p, c_size_t, c_int, c_int, c_int, c_long]  # the last argument is an off_t
_munmap.argtypes = _mlock.argtypes = _munlock.argtypes = [c_void_p, c_size_t]
_msync.argtypes = _madvise.argtypes = [c_void_p, c_size_t, c_int]
_MAP_FAILED = c_void_p(-1).value


def map_shared(descriptor: int, size_bytes: int) -> memoryview:
    """Map the first size_bytes of an open file as MAP_SHARED.

    The caller may close the descriptor after the call. An access to a page after the end of the file kills the process
    (SIGBUS).
    """
    return _owning_view(_map_pages(None, size_bytes, mmap.MAP_SHARED, descriptor), size_bytes)


def map_private(descriptor: int, file_bytes: int, size_bytes: int) -> memoryview:
    """Map a file's first file_bytes as MAP_PRIVATE, followed by zeros up to size_bytes.

    The kernel copies a page at the first write to it, so the call reads no page, writes never change the file, and the
    map may be larger than memory.
    """
    assert 0 <= file_bytes <= size_bytes, (file_bytes, size_bytes)
    private = mmap.MAP_PRIVATE | _MAP_NORESERVE
    address = _map_pages(None, size_bytes, private | mmap.MAP_ANONYMOUS, -1)
    pages = _owning_view(address, size_bytes)
    if file_bytes:
        _map_pages(address, file_bytes, private | _MAP_FIXED, descriptor)  # MAP_FIXED replaces the first pages of zeros
    return pages


def sync_pages(pages: memoryview, start: int, end: int, path: str) -> None:
    """Write the pages of bytes [start, end) to the disk, and wait. An OSError contains path."""
    assert 0 <= start <= end <= len(pages), (start, end, len(pages))
    if start == end:
        return
    first = start - start % PAGE_BYTES  # the address for msync must be a page boundary; msync rounds the length up
    held = ctypes.c_char.from_buffer(pages[first:end])  # keeps the pages mapped during msync
    if _msync(ctypes.addressof(held), end - first, _MS_SYNC) != 0:
        raise _os_error(path)


def buffer_pages(size_bytes: int) -> memoryview:
    """Return zeroed anonymous memory."""
    return _owning_view(_map_pages(None, size_bytes, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1), size_bytes)


def lock_pages(pages: memoryview, path: str | None) -> None:
    """Lock pages in memory. Raises OSError (ENOMEM or EPERM) above the limit of locked memory."""
    _call_on_pages(_mlock, pages, path)


def unlock_pages(pages: memoryview, path: str) -> None:
    _call_on_pages(_munlock, pages, path)


def will_need_pages(pages: memoryview, path: str) -> None:
    """Advise the operating system to read pages ahead."""
    _call_on_pages(_madvise, pages, path, mmap.MADV_WILLNEED)


def dont_need_pages(pages: memoryview, start: int, end: int, path: str) -> None:
    """Unload from this process all pages that lie completely within bytes [start, end).

    The next access to a page loads it from the file again. Pages with private changes must not be unloaded.
    """
    assert 0 <= start <= end <= len(pages), (start, end, len(pages))
    # Keep partial pages, because the caller may still use bytes outside the range.
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
    # Do not unmap at exit, when daemon threads may still use the pages. The kernel unmaps pages at process end.
    weakref.finalize(array, _munmap, address, size_bytes).atexit = False
    return memoryview(array).cast("B")


def _os_error(path: str | None) -> OSError:
    code = ctypes.get_errno()
    return OSError(code, os.strerror(code), path)
