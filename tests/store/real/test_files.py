import errno
import fcntl
import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tornlog.store.real.files import RealFiles

POSIX_LOCKER = """
import fcntl, sys
with open(sys.argv[1], "r+b") as file:
    try:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0)
    except BlockingIOError:
        print("refused", flush=True)
    else:
        print("locked", flush=True)
        sys.stdin.read()
"""

STORE_LOCKER = """
import sys
from tornlog.store.real.files import RealFiles
lock = RealFiles().lock(sys.argv[1])
print("locked", flush=True)
sys.stdin.read()
"""


@contextmanager
def another_process(program: str, path: str) -> Iterator[str]:
    """Run program on path and yield its first line; it ends with the block."""
    with subprocess.Popen(
        [sys.executable, "-c", program, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
        process.kill()


def _open_descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_a_file_lock_excludes_other_processes_until_released(tmp_path: Path) -> None:
    path = str(tmp_path / "lock")
    lock = RealFiles().lock(path)
    with another_process(POSIX_LOCKER, path) as answer:
        assert answer == "refused"
    lock.release()
    lock.release()
    with another_process(POSIX_LOCKER, path) as answer:
        assert answer == "locked"


@pytest.mark.parametrize("program", [POSIX_LOCKER, STORE_LOCKER])
def test_a_lock_held_by_another_process_is_refused_until_it_dies(program: str, tmp_path: Path) -> None:
    path = str(tmp_path / "lock")
    RealFiles().write(path, b"lock")
    with another_process(program, path) as answer:
        assert answer == "locked"
        with pytest.raises(BlockingIOError, match="lock") as refused:
            RealFiles().lock(path)
        assert refused.value.filename == path
    RealFiles().lock(path).release()


def test_a_file_lock_survives_every_other_use_of_the_file_in_its_process(tmp_path: Path) -> None:
    path = str(tmp_path / "lock")
    files = RealFiles()
    lock = files.lock(path)
    files.write(path, b"lock")
    files.sync(path)
    files.read(path)
    files.map(path, 4).close()
    with pytest.raises(BlockingIOError):
        RealFiles().lock(path)

    with another_process(POSIX_LOCKER, path) as answer:
        assert answer == "refused"
    lock.release()


def test_a_refused_lock_leaves_no_descriptor_open(tmp_path: Path) -> None:
    path = str(tmp_path / "lock")
    lock = RealFiles().lock(path)
    before = _open_descriptors()
    with pytest.raises(BlockingIOError):
        RealFiles().lock(path)
    assert _open_descriptors() == before
    lock.release()
    assert _open_descriptors() == before - 1


def test_a_lock_covers_the_first_byte_alone(tmp_path: Path) -> None:
    path = str(tmp_path / "lock")
    lock = RealFiles().lock(path)
    with open(path, "r+b") as file:
        with pytest.raises(BlockingIOError):
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0)
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 1)
    lock.release()


def test_a_new_mapped_file_is_fully_allocated(tmp_path: Path) -> None:
    path = str(tmp_path / "segment")
    RealFiles().map(path, 1 << 20).close()
    assert os.stat(path).st_blocks * 512 >= 1 << 20


def test_mapping_a_long_sparse_file_does_not_allocate_it(tmp_path: Path) -> None:
    path = str(tmp_path / "segment")
    with open(path, "wb") as file:
        file.truncate(1 << 30)
    mapped = RealFiles().map(path, 1 << 20)
    assert mapped.size_bytes == 1 << 20
    assert os.stat(path).st_size == 1 << 30
    assert os.stat(path).st_blocks == 0
    mapped.close()


@pytest.mark.parametrize("code", [errno.EOPNOTSUPP, errno.EINVAL])
def test_on_a_file_system_without_fallocate_a_mapped_file_is_sparse(
    code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(descriptor: int, offset: int, length: int) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "posix_fallocate", refuse)
    mapped = RealFiles().map(str(tmp_path / "segment"), 1 << 20)

    assert bytes(mapped.view(0, 1 << 20)) == bytes(1 << 20)
    assert os.stat(mapped.path).st_size == 1 << 20
    mapped.close()


def test_mapping_a_file_above_the_size_limit_is_an_error_and_keeps_its_length(tmp_path: Path) -> None:
    path = str(tmp_path / "segment")
    RealFiles().write(path, b"found")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = _open_descriptors()
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, hard))
    try:
        with pytest.raises(OSError, match="segment") as refused:
            RealFiles().map(path, 2 << 20)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

    assert refused.value.errno == errno.EFBIG
    assert RealFiles().read(path) == b"found"
    assert _open_descriptors() == before


def test_a_failed_allocation_on_a_full_disk_is_undone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fill_half(descriptor: int, offset: int, length: int) -> None:
        os.ftruncate(descriptor, offset + length // 2)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "posix_fallocate", fill_half)
    path = str(tmp_path / "segment")
    with pytest.raises(OSError, match="segment") as refused:
        RealFiles().map(path, 1 << 20)

    assert refused.value.errno == errno.ENOSPC
    assert os.stat(path).st_size == 0


def test_closing_a_map_with_open_views_closes_the_descriptor_and_keeps_the_views(tmp_path: Path) -> None:
    before = _open_descriptors()
    mapped = RealFiles().map(str(tmp_path / "segment"), 8192)
    mapped.store(4090, b"across the pages")
    view = mapped.view(4090, 4106)
    mapped.close()
    mapped.close()
    assert _open_descriptors() == before
    assert bytes(view) == b"across the pages"


def test_a_store_past_the_end_of_a_map_changes_nothing(tmp_path: Path) -> None:
    mapped = RealFiles().map(str(tmp_path / "segment"), 8192)
    with pytest.raises(ValueError, match="assignment"):
        mapped.store(8190, b"too long")
    assert bytes(mapped.view(8180, 8192)) == bytes(12)
    mapped.close()


def test_a_closed_map_refuses_every_call(tmp_path: Path) -> None:
    mapped = RealFiles().map(str(tmp_path / "segment"), 8192)
    mapped.close()

    with pytest.raises(ValueError, match="released"):
        mapped.store(0, b"x")
    with pytest.raises(ValueError, match="released"):
        mapped.view(0, 1)
    with pytest.raises(ValueError, match="released"):
        mapped.msync(0, 1)
    with pytest.raises(OSError, match="Bad file descriptor"):
        mapped.pwrite(0, b"x")
    with pytest.raises(ValueError, match="file descriptor"):
        mapped.fdatasync()


def test_an_open_map_uses_one_descriptor(tmp_path: Path) -> None:
    before = _open_descriptors()
    mapped = RealFiles().map(str(tmp_path / "segment"), 8192)
    assert _open_descriptors() == before + 1
    mapped.close()
