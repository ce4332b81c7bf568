"""Failed syncs on each file system of Linux with a model."""

import errno
from collections.abc import Callable
from typing import Any

import pytest

from tests.faults.rigs import Rig
from tornlog.faults.disk.image import DamagedRange, FileImage, Image
from tornlog.faults.plan import FAILING_SYNCS, FaultPlan
from tornlog.sim.choices import Choices, decisions_from_record

PAGE = 4096
LOG = Image({"/log": FileImage(b"o" * 2 * PAGE, 0)}, ())
AT_ONCE = ("ext4-ordered", "xfs", "btrfs")


def failing_sync_plan(variant: str, **faults: float) -> FaultPlan:
    return FaultPlan(failed_sync_chance=1.0, failing_sync=variant, **faults)


def expect_eio(rig: Any, attempt: Callable[[], Any]) -> None:
    with pytest.raises(OSError, match="Input/output error") as failure:
        attempt()
    assert failure.value.errno == errno.EIO


def write_and_fail(rig: Any) -> Any:
    mapped = rig.files.map("/log", 2 * PAGE)
    mapped.store(0, b"doomed")
    expect_eio(rig, lambda: mapped.msync(0, PAGE))
    assert rig.injected["failed sync"] == 1
    return mapped


@pytest.mark.parametrize("variant", AT_ONCE)
def test_a_failed_sync_loses_data_even_if_the_next_sync_succeeds(variant: str) -> None:
    rig = Rig(image=LOG, faults=failing_sync_plan(variant))
    mapped = write_and_fail(rig)
    with rig.disk.with_faults(failed_sync_chance=0.0):
        mapped.msync(0, PAGE)

    assert [one.kind for one in rig.disk.damage] == (["failed sync"] if variant == "btrfs" else [])
    assert rig.disk.image_after_power_off().files["/log"].content[:6] == b"oooooo"


@pytest.mark.parametrize("name", ["ENOSPC", "EDQUOT"])
def test_a_failed_sync_may_report_missing_space_and_still_loses_the_data(name: str) -> None:
    rig = Rig(image=LOG, faults=FaultPlan(failed_sync_chance=1.0, sync_error=name))
    mapped = rig.files.map("/log", 2 * PAGE)
    mapped.store(0, b"doomed")
    with pytest.raises(OSError, match=r"/log") as failure:
        mapped.msync(0, PAGE)
    with rig.disk.with_faults(failed_sync_chance=0.0):
        mapped.msync(0, PAGE)

    assert failure.value.errno == getattr(errno, name)
    assert rig.disk.image_after_power_off().files["/log"].content[:6] == b"oooooo"


@pytest.mark.parametrize(("variant", "seen"), [("ext4-ordered", b"doomed"), ("xfs", b"doomed"), ("btrfs", b"oooooo")])
def test_after_a_failed_sync_readers_see_the_new_bytes_or_on_btrfs_the_old_bytes(variant: str, seen: bytes) -> None:
    rig = Rig(image=LOG, faults=failing_sync_plan(variant))
    mapped = write_and_fail(rig)

    assert bytes(mapped.view(0, 6)) == rig.disk.content("/log")[:6] == seen
    assert rig.disk.is_durable("/log", 0, 6) == (variant == "btrfs")
    assert rig.cut("process-kill").files["/log"].content[:6] == seen


def test_btrfs_reverts_only_the_failed_pages() -> None:
    rig = Rig(image=LOG, faults=failing_sync_plan("btrfs"))
    mapped = rig.files.map("/log", 2 * PAGE)
    mapped.store(PAGE - 2, b"new!")
    expect_eio(rig, lambda: mapped.msync(0, 10))

    assert bytes(mapped.view(PAGE - 2, PAGE + 2)) == b"oow!"
    assert rig.disk.damage == [DamagedRange("/log", 0, PAGE, "failed sync")]


def test_btrfs_reverts_new_pages_to_zeros() -> None:
    rig = Rig(faults=failing_sync_plan("btrfs"))
    mapped = rig.files.map("/log", 100)
    mapped.store(0, b"doomed")
    expect_eio(rig, mapped.fdatasync)

    assert bytes(mapped.view(0, 100)) == bytes(100)


def sync_to_journal_only(rig: Any) -> Any:
    """Sync as ext4 does with data=journal: success, with a later error."""
    mapped = rig.files.map("/log", 2 * PAGE)
    mapped.store(0, b"doomed")
    mapped.msync(0, PAGE)
    assert not rig.injected
    return mapped


def test_under_data_journaling_the_error_occurs_at_the_next_sync() -> None:
    rig = Rig(image=LOG, faults=failing_sync_plan("ext4-data"))
    mapped = sync_to_journal_only(rig)
    assert rig.disk.is_durable("/log", 0, 6)
    expect_eio(rig, lambda: mapped.msync(PAGE, 2 * PAGE))

    assert not rig.disk.is_durable("/log", 0, 6)
    assert rig.disk.damage == [DamagedRange("/log", 0, PAGE, "late sync error")]
    assert rig.injected == {"late sync error": 1, "failed sync": 1}
    assert bytes(mapped.view(0, 6)) == b"doomed"
    mapped.msync(0, PAGE)
    assert rig.disk.image_after_power_off().files["/log"].content[:6] == b"oooooo"


def test_under_data_journaling_data_survives_a_power_cut_before_the_error() -> None:
    for seed in range(20):
        rig = Rig(seed=str(seed), image=LOG, faults=failing_sync_plan("ext4-data"))
        sync_to_journal_only(rig)
        assert rig.cut("strict-posix").files["/log"].content[:6] == b"doomed"


def test_a_rewritten_page_stays_dirty_if_its_journalled_bytes_are_lost() -> None:
    found = set()
    for seed in range(60):
        rig = Rig(seed=str(seed), image=LOG, faults=failing_sync_plan("ext4-data"))
        mapped = sync_to_journal_only(rig)
        mapped.store(100, b"later")
        expect_eio(rig, lambda mapped=mapped: mapped.msync(PAGE, 2 * PAGE))
        assert bytes(mapped.view(0, 6)) == b"doomed"
        content = rig.cut("ext4-data").files["/log"].content
        found.add((content[:6], content[100:105]))
    assert found == {(b"oooooo", b"ooooo"), (b"doomed", b"ooooo"), (b"doomed", b"later")}


def test_a_later_sync_writes_a_page_whose_journalled_bytes_were_lost() -> None:
    rig = Rig(image=LOG, faults=failing_sync_plan("ext4-data"))
    mapped = sync_to_journal_only(rig)
    mapped.store(100, b"later")
    expect_eio(rig, lambda: mapped.msync(PAGE, 2 * PAGE))
    mapped.msync(0, PAGE)

    assert rig.disk.is_durable("/log", 0, 2 * PAGE)


def test_two_syncs_that_only_reached_the_journal_are_lost_together() -> None:
    rig = Rig(image=LOG, faults=failing_sync_plan("ext4-data"))
    other = rig.files.map("/other", PAGE)
    mapped = rig.files.map("/log", 2 * PAGE)
    mapped.store(0, b"first")
    mapped.store(PAGE, b"second")
    mapped.msync(0, 2 * PAGE)
    other.store(0, b"x")
    other.msync(0, PAGE)
    expect_eio(rig, lambda: mapped.msync(0, PAGE))

    assert rig.injected == {"late sync error": 1, "failed sync": 1}
    assert rig.disk.image_after_power_off().files["/log"].content == LOG.files["/log"].content


def test_a_failed_sync_of_equal_bytes_is_not_damage() -> None:
    rig = Rig(image=LOG, faults=failing_sync_plan("ext4-data"))
    mapped = rig.files.map("/log", 2 * PAGE)
    mapped.store(0, b"ooo")
    mapped.msync(0, PAGE)
    mapped.msync(0, PAGE)
    mapped.msync(0, PAGE)

    assert not rig.injected


@pytest.mark.parametrize("variant", FAILING_SYNCS)
def test_names_can_be_lost_after_a_failed_directory_sync(variant: str) -> None:
    found = set()
    for seed in range(30):
        faults = FaultPlan(failed_directory_sync_chance=1.0, failing_sync=variant)
        rig = Rig(seed=str(seed), faults=faults)
        rig.files.write("/a", b"")
        expect_eio(rig, lambda rig=rig: rig.files.sync_directory("/"))
        assert rig.injected == {"failed directory sync": 1}
        rig.files.write("/b", b"")  # the file system still works
        found.add("".join(rig.cut("strict-posix").files))
    assert found == {"", "/a", "/b", "/a/b"}


def mutating_calls(rig: Any, mapped: Any) -> list[Callable[[], Any]]:
    files = rig.files
    return [
        lambda: files.write("/new", b"x"),
        lambda: files.map("/log", 3 * PAGE),
        lambda: files.rename("/log", "/moved"),
        lambda: files.unlink("/log"),
        lambda: files.make_directories("/d"),
        lambda: files.sync("/log"),
        lambda: files.sync_directory("/"),
        lambda: mapped.pwrite(0, b"x"),
        mapped.fdatasync,
    ]


def reading_calls(rig: Any) -> list[Callable[[], Any]]:
    files = rig.files
    return [
        lambda: files.read("/log"),
        lambda: files.status("/log"),
        lambda: files.list_directory("/"),
        lambda: files.map("/log", 10),
    ]


@pytest.mark.parametrize("variant", AT_ONCE)
def test_a_stopped_file_system_refuses_changes(variant: str) -> None:
    rig = Rig(image=LOG, faults=failing_sync_plan(variant, stopped_file_system_chance=1.0))
    assert not rig.disk.is_stopped
    mapped = write_and_fail(rig)
    assert rig.disk.is_stopped
    assert rig.injected["stopped file system"] == 1

    expected = errno.EIO if variant == "xfs" else errno.EROFS
    for attempt in mutating_calls(rig, mapped):
        with pytest.raises(OSError, match=r"Read-only|Input/output") as failure:
            attempt()
        assert failure.value.errno == expected
    for attempt in reading_calls(rig):
        if variant == "xfs":
            expect_eio(rig, attempt)
        else:
            attempt()
    again = Rig(image=rig.cut("strict-posix"))
    again.files.write("/new", b"x")
    assert not again.disk.is_stopped


@pytest.mark.parametrize("variant", FAILING_SYNCS)
def test_a_directory_sync_that_fails_may_stop_the_file_system_too(variant: str) -> None:
    faults = FaultPlan(failed_directory_sync_chance=1.0, stopped_file_system_chance=1.0, failing_sync=variant)
    rig = Rig(image=LOG, faults=faults)
    expect_eio(rig, lambda: rig.files.sync_directory("/"))

    assert rig.disk.is_stopped
    assert rig.injected == {"failed directory sync": 1, "stopped file system": 1}


def test_an_unknown_file_system_is_refused() -> None:
    with pytest.raises(ValueError, match=r"failing_sync: expected one of ext4-ordered, .*, found zfs"):
        FaultPlan(failing_sync="zfs")


WRITE_BACK = FaultPlan(failed_write_back_chance=1.0)


def rig_with_failing_write_back(**faults: str) -> Any:
    """Return a disk whose second page of /log cannot be written back."""
    plan = FaultPlan(failed_write_back_chance=1.0, **faults)  # type: ignore[arg-type]
    second = {"disk": [["page of a failed write-back /log", 1, 3, 2]]}
    return Rig(image=LOG, faults=plan, choices=Choices.for_replay(decisions_from_record(second)))


@pytest.mark.parametrize("variant", AT_ONCE)
def test_a_failed_write_back_is_reported_by_one_sync_only(variant: str) -> None:
    rig = rig_with_failing_write_back(failing_sync=variant)
    mapped = rig.files.map("/log", 2 * PAGE)
    mapped.store(0, b"first")
    mapped.store(PAGE, b"second")
    expect_eio(rig, lambda: mapped.msync(0, PAGE))
    assert rig.injected == {"failed write-back": 1}

    with rig.disk.with_faults(failed_write_back_chance=0.0):
        mapped.msync(0, 2 * PAGE)
    content = rig.disk.image_after_power_off().files["/log"].content
    assert content[:6] == b"firsto"
    assert content[PAGE : PAGE + 6] == b"oooooo"


def test_btrfs_reverts_the_page_of_a_failed_write_back() -> None:
    rig = rig_with_failing_write_back(failing_sync="btrfs")
    mapped = rig.files.map("/log", 2 * PAGE)
    mapped.store(0, b"first")
    mapped.store(PAGE, b"second")
    expect_eio(rig, lambda: mapped.msync(0, PAGE))

    assert bytes(mapped.view(0, 5)) == b"first"
    assert bytes(mapped.view(PAGE, PAGE + 6)) == b"oooooo"
    assert rig.disk.damage == [DamagedRange("/log", PAGE, 2 * PAGE, "failed write-back")]


def test_a_rewritten_page_survives_an_earlier_failed_write_back() -> None:
    rig = Rig(image=LOG, faults=WRITE_BACK, choices=Choices.for_replay([]))
    mapped = rig.files.map("/log", 2 * PAGE)
    mapped.store(0, b"again")
    expect_eio(rig, lambda: mapped.msync(0, PAGE))
    with rig.disk.with_faults(failed_write_back_chance=0.0):
        mapped.msync(0, PAGE)

    assert rig.disk.image_after_power_off().files["/log"].content[:5] == b"again"


def test_a_failed_write_back_is_reported_to_the_next_process() -> None:
    rig = Rig(image=LOG, faults=WRITE_BACK)
    rig.files.map("/log", 2 * PAGE).store(0, b"doomed")
    rig.kernel.kill(rig.machine)
    again = rig.disk.mount(rig.kernel.create_machine("again"))

    expect_eio(rig, lambda: again.map("/log", 2 * PAGE).msync(PAGE, 2 * PAGE))


def test_a_clean_file_has_no_failed_write_back() -> None:
    rig = Rig(image=LOG, faults=WRITE_BACK)
    rig.files.map("/log", 2 * PAGE).msync(0, PAGE)

    assert not rig.injected
    assert rig.choices.stream("disk").draw_count == 0
