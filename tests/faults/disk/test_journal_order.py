"""Journals that commit in order: a sync covers all changes before its file's last one."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.faults.rigs import Rig
from tornlog.faults.disk.image import FileImage, Image

START = Image({"/log": FileImage(b"l" * 8192, 0), "/d/old": FileImage(b"o", 0)}, ("/d",))
Body = Callable[[Any], None]


def create_new_file(files: Any) -> None:
    files.write("/new", b"")


def new_file_survives(profile: str, *bodies: Body) -> bool:
    """Return whether /new survives each of many power cuts."""
    kept = 0
    for seed in range(30):
        rig = Rig(seed=str(seed), image=START)
        for body in bodies:
            body(rig.files)
        kept += "/new" in rig.cut(profile).files
    assert kept > 0
    return kept == 30


def store_and_msync(files: Any) -> None:
    mapped = files.map("/log", 8192)
    mapped.store(10, b"in place")
    mapped.msync(0, 4096)


def pwrite_and_fdatasync(files: Any) -> None:
    mapped = files.map("/log", 8192)
    mapped.pwrite(10, b"in place")
    mapped.fdatasync()


def sync_log(files: Any) -> None:
    files.sync("/log")


def append_and_fdatasync(files: Any) -> None:
    log = files.open("/log")
    log.write(8192, b"more")
    log.sync(data_only=True)


def extend_log(files: Any) -> None:
    files.open("/log").allocate(3 * 4096)


def store_in_new_page_and_msync(files: Any) -> None:
    mapped = files.map("/log", 3 * 4096)
    mapped.store(8192, b"first")
    mapped.msync(8192, 3 * 4096)


def store_beside_new_page_and_msync(files: Any) -> None:
    mapped = files.map("/log", 3 * 4096)
    mapped.store(8192, b"first")
    mapped.store(10, b"in place")
    mapped.msync(0, 4096)


def msync_whole_log(files: Any) -> None:
    files.map("/log", 3 * 4096).msync(0, 3 * 4096)


JOURNALS = ("ext4", "ext4-ordered", "ext4-data", "xfs")
VOUCHES: dict[str, tuple[Body, ...]] = {
    "fsync behind a write in place: the time of the write is in the journal": (
        *(create_new_file, lambda files: files.map("/log", 8192).store(10, b"in place")),
        sync_log,
    ),
    "fsync behind a write in place that msync has made durable": (create_new_file, store_and_msync, sync_log),
    "fdatasync of a file that has become longer": (create_new_file, append_and_fdatasync),
    "msync of a page that has no block yet": (
        extend_log,
        msync_whole_log,
        create_new_file,
        store_in_new_page_and_msync,
    ),
    "msync of any page of a file that has got another name": (
        *(create_new_file, lambda files: files.rename("/log", "/d/log")),
        *(lambda files: files.map("/d/log", 8192).store(0, b"x"), lambda files: files.map("/d/log", 8192).msync(0, 10)),
    ),
    "a sync of the directory": (create_new_file, lambda files: files.sync_directory("/")),
    "a sync of the directory that a file was moved from later": (
        *(create_new_file, lambda files: files.rename("/d/old", "/old")),
        lambda files: files.sync_directory("/d"),
    ),
    "a sync of a directory that was made later": (
        *(create_new_file, lambda files: files.make_directories("/e")),
        lambda files: files.sync_directory("/e"),
    ),
}
VOUCHES_NOT: dict[str, tuple[Body, ...]] = {
    "msync of a page that has its block": (create_new_file, store_and_msync),
    "fdatasync of a file that is as long as it was": (create_new_file, pwrite_and_fdatasync),
    "msync beside a page that has no block yet": (
        extend_log,
        msync_whole_log,
        create_new_file,
        store_beside_new_page_and_msync,
    ),
    "fsync of a file that was last written before": (
        *(lambda files: files.write("/log", b"once"), create_new_file),
        sync_log,
    ),
    "fsync of a file that nobody has changed": (create_new_file, sync_log),
    "a sync of another directory": (create_new_file, lambda files: files.sync_directory("/d")),
}


@pytest.mark.parametrize("profile", JOURNALS)
@pytest.mark.parametrize("case", VOUCHES)
def test_a_sync_commits_metadata_changes_before_its_files_last_change(profile: str, case: str) -> None:
    assert new_file_survives(profile, *VOUCHES[case])


@pytest.mark.parametrize("profile", JOURNALS)
@pytest.mark.parametrize("case", VOUCHES_NOT)
def test_a_sync_without_changes_commits_no_journal(profile: str, case: str) -> None:
    assert not new_file_survives(profile, *VOUCHES_NOT[case])


def test_a_synced_page_of_zeros_counts_as_a_page_without_a_block() -> None:
    def stored(files: Any) -> None:
        files.map("/log", 3 * 4096).store(8192, bytes(10))

    assert new_file_survives("ext4", extend_log, stored, msync_whole_log, create_new_file, store_in_new_page_and_msync)


def test_a_lying_fdatasync_commits_like_fdatasync() -> None:
    for seed in range(30):
        rig = Rig(seed=str(seed), image=START)
        create_new_file(rig.files)
        with rig.disk.with_faults(lying_sync_chance=1.0):
            store_and_msync(rig.files)
        rig.files.sync_directory("/d")  # an honest sync, which flushes the drive's cache
        if "/new" not in rig.cut("ext4").files:
            return
    raise AssertionError("it commits the names")
