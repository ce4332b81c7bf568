"""Disks with and without a capacity."""

import errno
from collections.abc import Callable
from typing import Any

import pytest

from tests.faults.rigs import Rig
from tornlog.faults.plan import FaultPlan


def no_space_error(attempt: Callable[[], Any]) -> OSError:
    """Return the error of an attempt without space."""
    with pytest.raises(OSError, match="No space left on device") as failure:
        attempt()
    assert failure.value.errno == errno.ENOSPC
    return failure.value


def test_a_disk_without_a_capacity_reports_its_usage(rig: Any) -> None:
    rig.files.map("/a", 1 << 20)
    rig.files.write("/b", b"12345")

    space = rig.files.space("/")
    assert space.used_bytes == (1 << 20) + 5
    assert space.used_bytes + space.usable_bytes == 1 << 40
    assert rig.disk.capacity_bytes is None
    assert rig.injected["disk full"] == 0


def test_a_file_that_does_not_fit_is_created_but_does_not_grow(rig: Any) -> None:
    rig.disk.capacity_bytes = 100
    error = no_space_error(lambda: rig.files.map("/a", 101))

    assert error.filename == "/a"
    assert rig.files.status("/a").size_bytes == 0
    assert rig.files.map("/a", 100).size_bytes == 100
    assert rig.injected["disk full"] == 1


def test_a_full_disk_refuses_new_files_but_allows_overwrites(rig: Any) -> None:
    rig.disk.capacity_bytes = 100
    file = rig.files.map("/a", 100)
    no_space_error(lambda: rig.files.write("/b", b""))
    no_space_error(lambda: rig.files.lock("/c"))

    file.store(0, b"still")
    assert file.pwrite(5, b" here") == 5
    file.msync(0, 10)
    rig.files.rename("/a", "/d")
    assert rig.files.read("/d")[:10] == b"still here"
    assert rig.files.map("/d", 50).size_bytes == 50
    assert [rig.files.status(path) for path in ("/a", "/b", "/c")] == [None, None, None]
    assert rig.files.space("/") == (100, 0)
    assert rig.injected["disk full"] == 2


def test_a_small_file_on_a_full_disk_has_the_prefix_that_fits(rig: Any) -> None:
    rig.disk.capacity_bytes = 10
    no_space_error(lambda: rig.files.write("/a", b"0123456789ab"))

    assert rig.files.read("/a") == b"0123456789"
    rig.files.write("/a", b"fits")  # the file is emptied first, which frees its space
    assert rig.files.read("/a") == b"fits"
    assert rig.files.space("/").usable_bytes == 6


def test_a_directory_with_a_limit_is_full_before_the_rest_of_the_disk(rig: Any) -> None:
    rig.files.make_directories("/small")
    rig.disk.limit_directory("/small", 100)
    rig.files.map("/small/a", 60)
    no_space_error(lambda: rig.files.map("/small/b", 41))
    assert rig.files.space("/small") == (60, 40)

    rig.files.map("/large", 1000)
    assert rig.files.map("/small/a", 100).size_bytes == 100
    no_space_error(lambda: rig.files.write("/small/c", b""))
    rig.disk.lift_directory_limits()
    rig.files.write("/small/c", b"1")
    assert rig.files.space("/small").used_bytes == 1101


def test_removing_a_file_frees_its_space(rig: Any) -> None:
    rig.disk.capacity_bytes = 100
    file = rig.files.map("/a", 100)
    no_space_error(lambda: rig.files.map("/b", 100))
    rig.files.unlink("/a")

    assert rig.files.space("/") == (0, 100)
    assert rig.files.map("/b", 100).size_bytes == 100
    file.store(0, b"the map of a removed file stays usable")


def test_replacing_a_file_frees_its_space(rig: Any) -> None:
    rig.files.write("/old", b"old")
    rig.files.write("/new", b"newer")
    rig.files.rename("/new", "/old")

    assert rig.files.space("/").used_bytes == 5


def test_reducing_the_capacity_below_the_usage_makes_the_disk_full(rig: Any) -> None:
    rig.files.map("/a", 100)
    rig.disk.capacity_bytes = 60
    assert rig.files.space("/") == (100, 0)
    no_space_error(lambda: rig.files.write("/b", b"x"))

    rig.disk.capacity_bytes = 101
    rig.files.write("/b", b"x")
    assert rig.disk.capacity_bytes == 101


def test_a_disk_made_from_an_image_counts_the_space_of_its_files() -> None:
    rig = Rig()
    rig.files.map("/a", 70).store(0, b"x")
    image = rig.cut("process-kill")
    rig = Rig(image=image)
    rig.disk.capacity_bytes = 100

    assert rig.files.space("/") == (70, 30)
    no_space_error(lambda: rig.files.map("/a", 101))
    assert rig.files.map("/a", 100).size_bytes == 100


def test_a_crash_in_a_write_that_does_not_fit_leaves_a_prefix(rig: Any) -> None:
    rig.disk.capacity_bytes = 4
    rig.files.write("/a", b"")
    rig.disk.crash_at(rig.disk.operations, "during")
    rig.run_until_death(lambda: rig.files.write("/a", b"0123456789"))

    assert b"0123".startswith(rig.disk.content("/a"))


def test_a_failed_creation_leaves_no_file(rig: Any) -> None:
    with rig.disk.with_faults(failed_creation_chance=1.0):
        for attempt in (lambda: rig.files.map("/a", 10), lambda: rig.files.write("/a", b"x")):
            with pytest.raises(OSError, match="No space left") as failure:
                attempt()
            assert failure.value.errno == errno.ENOSPC

    assert rig.files.status("/a") is None
    assert rig.injected["failed creation"] == 2
    assert rig.disk.operations == 0


def test_existing_files_can_be_opened_while_creations_fail(rig: Any) -> None:
    rig.files.write("/a", b"there")
    with rig.disk.with_faults(failed_creation_chance=1.0):
        assert rig.files.map("/a", 9000).size_bytes == 9000

    assert rig.injected["failed creation"] == 0


def test_creations_fail_by_chance_only_inside_the_with_block(rig: Any) -> None:
    made = 0
    with rig.disk.with_faults(failed_creation_chance=0.5):
        for number in range(100):
            try:
                rig.files.write(f"/{number}", b"")
                made += 1
            except OSError:
                assert rig.files.status(f"/{number}") is None
    assert made == 100 - rig.injected["failed creation"]
    assert 20 < made < 80

    for number in range(100):
        rig.files.write(f"/after-{number}", b"")


def test_a_judge_reads_the_visible_content(rig: Any) -> None:
    rig.files.map("/a", 4).store(1, b"xy")

    assert rig.disk.content("/a") == b"\0xy\0"
    assert rig.disk.content("/b") == b""


def test_a_full_quota_is_reported_by_its_own_error() -> None:
    rig = Rig(faults=FaultPlan(space_error="EDQUOT"))
    rig.disk.capacity_bytes = 10
    with pytest.raises(OSError, match="Disk quota exceeded") as failure:
        rig.files.map("/a", 11)

    assert failure.value.errno == errno.EDQUOT
    assert rig.injected["disk full"] == 1
