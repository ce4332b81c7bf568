import ctypes
import errno
import os
import sys
import threading
import time
from pathlib import Path

import pytest

from tornlog.store.real import pages
from tornlog.store.real.pages import PAGE_BYTES, map_private, map_shared, sync_pages


@pytest.fixture
def descriptor(tmp_path: Path) -> int:
    return os.open(tmp_path / "file", os.O_RDWR | os.O_CREAT)


def test_other_threads_run_while_a_sync_waits_for_the_disk(descriptor: int) -> None:
    """Thread switches are disabled for an hour, so the counter increases only if a sync releases the interpreter lock.

    If a sync takes no time, as in a file system in memory, many syncs may be needed."""
    os.posix_fallocate(descriptor, 0, PAGE_BYTES)
    mapped = map_shared(descriptor, PAGE_BYTES)
    os.close(descriptor)
    counted = 0
    stop = False

    def count() -> None:
        nonlocal counted
        while not stop:
            counted += 1
            time.sleep(0)  # releases the interpreter lock

    def counted_during_a_sync(fill: int) -> int:
        before = counted
        mapped[0] = fill % 256
        sync_pages(mapped, 0, PAGE_BYTES, "file")
        return counted - before

    interval_s = sys.getswitchinterval()
    sys.setswitchinterval(3600)
    counter = threading.Thread(target=count)
    counter.start()
    try:
        while not counted:
            time.sleep(0.001)
        assert any(counted_during_a_sync(fill) for fill in range(200_000))
    finally:
        stop = True
        sys.setswitchinterval(interval_s)
        counter.join()


def test_libc_is_called_without_the_interpreter_lock() -> None:
    assert type(pages._libc) is ctypes.CDLL


@pytest.mark.parametrize(("start", "end"), [(0, 1), (5000, 5001), (4095, 4097), (8191, 12_000), (12_000, 12_000)])
def test_a_range_of_any_alignment_can_be_synced(descriptor: int, start: int, end: int) -> None:
    os.posix_fallocate(descriptor, 0, 12_000)
    mapped = map_shared(descriptor, 12_000)
    os.close(descriptor)
    mapped[start:end] = b"x" * (end - start)
    sync_pages(mapped, start, end, "file")
    assert mapped.tobytes().count(b"x") == end - start


def test_a_sync_covers_every_page_that_its_range_touches(descriptor: int, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[int, int, int]] = []
    os.posix_fallocate(descriptor, 0, 4 * PAGE_BYTES)
    mapped = map_shared(descriptor, 4 * PAGE_BYTES)
    os.close(descriptor)
    base = ctypes.addressof(ctypes.c_char.from_buffer(mapped[:]))
    monkeypatch.setattr(pages, "_msync", lambda *args: asked.append(args) or 0)

    sync_pages(mapped, PAGE_BYTES + 10, 2 * PAGE_BYTES + 1, "file")
    sync_pages(mapped, 0, 4 * PAGE_BYTES, "file")
    sync_pages(mapped, 77, 77, "file")

    synchronously = 4
    assert asked == [(base + PAGE_BYTES, PAGE_BYTES + 1, synchronously), (base, 4 * PAGE_BYTES, synchronously)]


def test_a_failed_sync_is_an_error_with_errno_and_path() -> None:
    never_mapped = memoryview((ctypes.c_ubyte * PAGE_BYTES).from_address(PAGE_BYTES)).cast("B")
    with pytest.raises(OSError, match="commitlog/0") as failed:
        sync_pages(never_mapped, 0, PAGE_BYTES, "commitlog/0")
    assert failed.value.errno == errno.ENOMEM


def test_a_map_that_cannot_be_created_is_an_error() -> None:
    descriptor = os.open("/dev/null", os.O_RDWR)
    with pytest.raises(OSError, match="No such device"):
        map_shared(descriptor, PAGE_BYTES)
    os.close(descriptor)


def is_mapped(path: Path) -> bool:
    # Bytes: other maps of this process may have a name that is no UTF-8.
    return os.fsencode(path) in Path("/proc/self/maps").read_bytes()


def test_pages_stay_mapped_until_the_last_slice_is_released(descriptor: int, tmp_path: Path) -> None:
    os.posix_fallocate(descriptor, 0, PAGE_BYTES)
    mapped = map_shared(descriptor, PAGE_BYTES)
    os.close(descriptor)
    last = mapped[10:20].toreadonly()
    mapped.release()
    assert is_mapped(tmp_path / "file")
    assert bytes(last) == bytes(10)
    last.release()
    assert not is_mapped(tmp_path / "file")


def test_a_private_map_is_padded_with_zeros_and_does_not_change_the_file(descriptor: int) -> None:
    content = b"0123456789" * 500
    os.write(descriptor, content)
    mapped = map_private(descriptor, len(content), 3 * PAGE_BYTES)
    assert mapped.tobytes() == content + bytes(3 * PAGE_BYTES - len(content))

    mapped[0:4] = b"mine"
    mapped[-4:] = b"mine"

    assert mapped[:8].tobytes() == b"mine4567"
    assert os.pread(descriptor, 1 << 20, 0) == content
    os.close(descriptor)
