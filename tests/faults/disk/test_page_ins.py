"""Evicted clean pages of a mapped file: an access waits, or fails once."""

import errno

import pytest

from tests.faults.rigs import Rig
from tests.one_life import in_rig
from tornlog.faults.disk.image import FileImage, Image
from tornlog.faults.plan import FaultPlan

PAGE = 4096
IMAGE = Image({"/a": FileImage(b"a" * 3 * PAGE, 1)}, ())
FAILING = FaultPlan(failed_page_in_chance=1.0)


@in_rig(Rig, image=IMAGE, faults=FAILING)
def test_a_failed_page_in_raises_eio_and_the_next_one_succeeds(rig: Rig) -> None:
    mapped = rig.files.map("/a", 3 * PAGE)
    with rig.disk.with_page_ins():
        with pytest.raises(OSError, match="Input/output") as failure:
            mapped.view(0, 1)
        rig.disk.heal()
        assert bytes(mapped.view(0, 1)) == b"a"
    assert (failure.value.errno, failure.value.filename) == (errno.EIO, "/a")
    assert rig.injected == {"failed page-in": 1}


@in_rig(Rig, image=IMAGE, faults=FaultPlan(slow_page_in_chance=1.0))
def test_a_slow_page_in_shows_stores_made_during_its_wait(rig: Rig) -> None:
    seen: list[tuple[bytes, int]] = []
    mapped = rig.files.map("/a", 3 * PAGE)

    def look() -> None:
        with rig.disk.with_page_ins():
            seen.append((bytes(mapped.view(0, 1)), rig.kernel.now_ns))

    began_ns = rig.kernel.now_ns
    reader = rig.machine.tasks.spawn("reader", look)
    rig.machine.tasks.sleep(1)
    mapped.store(0, b"b")
    reader.join(None)
    assert seen[0][1] - began_ns >= 1_000_000
    assert seen[0][0] == b"b"
    assert rig.injected == {"slow page-in": 1}


@in_rig(Rig, image=IMAGE, faults=FAILING)
def test_only_clean_pages_can_be_evicted(rig: Rig) -> None:
    mapped = rig.files.map("/a", 3 * PAGE)
    mapped.store(PAGE, b"dirty")
    with rig.disk.with_page_ins():
        assert bytes(mapped.view(PAGE, PAGE + 5)) == b"dirty"
        for start, end in ((0, PAGE), (2 * PAGE, 3 * PAGE)):
            with pytest.raises(OSError, match="Input/output"):
                mapped.view(start, end)
        mapped.msync(0, 3 * PAGE)
        with pytest.raises(OSError, match="Input/output"):
            mapped.view(PAGE, PAGE + 5)


@in_rig(Rig, image=IMAGE, faults=FAILING)
def test_pages_that_were_never_written_need_no_page_in(rig: Rig) -> None:
    mapped = rig.files.map("/new", 2 * PAGE)
    mapped.store(PAGE, b"written")
    mapped.msync(0, 2 * PAGE)
    with rig.disk.with_page_ins():
        assert bytes(mapped.view(0, 1)) == b"\0"
        with pytest.raises(OSError, match="Input/output"):
            mapped.view(PAGE - 1, PAGE + 1)
    assert rig.injected == {"failed page-in": 1}


@pytest.mark.parametrize("name", ["dispatch", "judge"])
@in_rig(Rig, image=IMAGE, faults=FAILING)
def test_only_tasks_with_the_given_names_have_page_in_faults(rig: Rig, name: str) -> None:
    rig.disk.limit_page_ins_to(("dispatch", "retention"))
    mapped = rig.files.map("/a", 3 * PAGE)

    def look() -> None:
        try:
            mapped.view(0, 1)
        except OSError:
            assert name == "dispatch"

    rig.machine.tasks.spawn(name, look).join(None)
    assert rig.injected["failed page-in"] == (name == "dispatch")
