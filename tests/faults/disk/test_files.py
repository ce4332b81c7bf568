import errno
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from tests.faults.rigs import Rig
from tornlog.faults.disk.image import Image
from tornlog.store.world import FileLock, Files, MappedFile


def public_methods(protocol: type) -> list[str]:
    return [name for name in vars(protocol) if not name.startswith("_")]


def test_simulated_files_implement_the_world_interface(rig: Any) -> None:
    mapped = rig.files.map("/a", 10)

    for thing, protocol in ((rig.files, Files), (mapped, MappedFile), (rig.files.lock("/l"), FileLock)):
        for name in public_methods(protocol):
            assert hasattr(thing, name), name
    assert (mapped.path, mapped.size_bytes) == ("/a", 10)


def test_a_map_that_is_dropped_without_close_stays_mapped_until_its_file_is_removed(rig: Any) -> None:
    rig.files.map("/a", 10)
    rig.files.map("/b", 10).close()

    assert rig.disk.mapped_paths(rig.machine) == ["/a"]
    rig.files.unlink("/a")
    assert rig.disk.mapped_paths(rig.machine) == []


def test_a_created_or_removed_name_is_undurable_until_its_directory_is_synced(rig: Any) -> None:
    files = rig.files
    files.map("/a", 10)
    files.sync("/a")
    assert rig.disk.undurable_names("/") == ["/a"]
    files.sync_directory("/")
    assert rig.disk.undurable_names("/") == []
    files.unlink("/a")
    assert rig.disk.undurable_names("/") == ["/a"]


def test_a_file_is_durable_with_its_bytes_its_name_and_all_directories_above_it(rig: Any) -> None:
    files, found = rig.files, []
    files.make_directories("/a/b")
    files.map("/a/b/c", 10)
    for sync in (lambda: files.sync("/a/b/c"), *(partial(files.sync_directory, at) for at in ("/a/b", "/a", "/"))):
        found.append(rig.disk.is_file_durable("/a/b/c", 0, 10))
        sync()

    assert found == [False] * 4
    assert rig.disk.is_file_durable("/a/b/c", 0, 10)


def test_a_disk_knows_the_files_of_failed_writes_until_the_next_mount(rig: Any) -> None:
    mapped = rig.files.map("/a", 10)
    with rig.disk.with_faults(failed_write_chance=1.0), pytest.raises(OSError, match="/a"):
        mapped.pwrite(0, b"lost")
    assert set(rig.disk.failed_writes) == {"/a"}

    rig.disk.mount(rig.machine)
    assert not rig.disk.failed_writes


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_stores_and_pwrites_copy_any_buffer(kind: Any) -> None:
    mapped = Rig().files.map("/a", 8)
    source = bytearray(b"ab")
    mapped.store(0, kind(source))
    assert mapped.pwrite(2, kind(source)) == 2
    view = mapped.view(0, 4)
    source[:] = b"zz"

    assert bytes(view) == b"abab"
    assert view.readonly
    mapped.store(0, b"c")
    assert bytes(view) == b"cbab"


def test_use_outside_of_the_map_or_after_close_is_a_value_error(rig: Any) -> None:
    mapped = rig.files.map("/a", 8)
    kept = mapped.view(0, 8)
    before = rig.disk.operations
    outside: list[Callable[[], object]] = [
        lambda: mapped.store(7, b"ab"),
        lambda: mapped.store(-1, b"a"),
        lambda: mapped.pwrite(8, b"a"),
        lambda: mapped.view(0, 9),
        lambda: mapped.view(-1, 2),
        lambda: mapped.msync(4, 9),
    ]
    for wrong in outside:
        with pytest.raises(ValueError, match=r"/a: \[-?\d+, \d+\) is not within \[0, 8\)"):
            wrong()
    mapped.close()
    mapped.close()
    closed: list[Callable[[], object]] = [
        lambda: mapped.store(0, b"a"),
        lambda: mapped.view(0, 0),
        lambda: mapped.fdatasync(),
    ]
    for wrong in closed:
        with pytest.raises(ValueError, match="/a: the map is closed"):
            wrong()
    assert bytes(kept) == bytes(8)
    assert rig.disk.operations == before


def test_invalid_calls_get_no_operation_number(rig: Any) -> None:
    files = rig.files
    files.make_directories("/d")
    files.write("/f", b"x")
    before = rig.disk.operations
    wrongs: list[tuple[Callable[[], object], type[OSError]]] = [
        (lambda: files.read("/d"), IsADirectoryError),
        (lambda: files.write("/d", b""), IsADirectoryError),
        (lambda: files.unlink("/x"), FileNotFoundError),
        (lambda: files.sync("/x"), FileNotFoundError),
        (lambda: files.sync_directory("/x"), FileNotFoundError),
        (lambda: files.rename("/f", "/d"), IsADirectoryError),
        (lambda: files.map("/f/x", 1), NotADirectoryError),
        (lambda: files.make_directories("/f"), FileExistsError),
        (lambda: files.remove_directory("/"), OSError),
    ]
    for wrong, kind in wrongs:
        with pytest.raises(kind):
            wrong()
    assert rig.disk.operations == before


def test_a_clock_step_does_not_change_earlier_mtimes() -> None:
    rig = Rig()
    start_ms = rig.kernel.wall_start_ms

    def body() -> None:
        rig.machine.tasks.sleep(1500)
        mapped = rig.files.map("/a", 10)
        assert rig.files.status("/a").mtime_ms == start_ms + 1500
        rig.machine.tasks.sleep(500)
        mapped.store(0, b"x")
        assert rig.files.status("/a").mtime_ms == start_ms + 2000
        rig.machine.wall_offset_ms = -60_000
        assert rig.files.status("/a").mtime_ms == start_ms + 2000
        mapped.pwrite(0, b"x")
        assert rig.files.status("/a").mtime_ms == start_ms - 58_000

    rig.run(body)
    image = rig.cut("process-kill")
    assert image.files["/a"].mtime_ms == start_ms - 58_000
    assert Rig(image=image).files.status("/a").mtime_ms == start_ms - 58_000


def test_a_file_lock_excludes_others_until_released_or_its_holder_dies(rig: Any) -> None:
    lock = rig.files.lock("/lock")
    rival = rig.kernel.create_machine("rival")
    rivals = rig.disk.mount(rival)

    with pytest.raises(BlockingIOError) as refusal:
        rivals.lock("/lock")
    assert refusal.value.errno == errno.EWOULDBLOCK
    with pytest.raises(BlockingIOError):
        rig.files.lock("/lock")

    lock.release()
    rivals.lock("/lock")
    lock.release()  # no effect: the lock belongs to another machine now
    with pytest.raises(BlockingIOError):
        rig.files.lock("/lock")

    rig.kernel.kill(rival)
    rig.files.lock("/lock")
    assert rig.files.read("/lock") == b""


def test_renames_to_the_same_name_and_locks_get_no_operation_number(rig: Any) -> None:
    lock = rig.files.lock("/a")
    lock.release()
    before = rig.disk.operations
    lock.release()
    rig.files.rename("/a", "/a")
    rig.files.lock("/a")

    assert rig.disk.operations == before
    assert rig.files.list_directory("/") == ["a"]


def test_two_tasks_creating_the_same_directories_create_each_once() -> None:
    for seed in range(30):
        rig = Rig(seed=str(seed))

        def body(rig: Any = rig) -> None:
            make = [lambda: rig.files.make_directories("/a/b/c")] * 2
            for task in [rig.machine.tasks.spawn("maker", work) for work in make]:
                task.join(None)

        rig.run(body)
        assert rig.disk.operations == 3


def test_concurrent_writes_of_a_file_leave_the_bytes_of_one_of_them() -> None:
    contents = set()
    for seed in range(60):
        rig = Rig(seed=str(seed))

        def body(rig: Any = rig) -> bytes:
            rig.files.write("/a", b"0")
            tasks = [
                rig.machine.tasks.spawn(f"writer {data!r}", lambda data=data: rig.files.write("/a", data))
                for data in (b"long", b"x")
            ]
            for task in tasks:
                task.join(None)
            return bytes(rig.files.read("/a"))

        contents.add(rig.run(body))
    assert contents == {b"long", b"x", b"xong"}


@pytest.mark.parametrize(("synced", "left"), [((), ()), (("/",), ()), ((".",), (".", "mq")), (("mq",), ())])
def test_a_sync_of_the_working_directory_covers_relative_names(synced: tuple[str, ...], left: tuple[str, ...]) -> None:
    def body(rig: Any) -> None:
        rig.files.make_directories("mq")
        rig.files.write("mq/lock", b"lock")
        for directory in synced:
            rig.files.sync_directory(directory)

    kept = set[tuple[str, ...]]()
    for seed in range(20):
        rig = Rig(str(seed), image=Image({}, (".",)))
        rig.run(lambda rig=rig: body(rig))
        kept.add(rig.cut("strict-posix").directories)

    assert (".", "mq") in kept
    assert (kept == {(".", "mq")}) is (left != ())
