"""Snapshots of a disk for traces, before and after a crash."""

from typing import Any

from tests.faults.rigs import Rig
from tests.one_life import in_rig
from tornlog.faults.crashes.profiles import PROFILES
from tornlog.faults.disk.aftermath import Aftermath, PageFate
from tornlog.faults.disk.disk import Disk
from tornlog.faults.plan import FaultPlan
from tornlog.sim.choices import Choices
from tornlog.sim.kernel import Kernel
from tornlog.sim.policies.random_walk import RoundRobin
from tornlog.sim.trace import Trace


class Listening(Trace):
    """A trace that keeps its snapshots."""

    def __init__(self) -> None:
        super().__init__()
        self.told: list[object] = []

    def emit(self, fact: object) -> None:
        self.told.append(fact)


def test_a_disk_state_separates_durable_and_dirty_bytes(rig: Any) -> None:

    def body() -> None:
        file = rig.files.map("/log", 8192)
        file.store(0, b"durable")
        file.msync(0, 4096)
        file.store(5000, b"dirty")

    rig.run(body)
    state = rig.disk.content_state()
    file = state.files["/log"]
    assert (state.page_bytes, state.sector_bytes) == (4096, 512)
    assert file.cache[5000:5005] == b"dirty"
    assert file.durable_bytes[5000:5005] == bytes(5)
    assert file.cache[:7] == file.durable_bytes[:7] == b"durable"
    assert file.dirty == ((5000, 5005),)
    assert not file.stale
    assert not file.name_is_durable
    assert rig.disk.content_state() == state


@in_rig(Rig)
def test_a_name_is_durable_once_all_directories_above_it_are_synced(rig: Rig) -> None:
    rig.files.make_directories("/a")
    rig.files.map("/a/one", 10)
    known = [rig.disk.content_state().files["/a/one"].name_is_durable]
    for directory in ("/a", "/"):
        rig.files.sync_directory(directory)
        known.append(rig.disk.content_state().files["/a/one"].name_is_durable)
    rig.files.rename("/a/one", "/a/two")
    assert [*known, rig.disk.content_state().files["/a/two"].name_is_durable] == [False, False, True, False]


def test_pages_that_a_failed_sync_dropped_are_stale() -> None:
    rig = Rig(faults=FaultPlan(failed_sync_chance=1.0))

    def body() -> None:
        file = rig.files.map("/log", 8192)
        file.store(0, b"lost")
        try:
            file.msync(0, 4096)
        except OSError:
            return

    rig.run(body)
    assert rig.disk.content_state().files["/log"].stale == {0}


def aftermath_of_power_cut(seed: int) -> Aftermath:
    """Cut the power of a disk with two unsynced writes to one page, and a third to two sectors of another."""
    trace, choices = Listening(), Choices(str(seed))
    kernel = Kernel(RoundRobin(1), trace=trace)
    disk = Disk(kernel, choices.stream("disk"))
    machine = kernel.create_machine("m")
    files = disk.mount(machine)

    def body() -> None:
        file = files.map("/log", 8192)
        file.msync(0, 8192)
        files.sync_directory("/")
        file.store(0, b"1" * 512)
        file.store(512, b"2" * 512)
        file.store(4096, b"3" * 1024)

    kernel.run(machine, body, time_limit_ns=10**12)
    image = disk.crash(PROFILES["strict-posix"])
    (fact,) = trace.told
    assert isinstance(fact, Aftermath)
    assert fact.image is image
    return fact


def test_each_page_is_classified_as_durable_dirty_or_stale() -> None:
    seen = set()
    for seed in range(60):
        aftermath = aftermath_of_power_cut(seed)
        content = aftermath.image.files["/log"].content
        assert [(page.path, page.page) for page in aftermath.pages] == [("/log", 0), ("/log", 1)]
        one, two = (page.ending for page in aftermath.pages)
        first, second = content[0:1] == b"1", content[512:513] == b"2"
        assert (
            one
            == {(0, 0): PageFate.LOST, (1, 0): PageFate.MIDDLE, (1, 1): PageFate.KEPT, (0, 1): PageFate.TORN}[
                first, second
            ]
        )
        third = {content[4096:4097], content[4608:4609]}
        assert two == (PageFate.KEPT if third == {b"3"} else PageFate.LOST if third == {b"\0"} else PageFate.TORN)
        seen |= {one, two}
    assert seen == {PageFate.KEPT, PageFate.LOST, PageFate.MIDDLE, PageFate.TORN}


def test_lost_names_are_listed() -> None:
    lost = set()
    for seed in range(20):
        trace, choices = Listening(), Choices(str(seed))
        kernel = Kernel(RoundRobin(1), trace=trace)
        disk = Disk(kernel, choices.stream("disk"))
        machine = kernel.create_machine("m")
        files = disk.mount(machine)
        kernel.run(machine, lambda files=files: files.map("/log", 512), time_limit_ns=10**12)
        image = disk.crash(PROFILES["strict-posix"])
        (fact,) = trace.told
        assert isinstance(fact, Aftermath)
        assert ("name lost: create /log" in fact.lost) == ("/log" not in image.files)
        lost |= set(fact.lost)
    assert lost == {"name lost: create /log", "size lost: extend /log", "partial extend: extend /log"}


def test_a_process_kill_has_no_losses() -> None:
    trace = Listening()
    kernel = Kernel(RoundRobin(1), trace=trace)
    disk = Disk(kernel, Choices("1").stream("disk"))
    machine = kernel.create_machine("m")
    files = disk.mount(machine)
    kernel.run(machine, lambda: files.map("/log", 512).store(0, b"x"), time_limit_ns=10**12)
    image = disk.crash(PROFILES["process-kill"])
    assert trace.told == [Aftermath("process-kill", (), (), image)]
