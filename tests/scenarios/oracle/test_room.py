"""The limited capacity of a disk, and when the limit applied."""

from collections.abc import Callable

from tornlog.faults.disk.disk import Disk
from tornlog.scenarios.oracle.disk_space import DiskRoom
from tornlog.sim.choices import Choices
from tornlog.sim.kernel import Kernel
from tornlog.sim.machine import Machine
from tornlog.sim.policies.random_walk import RandomWalk

MS = 1_000_000

Story = Callable[[DiskRoom, Disk, Machine], None]


def on_limited_disk(story: Story) -> Callable[[], None]:
    """Run a story with the capacity of a new disk, the disk and its machine."""

    def test() -> None:
        choices = Choices("room")
        kernel = Kernel(RandomWalk(choices.stream("schedule"), 16))
        machine, disk = kernel.create_machine("one"), Disk(kernel, choices.stream("disk"))
        room = DiskRoom(kernel, disk, lambda _: 0)
        kernel.run(machine, lambda: story(room, disk, machine), time_limit_ns=10**9)

    return test


@on_limited_disk
def test_the_disk_counts_as_limited_until_the_limit_is_lifted(room: DiskRoom, disk: Disk, machine: Machine) -> None:
    assert not room.is_limited
    assert not room.was_limited(0)
    room.lift_limit()
    assert not room.was_limited(0), "there was no end to it"
    room.limit_capacity(1000)
    assert room.is_limited
    assert disk.capacity_bytes == 1000
    assert room.was_limited(machine.kernel.now_ns)
    machine.tasks.sleep(5)
    room.lift_limit()
    assert disk.capacity_bytes is None
    assert not room.is_limited
    assert room.was_limited(5 * MS)
    assert not room.was_limited(5 * MS + 1)


@on_limited_disk
def test_easing_the_limit_leaves_a_share_of_the_disk_used_without_setting_a_limit(
    room: DiskRoom, disk: Disk, machine: Machine
) -> None:
    files = disk.mount(machine)
    files.write("/file", b"x" * 900)
    room.raise_capacity(50)
    assert disk.capacity_bytes is None
    room.limit_capacity(900)
    room.raise_capacity(90)
    assert disk.capacity_bytes == 1001
    assert room.is_limited


@on_limited_disk
def test_a_disk_counts_as_too_full_above_ninety_percent(room: DiskRoom, disk: Disk, machine: Machine) -> None:
    files = disk.mount(machine)
    files.write("/file", b"x" * 900)
    assert not room.take_filling(10).too_full, "there is no end to the room"
    room.limit_capacity(1000)
    assert not room.take_filling(10).too_full
    files.write("/other", b"x")
    assert not room.take_filling(10).too_full, "the writer has asked before"
    assert room.take_filling(10).too_full
    files.unlink("/other")
    assert not room.take_filling(10).too_full
    room.limit_capacity(999)
    assert room.take_filling(10).too_full
    room.lift_limit()
    assert not room.take_filling(10).too_full


@on_limited_disk
def test_a_space_check_covers_the_time_since_the_previous_check(room: DiskRoom, disk: Disk, machine: Machine) -> None:
    files = disk.mount(machine)
    files.write("/file", b"x" * 950)
    room.limit_capacity(1000)
    assert room.take_filling(10) == (True, False)
    files.unlink("/file")
    assert files.space("/").used_bytes == 0
    files.write("/file", b"x" * 950)
    assert room.take_filling(10) == (False, False), "a store that asked has seen room, and that there is none"
    assert room.take_filling(10) == (True, False)
    files.unlink("/file")
    assert room.take_filling(10) == (False, True)
