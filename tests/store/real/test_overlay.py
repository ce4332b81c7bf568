import hashlib
import os
import stat
from pathlib import Path

import pytest

from tornlog.store.real.files import RealFiles
from tornlog.store.real.overlay import OverlayFiles


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A small directory with an old modification time, so that the test detects any change of it."""
    root = tmp_path / "store"
    (root / "commitlog").mkdir(parents=True)
    (root / "consumequeue" / "topic" / "0").mkdir(parents=True)
    (root / "commitlog" / "0").write_bytes(b"record " * 1000)
    (root / "commitlog" / "7000").write_bytes(b"tail")
    (root / "consumequeue" / "topic" / "0" / "0").write_bytes(b"entries")
    (root / "empty").write_bytes(b"")
    (root / "lock").write_bytes(b"lock")
    for path in (root, *root.rglob("*")):
        os.utime(path, (1_000_000_000, 1_000_000_000))
    return root


def _fingerprint(root: Path) -> list[tuple[str, int, int, int, int, str]]:
    found = []
    for path in sorted((root, *root.rglob("*"))):
        status = path.stat()
        digest = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
        facts = (status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
        found.append((str(path), *facts, digest))
    return found


def test_changes_through_the_overlay_do_not_reach_the_disk(store: Path) -> None:
    before = _fingerprint(store)
    files = OverlayFiles()

    lock = files.lock(f"{store}/lock")
    files.write(f"{store}/lock", b"changed")
    log = files.map(f"{store}/commitlog/0", 7000)
    log.store(0, b"torn")
    log.pwrite(100, b"torn")
    log.msync(0, 7000)
    log.fdatasync()
    extended = files.map(f"{store}/commitlog/7000", 7000)
    extended.store(0, b"more than the tail")
    files.map(f"{store}/commitlog/14000", 7000).store(6000, b"new")
    files.write(f"{store}/abort", b"")
    files.rename(f"{store}/empty", f"{store}/commitlog/0")
    files.unlink(f"{store}/consumequeue/topic/0/0")
    files.remove_directory(f"{store}/consumequeue/topic/0")
    files.make_directories(f"{store}/index/deeper")
    for path in (f"{store}/lock", f"{store}/abort", f"{store}/commitlog/7000"):
        files.sync(path)
    files.sync_directory(str(store))
    for mapped in (log, extended):
        mapped.close()
    lock.release()

    assert files.list_directory(str(store)) == ["abort", "commitlog", "consumequeue", "index", "lock"]
    assert files.list_directory(f"{store}/commitlog") == ["0", "14000", "7000"]
    assert files.list_directory(f"{store}/consumequeue/topic") == []
    assert files.read(f"{store}/lock") == b"changed"
    assert files.read(f"{store}/commitlog/7000") == b"more than the tail" + bytes(6982)
    assert files.read(f"{store}/commitlog/0") == b""
    assert _fingerprint(store) == before


def test_the_overlay_can_map_change_and_lock_read_only_files(store: Path) -> None:
    for path in (*store.rglob("*"), store):
        path.chmod(stat.S_IMODE(path.stat().st_mode) & ~0o222)
    files = OverlayFiles()
    log = files.map(f"{store}/commitlog/0", 7000)
    log.store(0, b"torn")
    files.lock(f"{store}/lock")
    for path in (store, *store.rglob("*")):
        path.chmod(stat.S_IMODE(path.stat().st_mode) | 0o200)
    assert bytes(log.view(0, 8)) == b"tornrd r"


def test_the_overlay_can_lock_a_directory_that_a_running_store_has_locked(store: Path) -> None:
    held = RealFiles().lock(f"{store}/lock")
    files = OverlayFiles()
    lock = files.lock(f"{store}/lock")
    with pytest.raises(BlockingIOError):
        files.lock(f"{store}/lock")
    lock.release()
    with pytest.raises(BlockingIOError):
        RealFiles().lock(f"{store}/lock")
    held.release()


def test_the_overlay_reports_file_sizes_and_mtimes_of_the_disk(store: Path) -> None:
    files = OverlayFiles()
    untouched = files.status(f"{store}/commitlog/0")
    files.map(f"{store}/commitlog/0", 7000)
    files.rename(f"{store}/commitlog/7000", f"{store}/moved")
    moved = files.status(f"{store}/moved")
    assert untouched == files.status(f"{store}/commitlog/0") == (7000, 1_000_000_000_000, False)
    assert moved == (4, 1_000_000_000_000, False)
    assert files.read(f"{store}/moved") == b"tail"


def test_the_overlay_maps_a_huge_sparse_segment_without_reading_it(tmp_path: Path) -> None:
    path = str(tmp_path / "segment")
    with open(path, "wb") as file:
        file.truncate(64 << 30)  # more than a test machine has memory for
        file.seek(-4, os.SEEK_END)
        file.write(b"last")
    files = OverlayFiles()
    mapped = files.map(path, 64 << 30)
    mapped.store(1 << 30, b"changed")

    assert bytes(mapped.view((64 << 30) - 8, 64 << 30)) == b"\0\0\0\0last"
    assert bytes(mapped.view((1 << 30) - 1, (1 << 30) + 8)) == b"\0changed\0"


def test_the_overlay_extends_a_short_segment_in_memory_without_reading_it(tmp_path: Path) -> None:
    path = str(tmp_path / "segment")
    with open(path, "wb") as file:
        file.truncate((1 << 30) + 3)
        file.seek(-4, os.SEEK_END)
        file.write(b"last")
    mapped = OverlayFiles().map(path, 2 << 30)
    assert bytes(mapped.view((1 << 30) - 2, (1 << 30) + 5)) == b"\0last\0\0"
    assert bytes(mapped.view((2 << 30) - 4, 2 << 30)) == bytes(4)
    assert os.stat(path).st_size == (1 << 30) + 3


def test_a_longer_overlay_map_of_a_changed_file_keeps_the_changes(store: Path) -> None:
    files = OverlayFiles()
    shorter = files.map(f"{store}/commitlog/7000", 4096)
    shorter.store(0, b"head")
    longer = files.map(f"{store}/commitlog/7000", 70_000)
    longer.store(4, b"more")
    status = files.status(f"{store}/commitlog/7000")

    assert bytes(longer.view(0, 10)) == b"headmore\0\0"
    assert bytes(shorter.view(0, 10)) == b"headmore\0\0"
    assert status is not None
    assert status.size_bytes == 70_000


def test_an_overlay_store_past_the_end_of_a_map_changes_nothing(store: Path) -> None:
    files = OverlayFiles()
    shorter = files.map(f"{store}/commitlog/0", 6)
    with pytest.raises(ValueError, match="do not fit"):
        shorter.store(4, b"too long")
    assert files.read(f"{store}/commitlog/0")[:14] == b"record record "


def test_an_overlay_directory_that_is_removed_and_created_again_is_empty(store: Path) -> None:
    files = OverlayFiles()
    files.unlink(f"{store}/consumequeue/topic/0/0")
    files.remove_directory(f"{store}/consumequeue/topic/0")
    files.make_directories(f"{store}/consumequeue/topic/0")
    assert files.list_directory(f"{store}/consumequeue/topic/0") == []
    assert files.status(f"{store}/consumequeue/topic/0/0") is None


def test_an_overlay_map_uses_no_descriptor(store: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    files = OverlayFiles()
    mapped = files.map(f"{store}/commitlog/0", 7000)
    assert len(os.listdir("/proc/self/fd")) == before
    assert bytes(mapped.view(0, 6)) == b"record"
