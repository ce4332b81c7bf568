"""Evicted clean pages of a mapped file: an access waits, or fails once."""

import errno

import pytest

from tests.faults.rigs import Rig
from tornlog.faults.disk.image import FileImage, Image
from tornlog.faults.plan import FaultPlan

PAGE = 4096
IMAGE = Image({"/a": FileImage(b"a" * 3 * PAGE, 1)}, ())
FAILING = FaultPlan(failed_page_in_chance=1.0)


def test_a_failed_page_in_raises_eio_and_the_next_one_succeeds() -> None:
    rig = Rig(image=IMAGE, faults=FAILING)

    def body() -> None:
        mapped = rig.files.map("/a", 3 * PAGE)
        with rig.disk.with_page_ins():
            with pytest.raises(OSError, match="Input/output") as failure:
                mapped.view(0, 1)
            rig.disk.heal()
            assert bytes(mapped.view(0, 1)) == b"a"
        assert (failure.value.errno, failure.value.filename) == (errno.EIO, "/a")

    rig.run(body)
    assert rig.injected == {"failed page-in": 1}


def test_a_slow_page_in_shows_stores_made_during_its_wait() -> None:
    rig = Rig(image=IMAGE, faults=FaultPlan(slow_page_in_chance=1.0))
    seen: list[tuple[bytes, int]] = []

    def body() -> None:
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

    rig.run(body)
    assert seen[0][0] == b"b"
    assert rig.injected == {"slow page-in": 1}


def test_only_clean_pages_can_be_evicted() -> None:
    rig = Rig(image=IMAGE, faults=FAILING)

    def body() -> None:
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

    rig.run(body)


def test_pages_that_were_never_written_need_no_page_in() -> None:
    rig = Rig(image=IMAGE, faults=FAILING)

    def body() -> None:
        mapped = rig.files.map("/new", 2 * PAGE)
        mapped.store(PAGE, b"written")
        mapped.msync(0, 2 * PAGE)
        with rig.disk.with_page_ins():
            assert bytes(mapped.view(0, 1)) == b"\0"
            with pytest.raises(OSError, match="Input/output"):
                mapped.view(PAGE - 1, PAGE + 1)

    rig.run(body)
    assert rig.injected == {"failed page-in": 1}


@pytest.mark.parametrize("name", ["dispatch", "judge"])
def test_only_tasks_with_the_given_names_have_page_in_faults(name: str) -> None:
    rig = Rig(image=IMAGE, faults=FAILING)
    rig.disk.limit_page_ins_to(("dispatch", "retention"))

    def body() -> None:
        mapped = rig.files.map("/a", 3 * PAGE)

        def look() -> None:
            try:
                mapped.view(0, 1)
            except OSError:
                assert name == "dispatch"

        rig.machine.tasks.spawn(name, look).join(None)

    rig.run(body)
    assert rig.injected["failed page-in"] == (name == "dispatch")
