import errno
from collections.abc import Callable
from typing import Any

import pytest

from tornlog.faults.crashes.profiles import PROFILES
from tornlog.faults.disk.disk import Disk
from tornlog.faults.disk.image import DamagedRange, FileImage, Image
from tornlog.faults.disk.syncs import SyncTiming
from tornlog.faults.kinds import FaultKind
from tornlog.faults.plan import FaultPlan
from tornlog.sim.choices import Choices
from tornlog.sim.errors import MachineDied
from tornlog.sim.kernel import Kernel
from tornlog.sim.policies.random_walk import RandomWalk

PAGE, SECTOR = 4096, 512
IMAGE = Image({"/a": FileImage(b"a" * 3 * PAGE, 1), "/small": FileImage(b"s" * 100, 1)}, ())
BAD = DamagedRange("/a", PAGE + SECTOR, PAGE + 2 * SECTOR, FaultKind.LATENT_SECTOR_ERROR)


class FlawedRig:
    def __init__(
        self, *bad: DamagedRange, image: Image = IMAGE, sparse: bool = False, capacity: int | None = None
    ) -> None:
        choices = Choices("flaws")
        self.kernel = Kernel(RandomWalk(choices.stream("schedule"), 8))
        self.machine = self.kernel.create_machine("m")
        self.disk = Disk(
            self.kernel,
            choices.stream("disk"),
            image=image,
            timing=SyncTiming(0, 0),
            faults=FaultPlan(sparse=sparse),
            capacity_bytes=capacity,
            bad_sectors=bad,
        )
        self.files = self.disk.mount(self.machine)

    def dies(self, body: Callable[[], Any]) -> bool:
        try:
            self.kernel.run(self.machine, body, time_limit_ns=10**9)
        except MachineDied:
            assert not self.machine.alive
            return True
        return False


def test_reading_a_bad_sector_fails_every_time() -> None:
    rig = FlawedRig(DamagedRange("/small", 0, 100, FaultKind.LATENT_SECTOR_ERROR))
    for _ in range(2):
        with pytest.raises(OSError, match="Input/output") as failure:
            rig.files.read("/small")
        assert (failure.value.errno, failure.value.filename) == (errno.EIO, "/small")
    rig.files.write("/small", b"afresh")

    assert rig.files.read("/small") == b"afresh"
    assert rig.disk.injected == {FaultKind.LATENT_SECTOR_ERROR: 2}


@pytest.mark.parametrize(
    ("start", "end", "is_death"),
    [
        (0, PAGE, False),
        (2 * PAGE, 3 * PAGE, False),
        (PAGE + 600, PAGE + 601, True),
        (PAGE, PAGE + 1, True),  # the page is loaded as a whole or not at all
        (2 * PAGE - 1, 2 * PAGE, True),
        (PAGE, PAGE, False),
        (0, 3 * PAGE, True),
    ],
)
def test_reading_a_mapped_page_with_a_bad_sector_kills_the_process(start: int, end: int, is_death: bool) -> None:
    rig = FlawedRig(BAD)

    assert rig.dies(lambda: rig.files.map("/a", 3 * PAGE).view(start, end)) is is_death
    assert rig.disk.injected[FaultKind.LATENT_SECTOR_ERROR] == is_death


@pytest.mark.parametrize(("at", "is_death"), [(0, False), (PAGE - 10, True), (PAGE, True), (2 * PAGE, False)])
def test_storing_to_a_page_with_a_bad_sector_kills_the_process(at: int, is_death: bool) -> None:
    rig = FlawedRig(BAD)

    assert rig.dies(lambda: rig.files.map("/a", 3 * PAGE).store(at, b"x" * SECTOR)) is is_death
    assert rig.disk.content("/a")[at : at + 1] == (b"a" if is_death else b"x")


def test_overwriting_a_whole_bad_sector_repairs_it() -> None:
    rig = FlawedRig(BAD)
    mapped = rig.files.map("/a", 3 * PAGE)
    assert rig.disk.bad_sectors == [BAD]
    mapped.pwrite(BAD.start, b"x" * SECTOR)

    assert rig.disk.bad_sectors == []
    assert bytes(mapped.view(BAD.start, BAD.end)) == b"x" * SECTOR
    assert not rig.disk.injected


@pytest.mark.parametrize(("at", "size_bytes"), [(BAD.start, 100), (BAD.start + 1, SECTOR - 1), (BAD.start - 10, 20)])
def test_overwriting_part_of_a_bad_sector_is_an_error(at: int, size_bytes: int) -> None:
    rig = FlawedRig(BAD)
    mapped = rig.files.map("/a", 3 * PAGE)
    with pytest.raises(OSError, match="Input/output"):
        mapped.pwrite(at, b"x" * size_bytes)

    assert rig.disk.bad_sectors == [BAD]
    assert b"x" not in rig.disk.content("/a")


def test_a_descriptor_repairs_a_bad_sector_only_by_a_whole_overwrite() -> None:
    rig = FlawedRig(BAD)
    file = rig.files.open("/a")
    with pytest.raises(OSError, match="Input/output"):
        file.write(BAD.start + 1, b"x" * SECTOR)
    assert rig.disk.bad_sectors == [BAD]
    file.write(BAD.start, b"x" * SECTOR)

    assert file.read(BAD.start, SECTOR) == b"x" * SECTOR
    assert rig.disk.bad_sectors == []
    assert rig.disk.injected == {FaultKind.LATENT_SECTOR_ERROR: 1}


def test_a_descriptor_write_to_a_hole_on_a_full_disk_is_enospc() -> None:
    rig = FlawedRig(image=Image({}, ()), sparse=True, capacity=2 * PAGE)
    rig.files.map("/sparse", 4 * PAGE)
    file = rig.files.open("/sparse")
    file.write(0, b"x" * 2 * PAGE)
    with pytest.raises(OSError, match="No space"):
        file.write(2 * PAGE, b"x")

    assert rig.disk.content("/sparse").count(b"x") == 2 * PAGE


def test_truncation_removes_bad_sectors_of_the_removed_part() -> None:
    at_the_end = DamagedRange("/a", 2 * PAGE, 2 * PAGE + SECTOR, FaultKind.LATENT_SECTOR_ERROR)
    rig = FlawedRig(BAD, at_the_end)
    file = rig.files.open("/a")
    before = rig.disk._names.current.files[0]
    file.truncate(2 * PAGE)
    assert rig.disk.bad_sectors == [BAD]
    file.write(BAD.start, b"x" * SECTOR)

    assert rig.disk.bad_sectors == []
    assert before.flaws is not None
    assert before.flaws.ranges("/a", 3 * PAGE) == [BAD, at_the_end], "a crash may bring the uncut file back"


def test_a_file_with_holes_can_be_truncated() -> None:
    rig = FlawedRig(image=Image({}, ()), sparse=True)
    rig.files.map("/sparse", 4 * PAGE).store(0, b"x" * PAGE)
    rig.files.open("/sparse").truncate(2 * PAGE)

    assert rig.files.space("/").used_bytes == PAGE


def test_a_write_beside_the_bad_sector_leaves_it_bad() -> None:
    rig = FlawedRig(BAD)
    rig.files.map("/a", 3 * PAGE).pwrite(BAD.end, b"x" * 100)

    assert rig.disk.bad_sectors == [BAD]


def test_a_map_with_bad_sectors_has_the_same_bounds_as_any_map() -> None:
    rig = FlawedRig(BAD)
    mapped = rig.files.map("/a", 3 * PAGE)
    for use in (
        lambda: mapped.view(0, 3 * PAGE + 1),
        lambda: mapped.store(-1, b"x"),
        lambda: mapped.pwrite(3 * PAGE, b"x"),
    ):
        with pytest.raises(ValueError, match="is not within"):
            use()
    mapped.close()
    with pytest.raises(ValueError, match="the map is closed"):
        mapped.store(PAGE, b"x")


def test_bad_sectors_survive_a_crash_exactly_if_their_file_does() -> None:
    rig = FlawedRig(BAD, DamagedRange("/gone", 0, 10, FaultKind.LATENT_SECTOR_ERROR))
    rig.files.rename("/a", "/b")
    rig.files.sync_directory("/")
    rig.kernel.kill(rig.machine)
    bad = rig.disk.bad_sectors
    image = rig.disk.crash(PROFILES["strict-posix"])

    assert bad == [BAD._replace(path="/b")]
    assert FlawedRig(*bad, image=image).disk.bad_sectors == bad


def test_a_file_without_bad_sectors_gets_the_plain_map_class() -> None:
    rig = FlawedRig(BAD)

    assert type(rig.files.map("/small", 100)) is not type(rig.files.map("/a", 3 * PAGE))


def test_the_first_store_to_a_hole_on_a_full_disk_kills_the_process() -> None:
    rig = FlawedRig(sparse=True, capacity=4 * PAGE + 100)
    mapped = rig.files.map("/new", 8 * PAGE)  # there is space for only one of its blocks
    mapped.store(0, b"x")
    mapped.store(100, b"y")

    assert bytes(mapped.view(5 * PAGE, 5 * PAGE + 3)) == b"\0\0\0"
    assert rig.dies(lambda: mapped.store(PAGE - 1, b"zz"))
    assert rig.disk.injected == {"SIGBUS on full disk": 1}
    assert rig.disk.content("/new")[PAGE - 1 : PAGE + 1] == b"\0\0"


def test_a_filled_hole_uses_one_page() -> None:
    rig = FlawedRig(sparse=True, capacity=100 * PAGE)
    before = rig.files.space("/").used_bytes
    mapped = rig.files.map("/new", 2 * PAGE + 100)
    assert rig.files.space("/").used_bytes == before
    mapped.store(PAGE, b"x")
    mapped.pwrite(2 * PAGE, b"y")

    assert rig.files.space("/").used_bytes == before + PAGE + 100
    assert not rig.disk.injected


def test_a_failed_pwrite_to_a_hole_on_a_full_disk_leaves_the_hole_empty() -> None:
    rig = FlawedRig(sparse=True, capacity=3 * PAGE + 200)
    mapped = rig.files.map("/new", PAGE)
    with pytest.raises(OSError, match="No space left") as failure:
        mapped.pwrite(0, b"x")

    assert failure.value.errno == errno.ENOSPC
    assert rig.disk.injected == {"disk full": 1}
    assert rig.disk.content("/new") == bytes(PAGE)


def test_stores_to_an_allocated_file_never_raise_sigbus() -> None:
    rig = FlawedRig(capacity=4 * PAGE)
    mapped = rig.files.map("/new", PAGE - 100)
    rig.disk.capacity_bytes = 0

    assert not rig.dies(lambda: mapped.store(0, b"x" * (PAGE - 100)))


def test_zero_pages_of_an_image_are_holes_after_a_mount() -> None:
    image = Image({"/a": FileImage(b"a" * PAGE + bytes(2 * PAGE), 1), "/b": FileImage(b"b", 1)}, ())
    rig = FlawedRig(image=image, sparse=True, capacity=PAGE + 1)
    mapped = rig.files.map("/a", 3 * PAGE)
    mapped.store(0, b"x")

    assert rig.files.space("/").used_bytes == PAGE + 1
    assert rig.dies(lambda: mapped.store(2 * PAGE, b"x"))
