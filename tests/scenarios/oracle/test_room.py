"""Room on a disk, and how long ago there was too little of it."""

from tornlog.faults.disk.disk import Disk
from tornlog.scenarios.oracle.disk_space import Room
from tornlog.sim.choices import Choices
from tornlog.sim.kernel import Kernel
from tornlog.sim.policies.random_walk import RandomWalk

MS = 1_000_000


def test_room_was_short_from_when_it_was_limited_to_when_it_was_given_back() -> None:
    choices = Choices("room")
    kernel = Kernel(RandomWalk(choices.stream("schedule"), 16))
    machine, disk = kernel.machine("one"), Disk(kernel, choices.stream("disk"))

    def main() -> None:
        room = Room(kernel, disk, lambda _: 0)
        assert not room.is_short
        assert not room.was_short(0)
        room.give_back()
        assert not room.was_short(0), "there was no end to it"
        room.limit(1000)
        assert room.is_short
        assert disk.capacity_bytes == 1000
        assert room.was_short(kernel.now_ns)
        machine.tasks.sleep(5)
        room.give_back()
        assert disk.capacity_bytes is None
        assert not room.is_short
        assert room.was_short(5 * MS)
        assert not room.was_short(5 * MS + 1)

    kernel.run(machine, main, time_limit_ns=10**9)


def test_a_disk_is_too_full_when_more_than_nine_tenths_of_it_are_used() -> None:
    choices = Choices("room")
    kernel = Kernel(RandomWalk(choices.stream("schedule"), 16))
    machine, disk = kernel.machine("one"), Disk(kernel, choices.stream("disk"))

    def main() -> None:
        files = disk.mount(machine)
        room = Room(kernel, disk, lambda _: 0)
        files.write("/file", b"x" * 900)
        assert not room.look(10).too_full, "there is no end to the room"
        room.limit(1000)
        assert not room.look(10).too_full
        files.write("/other", b"x")
        assert not room.look(10).too_full, "who wrote that has asked before"
        assert room.look(10).too_full
        files.unlink("/other")
        assert not room.look(10).too_full
        room.limit(999)
        assert room.look(10).too_full
        room.give_back()
        assert not room.look(10).too_full

    kernel.run(machine, main, time_limit_ns=10**9)


def test_a_look_covers_the_time_since_the_last_one() -> None:
    choices = Choices("room")
    kernel = Kernel(RandomWalk(choices.stream("schedule"), 16))
    machine, disk = kernel.machine("one"), Disk(kernel, choices.stream("disk"))

    def main() -> None:
        files = disk.mount(machine)
        room = Room(kernel, disk, lambda _: 0)
        files.write("/file", b"x" * 950)
        room.limit(1000)
        assert room.look(10) == (True, False)
        files.unlink("/file")
        assert files.space("/").used_bytes == 0
        files.write("/file", b"x" * 950)
        assert room.look(10) == (False, False), "a store that asked has seen room, and that there is none"
        assert room.look(10) == (True, False)
        files.unlink("/file")
        assert room.look(10) == (False, True)

    kernel.run(machine, main, time_limit_ns=10**9)
