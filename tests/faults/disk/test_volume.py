from collections.abc import Callable
from typing import Any

import pytest

from tornlog.faults.disk.changes import MetadataState
from tornlog.faults.disk.image import FileImage, Image
from tornlog.faults.disk.namespace import Namespace


def names_after_losing(names: Namespace, *lost: int) -> MetadataState:
    entries = names.durable.copy()
    for change in names.journal:
        if change.number in lost:
            change.apply_loss(entries)
        else:
            change.apply(entries)
    entries.remove_orphans()
    return entries


def make_names(*paths: str) -> Namespace:
    """Return the names of a directory /d with durable files."""
    files = {path: FileImage(path.encode(), 0) for path in paths}
    return Namespace.from_image(Image(files, ("/d",)), 4096, 0)


def test_a_file_is_missing_if_its_creation_is_lost() -> None:
    names = make_names()
    names.create(1, "/d/a", 0)

    assert sorted(names_after_losing(names).names) == ["/d/a"]
    assert sorted(names_after_losing(names, 1).names) == []


def test_a_file_has_its_durable_size_if_its_extension_is_lost() -> None:
    names = make_names("/d/a")
    inode = names.find_file("/d/a")
    names.extend(1, "/d/a", inode, 100, by_write=False)
    names.extend(2, "/d/a", inode, 200, by_write=False)

    assert names_after_losing(names).sizes[inode.identity] == 200
    assert names_after_losing(names, 2).sizes[inode.identity] == 100
    assert names_after_losing(names, 1).sizes[inode.identity] == 200
    assert names_after_losing(names, 1, 2).sizes[inode.identity] == 4


def test_a_file_is_restored_if_its_removal_is_lost_unless_its_name_was_reused() -> None:
    names = make_names("/d/a")
    old = names.find_file("/d/a")
    names.unlink(1, "/d/a")
    new = names.create(2, "/d/a", 0)

    assert names_after_losing(names, 1).inode("/d/a") is new
    assert names_after_losing(names, 1, 2).inode("/d/a") is old
    assert names_after_losing(names, 2).inode("/d/a") is None


def test_a_lost_rename_restores_both_names() -> None:
    names = make_names("/d/a", "/d/b")
    a, b = names.find_file("/d/a"), names.find_file("/d/b")
    names.rename(1, "/d/a", "/d/b")

    assert names.current.inode("/d/b") is a
    assert names_after_losing(names, 1).inode("/d/a") is a
    assert names_after_losing(names, 1).inode("/d/b") is b


def test_a_rename_kept_without_the_creation_still_names_the_file() -> None:
    names = make_names()
    inode = names.create(1, "/d/tmp", 0)
    names.rename(2, "/d/tmp", "/d/final")

    kept = names_after_losing(names, 1)
    assert sorted(kept.names) == ["/d/final"]
    assert kept.inode("/d/final") is inode


def test_losing_a_truncation_to_empty_restores_the_content_under_the_new_name() -> None:
    names = make_names("/d/a")
    old = names.find_file("/d/a")
    new = names.empty(1, "/d/a", 0)
    names.rename(2, "/d/a", "/d/b")

    assert names_after_losing(names).inode("/d/b") is new
    assert names_after_losing(names, 1).inode("/d/b") is old
    assert names_after_losing(names, 1, 2).inode("/d/a") is old


def test_a_lost_directory_loses_its_content() -> None:
    names = make_names()
    names.make_directory(1, "/d/e")
    names.make_directory(2, "/d/e/f")
    names.create(3, "/d/e/f/a", 0)

    assert names_after_losing(names, 1).directories == {"/", "/d"}
    assert sorted(names_after_losing(names, 2).names) == []

    names.sync_directory("/d/e", 4)
    names.sync_directory("/d/e/f", 4)

    assert sorted(names_after_losing(names, 1).names) == []
    names.sync_directory("/d", 4)
    assert names.journal == []

    names.unlink(5, "/d/e/f/a")
    names.remove_directory(6, "/d/e/f")
    assert names_after_losing(names, 6).directories == {"/", "/d", "/d/e", "/d/e/f"}


def test_a_directory_sync_covers_only_its_own_names() -> None:
    names = make_names()
    names.make_directory(1, "/d/e")
    names.create(2, "/d/e/a", 0)
    inode = names.create(3, "/d/b", 0)
    names.extend(4, "/d/b", inode, 10, by_write=False)
    names.create(6, "/d/late", 0)
    names.sync_directory("/d", 5)

    unsynced = [change.label for change in names.journal if not change.synced]
    assert unsynced == ["create /d/e/a", "extend /d/b", "create /d/late"]
    assert names.committed == 5, "it changed again behind its sync: all before that is taken for committed"


def test_a_file_sync_covers_its_size_but_not_its_name() -> None:
    names = make_names()
    inode = names.create(1, "/d/a", 0)
    names.extend(2, "/d/a", inode, 10, by_write=False)
    names.extend(4, "/d/a", inode, 20, by_write=False)
    names.sync_file(inode, 3, 0, 10)

    assert [change.label for change in names.journal if change.synced] == ["extend /d/a"]
    assert names_after_losing(names, 4).sizes[inode.identity] == 10

    names.sync_file(inode, 5, 0, 20)
    assert [change.label for change in names.journal if not change.synced] == ["create /d/a"]
    names.sync_directory("/d", 6)
    assert names.journal == []


def test_a_rename_is_durable_once_the_directory_of_the_new_name_is_synced() -> None:
    names = make_names("/d/a")
    names.make_directory(1, "/d/e")
    names.rename(2, "/d/a", "/d/e/a")
    names.sync_directory("/d", 3)
    assert [change.label for change in names.journal] == ["rename /d/a"]
    names.sync_directory("/d/e", 4)
    assert names.journal == []


Rig = Any


def make_rival(rig: Rig, name: str = "rival") -> Any:
    return rig.disk.mount(rig.kernel.create_machine(name))


def test_a_killed_process_releases_its_locks(rig: Any) -> None:
    rig.files.lock("/lock")
    rig.kernel.kill(rig.machine)
    rival = make_rival(rig)

    assert rival.status("/lock") is not None
    rival.lock("/lock")


@pytest.mark.parametrize(
    "touch",
    [
        lambda files: files.write("/lock", b"mine"),
        lambda files: files.set_mtime_ms("/lock", 1),
        lambda files: files.map("/lock", 100),
        lambda files: files.rename("/lock", "/lock"),
    ],
)
def test_a_lock_survives_changes_of_the_content(rig: Any, touch: Callable[[Any], Any]) -> None:
    rig.files.lock("/lock")
    rival = make_rival(rig)
    touch(rival)

    with pytest.raises(BlockingIOError):
        rival.lock("/lock")


def test_a_lock_moves_with_its_file(rig: Any) -> None:
    lock = rig.files.lock("/lock")
    rival = make_rival(rig)
    rival.rename("/lock", "/moved")
    with pytest.raises(BlockingIOError):
        rival.lock("/moved")
    lock.release()

    rival.lock("/moved")


def test_removing_a_lock_file_releases_the_lock(rig: Any) -> None:
    lock = rig.files.lock("/lock")
    rival = make_rival(rig)
    rival.unlink("/lock")
    rival.lock("/lock")
    lock.release()  # releases its own lock, not that of the rival

    with pytest.raises(BlockingIOError):
        rig.files.lock("/lock")


def test_changes_with_a_lower_operation_number_are_refused() -> None:
    names = make_names("/d/a")
    names.unlink(2, "/d/a")

    with pytest.raises(AssertionError):
        names.create(1, "/d/b", 0)


def test_a_sync_fails_if_durable_names_differ_from_the_journal() -> None:
    names = make_names("/d/a")
    names.create(1, "/d/b", 0)
    names.durable.names["/d/c"] = 7

    with pytest.raises(AssertionError):
        names.sync_directory("/d", 1)
