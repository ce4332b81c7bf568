"""The disk at the end of one life and at the start of the next."""

from collections.abc import Callable

import pytest

from tornlog.faults.crashes.profiles import PROFILES
from tornlog.faults.disk.disk import Disk
from tornlog.faults.disk.image import DamagedRange, FileImage, Image
from tornlog.faults.plan import FaultPlan
from tornlog.faults.simulation.disk_lifecycle import DiskLifecycle, Rot, without_rot
from tornlog.sim.choices import Choices
from tornlog.sim.kernel import Kernel
from tornlog.sim.policies.random_walk import RandomWalk
from tornlog.store.world import Files

FAULTS = FaultPlan(slow_sync_chance=1.0)


class Bench:
    """A persistent disk, and machines that mount it one after another."""

    def __init__(self, rot: Rot = without_rot) -> None:
        choices = Choices("lasting")
        self.kernel = Kernel(RandomWalk(choices.stream("schedule"), 16))
        self.lasting = DiskLifecycle(self.kernel, choices.stream, faults=FAULTS, rot=rot)
        self.lives = 0

    def live(self, disk: Disk, body: Callable[[Files], None]) -> None:
        machine = self.kernel.create_machine(f"life-{self.lives}")
        self.lives += 1
        self.kernel.run(machine, lambda: body(disk.mount(machine)), time_limit_ns=60 * 10**9)

    def is_faulty(self, disk: Disk) -> bool:
        """Return whether a sync was slow, as on a faulty disk."""
        before = disk.injected["slow sync"]
        self.live(disk, lambda files: files.sync("/a"))
        return disk.injected["slow sync"] > before

    def found(self, disk: Disk) -> dict[str, bytes]:
        return {path: file.content for path, file in disk.image_after_power_off().files.items()}


@pytest.fixture
def bench() -> Bench:
    return Bench()


def write_synced(files: Files) -> None:
    files.write("/a", b"content")
    files.sync("/a")
    files.sync_directory("/")


def write_unsynced(files: Files) -> None:
    files.write("/a", b"content")


def test_after_a_process_kill_the_same_disk_is_mounted_again_and_the_kill_is_counted(bench: Bench) -> None:
    disk = bench.lasting.find_disk("first", faulty=True)
    bench.live(disk, write_unsynced)
    bench.lasting.set_image_after_crash(disk, PROFILES["process-kill"])

    assert bench.lasting.find_disk("second", faulty=True) is disk
    assert bench.lasting.stream_name == "first"
    assert bench.lasting.injected["crash process-kill"] == 1


def test_without_disk_faults_writes_of_a_killed_process_remain(bench: Bench) -> None:
    disk = bench.lasting.find_disk("first", faulty=True)
    bench.live(disk, write_unsynced)
    bench.lasting.set_image_after_crash(disk, PROFILES["process-kill"])

    sound = bench.lasting.find_disk("healed", faulty=False)
    assert sound is not disk
    assert not bench.is_faulty(sound)
    assert bench.found(sound) == {"/a": b"content"}
    assert bench.lasting.injected["crash process-kill"] == 1


def test_a_power_cut_loses_unsynced_data(bench: Bench) -> None:
    disk = bench.lasting.find_disk("first", faulty=True)
    bench.live(disk, write_synced)
    bench.live(disk, lambda files: files.write("/b", b"unsynced"))
    bench.lasting.set_image_after_crash(disk, PROFILES["strict-posix"])

    after = bench.lasting.find_disk("second", faulty=True)
    assert bench.is_faulty(after)
    found = bench.found(after)
    assert found["/a"] == b"content"
    assert b"unsynced" not in found.values()


def test_changes_made_while_the_machine_is_off_are_visible_in_the_next_life(bench: Bench) -> None:
    disk = bench.lasting.find_disk("first", faulty=True)
    bench.live(disk, write_unsynced)
    left: list[Image] = []

    def change(image: Image) -> Image:
        left.append(image)
        return Image({**image.files, "/b": FileImage(b"foreign", 0)}, image.directories)

    bench.lasting.set_image_after_stop(disk, change)
    shown: list[Image] = []
    bench.lasting.on_image = shown.append

    assert bench.found(bench.lasting.find_disk("second", faulty=True)) == {"/a": b"content", "/b": b"foreign"}
    assert {path: file.content for path, file in left[0].files.items()} == {"/a": b"content"}
    assert [sorted(image.files) for image in shown] == [["/a", "/b"]]


def test_a_power_cut_after_a_stop_loses_unsynced_data(bench: Bench) -> None:
    first = bench.lasting.find_disk("first", faulty=True)
    bench.live(first, write_unsynced)
    bench.lasting.set_image_after_stop(first, power_cut=PROFILES["strict-posix"])

    assert b"content" not in bench.found(bench.lasting.find_disk("second", faulty=True)).values()
    assert bench.lasting.injected["power cut after a stop"] == 1
    assert bench.lasting.injected["crash"] == 0  # a clean stop is no crash


def test_only_disks_with_faults_decay() -> None:
    asked: list[str] = []

    def rot(name: str, image: Image) -> tuple[Image, list[DamagedRange]]:
        asked.append(name)
        return Image({"/rotten": FileImage(b"", 0)}, image.directories), []

    bench = Bench(rot=rot)
    shown: list[Image] = []
    bench.lasting.on_image = shown.append
    first = bench.lasting.find_disk("new", faulty=True)
    bench.live(first, write_unsynced)
    bench.lasting.set_image_after_stop(first)
    sound = bench.lasting.find_disk("sound", faulty=False)
    bench.lasting.set_image_after_stop(sound)

    assert bench.found(bench.lasting.find_disk("faulty", faulty=True)) == {"/rotten": b""}
    assert asked == ["faulty"]
    assert [sorted(image.files) for image in shown] == [["/a"], ["/a"]]
