from typing import Any

import pytest

from tests.faults.rigs import Rig
from tornlog.faults.disk.image import FileImage, Image
from tornlog.faults.disk.syncs import SyncTiming
from tornlog.faults.plan import FaultPlan
from tornlog.sim.choices import Choices, Decision

PAGE = 4096
IMAGE = Image({"/a": FileImage(b"a" * 2 * PAGE, 1), "/b": FileImage(b"b" * 100, 1)}, ())
LOST = FaultPlan(lost_write_chance=1.0)
MISDIRECTED = FaultPlan(misdirected_write_chance=1.0)


def write_and_sync(rig: Any, at: int = 0, data: bytes = b"x") -> Any:
    mapped = rig.files.map("/a", 2 * PAGE)
    mapped.store(at, data)
    mapped.msync(0, 2 * PAGE)
    return mapped


def choices_landing_on(file: int, page: int) -> Choices:
    """Return choices with which the first page of /a is written to the given page of the given file."""
    label = "misdirected write /a#0"
    drawn = [("file of a " + label, 2, file), ("page of a " + label, 2, page)]
    return Choices.for_replay(Decision("disk", name, 1, options, value) for name, options, value in drawn)


def test_a_lost_write_becomes_visible_only_after_a_power_off() -> None:
    rig = Rig(image=IMAGE, faults=LOST)
    mapped = write_and_sync(rig, PAGE - 1, b"xx")

    assert bytes(mapped.view(PAGE - 1, PAGE + 1)) == b"xx"
    assert not rig.disk.is_durable("/a", 0, PAGE)
    assert rig.injected == {"lost write": 2}
    assert rig.disk.damage == [("/a", 0, PAGE, "lost write"), ("/a", PAGE, 2 * PAGE, "lost write")]
    assert rig.cut("strict-posix").files["/a"].content == b"a" * 2 * PAGE


def test_a_lost_write_is_not_visible_after_a_process_kill() -> None:
    rig = Rig(image=IMAGE, faults=LOST)
    write_and_sync(rig)

    assert rig.cut("process-kill").files["/a"].content[:2] == b"xa"


def test_a_later_write_and_sync_repair_a_lost_write() -> None:
    rig = Rig(image=IMAGE, faults=LOST)
    write_and_sync(rig)
    with rig.disk.with_faults(lost_write_chance=0.0):
        write_and_sync(rig, 7, b"y")

    assert rig.disk.is_durable("/a", 0, 2 * PAGE)
    assert rig.cut("strict-posix").files["/a"].content[:9] == b"xaaaaaaya"


def test_a_lost_write_of_equal_bytes_is_not_damage() -> None:
    rig = Rig(image=IMAGE, faults=LOST)
    write_and_sync(rig, 0, b"a")

    assert not rig.injected
    assert rig.disk.damage == []


def test_writes_during_a_misdirected_sync_are_not_durable() -> None:
    """The page is dirty again, and its later write-back is correct."""
    rig = Rig(image=IMAGE, faults=LOST, timing=SyncTiming(1000, 1000))

    def body() -> None:
        mapped = rig.files.map("/a", 2 * PAGE)
        mapped.store(0, b"x")
        task = rig.machine.tasks.spawn("sync", lambda: mapped.msync(0, PAGE))
        while rig.disk.operations < 2:
            rig.machine.tasks.sleep(0)
        mapped.store(1, b"y")
        task.join(None)
        with rig.disk.with_faults(lost_write_chance=0.0):
            mapped.msync(0, PAGE)

    rig.run(body)
    assert rig.injected == {"lost write": 1}
    assert rig.cut("strict-posix").files["/a"].content[:3] == b"xya"


@pytest.mark.parametrize(
    ("file", "page", "path", "start", "end", "found"),
    [(0, 1, "/a", PAGE, 2 * PAGE, b"a" * PAGE + b"x" + b"a" * (PAGE - 1)), (1, 0, "/b", 0, 100, b"x" + b"a" * 99)],
)
def test_a_misdirected_write_changes_another_page(
    file: int, page: int, path: str, start: int, end: int, found: bytes
) -> None:
    rig = Rig(image=IMAGE, faults=MISDIRECTED, choices=choices_landing_on(file, page))
    before = rig.files.read(path)
    write_and_sync(rig)

    assert rig.files.read(path)[-99:] == before[-99:]
    assert rig.injected == {"misdirected write": 1}
    assert rig.disk.damage == [("/a", 0, PAGE, "misdirected write"), (path, start, end, "misdirected write")]
    image = rig.cut("strict-posix")
    assert image.files[path].content == found
    assert image.files["/a"].content[:PAGE] == b"a" * PAGE


def test_a_misdirected_write_to_a_dirty_page_is_repaired_by_write_back() -> None:
    rig = Rig(image=IMAGE, faults=MISDIRECTED, choices=choices_landing_on(1, 0))
    other = rig.files.map("/b", 100)
    other.store(50, b"new")
    write_and_sync(rig)
    with rig.disk.with_faults(misdirected_write_chance=0.0):
        other.msync(0, 100)

    assert rig.disk.is_durable("/b", 0, 100)
    assert rig.cut("strict-posix").files["/b"].content == b"b" * 50 + b"new" + b"b" * 47


def test_a_dirty_page_hit_by_two_misdirected_writes_keeps_its_visible_bytes() -> None:
    rig = Rig(image=IMAGE, faults=MISDIRECTED)
    other = rig.files.map("/b", 100)
    other.store(50, b"new")
    for number in range(40):
        write_and_sync(rig, number, b"x")
    with rig.disk.with_faults(misdirected_write_chance=0.0):
        other.msync(0, 100)

    assert rig.files.read("/b") == b"b" * 50 + b"new" + b"b" * 47
    assert rig.cut("strict-posix").files["/b"].content == rig.disk.content("/b")


def test_a_misdirected_write_to_its_own_page_is_not_damage() -> None:
    rig = Rig(image=IMAGE, faults=MISDIRECTED, choices=choices_landing_on(0, 0))
    write_and_sync(rig)

    assert not rig.injected
    assert rig.cut("strict-posix").files["/a"].content[:2] == b"xa"


def test_a_misdirected_write_of_an_unlinked_file_needs_another_file() -> None:
    rig = Rig(faults=MISDIRECTED)
    mapped = rig.files.map("/only", PAGE)
    rig.files.unlink("/only")
    mapped.store(0, b"x")
    mapped.msync(0, PAGE)

    assert not rig.injected


def test_damage_is_reported_under_the_later_name_of_a_renamed_file() -> None:
    rig = Rig(faults=LOST)
    rig.files.write("/tmp", b"side file")
    rig.files.sync("/tmp")
    rig.files.rename("/tmp", "/side")

    assert rig.disk.damage == [("/tmp", 0, 9, "lost write"), ("/side", 0, 9, "lost write")]
