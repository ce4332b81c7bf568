"""Every world fulfils the protocol in store/world.py.

WORLDS has an entry for each world: for a test's directory, the World, an existing directory in it, and how to run code.
"""

import errno
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import pytest

from tornlog.faults.disk.disk import Disk
from tornlog.faults.disk.image import Image
from tornlog.sim.choices import Choices
from tornlog.sim.errors import TaskFailedError
from tornlog.sim.kernel import Kernel
from tornlog.sim.policies.random_walk import RandomWalk
from tornlog.store.real.world import overlay_world, real_world
from tornlog.store.world import World

Body = Callable[[], None]
pytestmark = pytest.mark.usefixtures("inside")


class Habitat(NamedTuple):
    """A world, an empty directory in it, and a function that runs a body in the world and raises its errors."""

    world: World
    root: str
    run: Callable[[Body], None]


def _call(body: Body) -> None:
    body()


def simulated(mean_quantum: int) -> Callable[[Path], Habitat]:
    """Return a maker of a machine with its own disk and a policy of that mean quantum."""

    def habitat(_: Path) -> Habitat:
        choices = Choices("conformance")
        kernel = Kernel(RandomWalk(choices.stream("schedule"), mean_quantum))
        machine = kernel.create_machine("simulated")
        disk = Disk(kernel, choices.stream("disk"), image=Image({}, ("/root",)))

        def run(body: Body) -> None:
            try:
                kernel.run(machine, body, time_limit_ns=60 * 10**9)
            except TaskFailedError as failed:
                raise failed.__cause__ or failed from None

        return Habitat(World(machine.clock, machine.tasks, disk.mount(machine)), "/root", run)

    return habitat


WORLDS: dict[str, Callable[[Path], Habitat]] = {
    "real": lambda directory: Habitat(real_world(), str(directory), _call),
    "overlay": lambda directory: Habitat(overlay_world(), str(directory), _call),
    "simulated": simulated(mean_quantum=8),
    "simulated, a switch at every point": simulated(mean_quantum=1),
}


@pytest.fixture(params=sorted(WORLDS))
def habitat(request: pytest.FixtureRequest, tmp_path: Path) -> Habitat:
    return WORLDS[request.param](tmp_path)


@pytest.fixture
def world(habitat: Habitat) -> World:
    return habitat.world


@pytest.fixture
def root(habitat: Habitat) -> str:
    return habitat.root


@pytest.fixture
def inside(habitat: Habitat) -> Callable[[Body], None]:
    return habitat.run


# Files: maps


def test_mapping_a_new_file_creates_it_with_zeros(world: World, root: str) -> None:
    file = world.files.map(f"{root}/new", 10_000)
    assert (file.path, file.size_bytes) == (f"{root}/new", 10_000)
    assert bytes(file.view(0, 10_000)) == bytes(10_000)
    status = world.files.status(f"{root}/new")
    assert status is not None
    assert status.size_bytes == 10_000
    assert not status.is_directory


def test_mapping_extends_a_shorter_file_with_zeros(world: World, root: str) -> None:
    world.files.write(f"{root}/short", b"head")
    file = world.files.map(f"{root}/short", 5000)
    assert bytes(file.view(0, 5000)) == b"head" + bytes(4996)
    assert world.files.read(f"{root}/short") == b"head" + bytes(4996)


def test_mapping_fewer_bytes_of_a_longer_file_does_not_shorten_it(world: World, root: str) -> None:
    world.files.map(f"{root}/long", 9000).store(4094, b"both")
    file = world.files.map(f"{root}/long", 4096)
    assert file.size_bytes == 4096
    assert bytes(file.view(4094, 4096)) == b"bo"
    status = world.files.status(f"{root}/long")
    assert status is not None
    assert status.size_bytes == 9000
    assert world.files.read(f"{root}/long")[4094:4098] == b"both"


def test_a_map_keeps_its_size_when_a_longer_map_extends_the_file(world: World, root: str) -> None:
    first = world.files.map(f"{root}/log", 4096)
    longer = world.files.map(f"{root}/log", 8192)
    longer.store(10, b"later")
    longer.store(5000, b"beyond")
    assert (first.size_bytes, longer.size_bytes) == (4096, 8192)
    assert bytes(first.view(10, 15)) == b"later"
    first.store(20, b"back")
    assert bytes(longer.view(20, 24)) == b"back"


def test_stored_bytes_are_visible_in_views_other_maps_and_reads(world: World, root: str) -> None:
    file = world.files.map(f"{root}/log", 4096)
    earlier = file.view(100, 105)
    other = world.files.map(f"{root}/log", 4096)
    file.store(100, b"hello")
    assert bytes(earlier) == b"hello"
    assert bytes(other.view(99, 106)) == b"\0hello\0"
    assert world.files.read(f"{root}/log")[100:105] == b"hello"


def test_any_bytes_like_object_can_be_stored_up_to_the_last_byte_of_a_map(world: World, root: str) -> None:
    file = world.files.map(f"{root}/log", 12)
    file.store(0, b"abcd")
    file.store(4, bytearray(b"efgh"))
    file.store(8, memoryview(b"--ijkl--")[2:6])
    assert bytes(file.view(0, 12)) == b"abcdefghijkl"


def test_a_view_is_read_only_and_outlives_its_map(world: World, root: str) -> None:
    file = world.files.map(f"{root}/log", 4096)
    file.store(7, b"kept")
    view = file.view(7, 11)
    file.close()
    assert view.readonly
    assert bytes(view) == b"kept"


def test_a_reopened_file_has_the_bytes_stored_before_close(world: World, root: str) -> None:
    file = world.files.map(f"{root}/log", 4096)
    file.store(4000, b"left")
    file.close()
    assert bytes(world.files.map(f"{root}/log", 4096).view(4000, 4004)) == b"left"


def test_syncs_of_a_map_do_not_change_its_bytes(world: World, root: str) -> None:
    file = world.files.map(f"{root}/log", 20_000)
    file.store(5000, b"durable")
    file.msync(5000, 5007)
    file.msync(0, 20_000)
    file.msync(20_000, 20_000)
    file.fdatasync()
    world.files.sync(f"{root}/log")
    world.files.sync_directory(root)
    assert bytes(file.view(4999, 5008)) == b"\0durable\0"


# Files: names


def test_consecutive_descriptor_writes_fill_the_file(world: World, root: str) -> None:
    file = world.files.map(f"{root}/written", 9000)
    data = memoryview(bytearray(range(200)) * 45)
    at = 0
    while at < 9000:
        written = file.pwrite(at, data[at : min(at + 4000, 9000)])
        assert written > 0
        at += written
    file.fdatasync()
    assert bytes(file.view(0, 9000)) == bytes(data)


def test_mlock_advice_and_munlock_do_not_change_a_map(world: World, root: str) -> None:
    file = world.files.map(f"{root}/locked", 8192)
    file.store(4095, b"xy")
    with suppress(OSError):  # the limit of the machine
        file.mlock()
    file.advise_will_need()
    file.munlock()
    assert bytes(file.view(4094, 4098)) == b"\0xy\0"


@pytest.mark.parametrize(("start", "end"), [(0, 12288), (1, 12288), (4096, 8191), (4000, 4100), (0, 0)])
def test_pages_released_with_advise_dont_need_keep_their_bytes(world: World, root: str, start: int, end: int) -> None:
    file = world.files.map(f"{root}/given back", 12288)
    data = bytes(range(256)) * 48
    file.store(0, data)
    file.advise_dont_need(start, end)
    assert bytes(file.view(0, 12288)) == data


def test_a_buffer_is_separate_zeroed_writable_memory(world: World) -> None:
    first, second = world.files.buffer(5000), world.files.buffer(5000)
    assert (len(first), first.readonly, bytes(first)) == (5000, False, bytes(5000))
    first[4998:5000] = b"xy"
    assert bytes(first[4997:]) == b"\0xy"
    assert bytes(second) == bytes(5000)


def test_written_buffer_bytes_do_not_change_with_the_buffer(world: World, root: str) -> None:
    buffer, file = world.files.buffer(100), world.files.map(f"{root}/committed", 100)
    buffer[10:13] = b"abc"
    assert file.pwrite(10, buffer[10:13]) == 3
    buffer[10:13] = b"xyz"
    assert bytes(file.view(9, 14)) == b"\0abc\0"


def test_an_mtime_that_was_set_is_returned(world: World, root: str) -> None:
    world.files.write(f"{root}/dated", b"x")
    world.files.set_mtime_ms(f"{root}/dated", 1_234_567_890_123)
    status = world.files.status(f"{root}/dated")
    assert status is not None
    assert (status.mtime_ms, status.size_bytes) == (1_234_567_890_123, 1)
    with pytest.raises(FileNotFoundError):
        world.files.set_mtime_ms(f"{root}/missing", 0)


def test_space_reports_the_usage_of_the_file_system(world: World, root: str) -> None:
    world.files.map(f"{root}/file", 1 << 16)
    space = world.files.space(root)
    assert space.used_bytes > 0
    assert space.usable_bytes >= 0
    below = world.files.space(f"{root}/file")
    assert below.used_bytes + below.usable_bytes > 1 << 16


def test_rewriting_a_small_file_replaces_its_content(world: World, root: str) -> None:
    world.files.write(f"{root}/abort", b"a longer first content")
    world.files.write(f"{root}/abort", b"second")
    assert world.files.read(f"{root}/abort") == b"second"
    status = world.files.status(f"{root}/abort")
    assert status is not None
    assert status.size_bytes == 6


def test_the_mtime_of_a_new_file_is_the_current_wall_clock(world: World, root: str) -> None:
    before_ms = world.clock.now_ms()
    world.files.write(f"{root}/dated", b"now")
    status = world.files.status(f"{root}/dated")
    assert status is not None
    # The kernel stamps files with the time of its last tick, which may be some ms old.
    assert before_ms - 20 <= status.mtime_ms <= world.clock.now_ms()


def test_directories_are_created_with_their_parents_and_may_already_exist(world: World, root: str) -> None:
    world.files.make_directories(f"{root}/consumequeue/topic/0")
    world.files.make_directories(f"{root}/consumequeue/topic/0")
    for path in (f"{root}/consumequeue", f"{root}/consumequeue/topic/0"):
        status = world.files.status(path)
        assert status is not None
        assert status.is_directory
    assert world.files.list_directory(f"{root}/consumequeue") == ["topic"]


def test_directory_names_are_listed_in_order(world: World, root: str) -> None:
    for name in ("b", "00000000001073741824", "a", "00000000000000000000"):
        world.files.write(f"{root}/{name}", b"")
    world.files.make_directories(f"{root}/aa/deeper")
    assert world.files.list_directory(root) == ["00000000000000000000", "00000000001073741824", "a", "aa", "b"]
    assert world.files.list_directory(f"{root}/aa/deeper") == []


def test_a_rename_replaces_an_existing_file(world: World, root: str) -> None:
    world.files.write(f"{root}/config.json", b"old")
    world.files.write(f"{root}/config.json.tmp", b"new")
    world.files.rename(f"{root}/config.json.tmp", f"{root}/config.json")
    assert world.files.read(f"{root}/config.json") == b"new"
    assert world.files.list_directory(root) == ["config.json"]


def test_a_map_follows_its_file_through_a_rename(world: World, root: str) -> None:
    file = world.files.map(f"{root}/old", 4096)
    world.files.rename(f"{root}/old", f"{root}/new")
    file.store(0, b"still here")
    assert world.files.read(f"{root}/new")[:10] == b"still here"
    assert world.files.status(f"{root}/old") is None


def test_a_map_of_an_unlinked_file_stays_usable(world: World, root: str) -> None:
    file = world.files.map(f"{root}/expired", 4096)
    file.store(0, b"before")
    world.files.unlink(f"{root}/expired")
    file.store(6, b" after")
    file.msync(0, 4096)
    assert bytes(file.view(0, 12)) == b"before after"
    assert world.files.status(f"{root}/expired") is None
    assert world.files.list_directory(root) == []


def test_a_file_created_under_an_unlinked_name_is_a_new_file(world: World, root: str) -> None:
    old = world.files.map(f"{root}/log", 4096)
    old.store(0, b"old")
    world.files.unlink(f"{root}/log")
    new = world.files.map(f"{root}/log", 4096)
    new.store(8, b"new")
    assert bytes(new.view(0, 11)) == bytes(8) + b"new"
    assert bytes(old.view(0, 11)) == b"old" + bytes(8)


def test_an_emptied_directory_can_be_removed_and_made_again(world: World, root: str) -> None:
    world.files.make_directories(f"{root}/topic")
    world.files.write(f"{root}/topic/file", b"x")
    world.files.unlink(f"{root}/topic/file")
    world.files.remove_directory(f"{root}/topic")
    assert world.files.status(f"{root}/topic") is None
    assert world.files.list_directory(root) == []
    world.files.make_directories(f"{root}/topic")
    assert world.files.list_directory(f"{root}/topic") == []


def test_the_status_of_a_missing_path_is_none(world: World, root: str) -> None:
    world.files.write(f"{root}/file", b"")
    assert world.files.status(f"{root}/none") is None
    assert world.files.status(f"{root}/none/below") is None
    assert world.files.status(f"{root}/file/below") is None


REFUSED: dict[str, tuple[int, Callable[[World, str], object]]] = {
    "read a missing file": (errno.ENOENT, lambda w, d: w.files.read(f"{d}/none")),
    "write below a missing directory": (errno.ENOENT, lambda w, d: w.files.write(f"{d}/none/x", b"")),
    "map below a missing directory": (errno.ENOENT, lambda w, d: w.files.map(f"{d}/none/x", 1)),
    "lock below a missing directory": (errno.ENOENT, lambda w, d: w.files.lock(f"{d}/none/x")),
    "list a missing directory": (errno.ENOENT, lambda w, d: w.files.list_directory(f"{d}/none")),
    "sync a missing file": (errno.ENOENT, lambda w, d: w.files.sync(f"{d}/none")),
    "sync a missing directory": (errno.ENOENT, lambda w, d: w.files.sync_directory(f"{d}/none")),
    "rename a missing file": (errno.ENOENT, lambda w, d: w.files.rename(f"{d}/none", f"{d}/x")),
    "rename into a missing directory": (errno.ENOENT, lambda w, d: w.files.rename(f"{d}/file", f"{d}/none/x")),
    "unlink a missing file": (errno.ENOENT, lambda w, d: w.files.unlink(f"{d}/none")),
    "remove a missing directory": (errno.ENOENT, lambda w, d: w.files.remove_directory(f"{d}/none")),
    "remove a directory in use": (errno.ENOTEMPTY, lambda w, d: w.files.remove_directory(f"{d}/full")),
    "remove a file as a directory": (errno.ENOTDIR, lambda w, d: w.files.remove_directory(f"{d}/file")),
    "list a file": (errno.ENOTDIR, lambda w, d: w.files.list_directory(f"{d}/file")),
    "make a directory over a file": (errno.EEXIST, lambda w, d: w.files.make_directories(f"{d}/file")),
    "make a directory below a file": (errno.ENOTDIR, lambda w, d: w.files.make_directories(f"{d}/file/x")),
    "unlink a directory": (errno.EISDIR, lambda w, d: w.files.unlink(f"{d}/full")),
    "map a directory": (errno.EISDIR, lambda w, d: w.files.map(f"{d}/full", 1)),
    "rename a file over a directory": (errno.EISDIR, lambda w, d: w.files.rename(f"{d}/file", f"{d}/full")),
}


@pytest.mark.parametrize("refusal", REFUSED)
def test_impossible_operations_are_refused_with_their_errno(refusal: str, world: World, root: str) -> None:
    code, attempt = REFUSED[refusal]

    world.files.write(f"{root}/file", b"unharmed")
    world.files.make_directories(f"{root}/full")
    world.files.write(f"{root}/full/file", b"unharmed")
    with pytest.raises(OSError, match=rf"\[Errno {code}\]"):
        attempt(world, root)

    assert world.files.list_directory(root) == ["file", "full"]
    assert world.files.read(f"{root}/file") == b"unharmed"
    assert world.files.read(f"{root}/full/file") == b"unharmed"


def test_a_file_lock_excludes_other_holders_until_released(world: World, root: str) -> None:
    held = world.files.lock(f"{root}/lock")
    with pytest.raises(BlockingIOError):
        world.files.lock(f"{root}/lock")
    with pytest.raises(BlockingIOError):
        world.files.lock(f"{root}/lock")
    held.release()
    world.files.lock(f"{root}/lock").release()
    assert world.files.list_directory(root) == ["lock"]


def test_a_locked_file_can_be_written_synced_and_read_and_stays_locked(world: World, root: str) -> None:
    held = world.files.lock(f"{root}/lock")
    world.files.write(f"{root}/lock", b"lock")
    world.files.sync(f"{root}/lock")
    assert world.files.read(f"{root}/lock") == b"lock"
    with pytest.raises(BlockingIOError):
        world.files.lock(f"{root}/lock")
    held.release()


# Tasks


def test_a_cell_adds_atomically_and_compare_and_set_replaces_only_the_expected_value(world: World) -> None:
    assert world.tasks.cell("fresh").get() == 0
    cell = world.tasks.cell("wrote", 40)
    assert cell.get() == 40
    assert cell.add(2) == 42
    assert cell.add(-40) == 2
    assert not cell.compare_and_set(3, 9)
    assert cell.get() == 2
    assert cell.compare_and_set(2, 9)
    assert cell.get() == 9
    cell.set(1 << 62)
    assert cell.get() == 1 << 62


def test_concurrent_adds_to_a_cell_are_all_counted(world: World) -> None:
    cell = world.tasks.cell("count")

    def count() -> None:
        for _ in range(200):
            cell.add(1)

    tasks = [world.tasks.spawn(f"counter-{number}", count) for number in range(4)]
    assert all(task.join(None) for task in tasks)
    assert cell.get() == 800


def test_a_notify_before_a_wait_ends_one_wait(world: World) -> None:
    signal = world.tasks.signal("wake-up")
    signal.notify()
    signal.notify()
    assert signal.wait(None)
    assert not signal.wait(0)
    signal.notify()
    assert signal.wait(0)


def test_a_wait_without_a_notify_times_out(world: World) -> None:
    signal = world.tasks.signal("silence")
    start_ns = world.clock.monotonic_ns()
    assert not signal.wait(20)
    assert world.clock.monotonic_ns() - start_ns >= 20_000_000


def test_each_notify_wakes_a_waiting_task(world: World) -> None:
    ping, pong = world.tasks.signal("ping"), world.tasks.signal("pong")
    served = world.tasks.cell("served")

    def serve() -> None:
        for _ in range(50):
            ping.wait(None)
            served.add(1)
            pong.notify()

    server = world.tasks.spawn("server", serve)
    for number in range(50):
        ping.notify()
        assert pong.wait(10_000)
        assert served.get() == number + 1
    assert server.join(10_000)


def test_a_lock_admits_one_task_at_a_time(world: World) -> None:
    lock = world.tasks.lock("put")
    inside, most, turns = world.tasks.cell("inside"), world.tasks.cell("most"), world.tasks.cell("turns")

    def work() -> None:
        for _ in range(3):
            with lock:
                most.set(max(most.get(), inside.add(1)))
                seen = turns.get()
                world.tasks.sleep(1)
                turns.set(seen + 1)
                inside.add(-1)

    tasks = [world.tasks.spawn(f"worker-{number}", work) for number in range(4)]
    assert all(task.join(None) for task in tasks)
    assert (inside.get(), most.get(), turns.get()) == (0, 1, 12)


def test_a_lock_is_released_after_an_exception_in_its_block(world: World) -> None:
    lock = world.tasks.lock("put")
    with pytest.raises(OSError, match="disk"), lock:
        raise OSError("disk")
    entered = world.tasks.cell("entered")

    def enter() -> None:
        with lock:
            entered.set(1)

    assert world.tasks.spawn("next", enter).join(10_000)
    assert entered.get() == 1


def test_join_waits_for_the_end_of_the_task_or_the_timeout(world: World) -> None:
    gate, done = world.tasks.signal("gate"), world.tasks.cell("done")

    def wait_then_finish() -> None:
        gate.wait(None)
        done.set(1)

    task = world.tasks.spawn("service", wait_then_finish)
    assert task.name.rpartition("/")[2] == "service"  # the simulated world adds the machine's name
    assert not task.join(5)
    assert done.get() == 0
    gate.notify()
    assert task.join(None)
    assert done.get() == 1
    assert task.join(0)


def test_a_sleep_advances_both_clocks(world: World) -> None:
    wall_ms, start_ns = world.clock.now_ms(), world.clock.monotonic_ns()
    world.tasks.sleep(15)
    assert world.clock.monotonic_ns() - start_ns >= 15_000_000
    assert world.clock.now_ms() - wall_ms >= 14  # both times are rounded down to ms
