"""Descriptors: writes, cuts and growth, their visible bytes, and crash states."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.faults.rigs import Rig
from tornlog.faults.crashes.profiles import PROFILES
from tornlog.faults.disk.image import FileImage, Image
from tornlog.faults.disk.page_cache import Inode

PAGE = 8
START = Image({"/log": FileImage(b"0123456789", 0)}, ("/d",))


@pytest.fixture
def rig() -> Any:
    return Rig(image=START, page_bytes=PAGE, sector_bytes=4)


def content(rig: Any, path: str = "/log") -> bytes:
    return bytes(rig.files.read(path))


def test_open_creates_a_missing_file(rig: Any) -> None:
    rig.files.open("/d/new").write(0, b"x")

    assert content(rig, "/d/new") == b"x"


def test_a_descriptor_follows_its_file_through_renames(rig: Any) -> None:
    log = rig.files.open("/log")
    rig.files.rename("/log", "/d/log")
    log.write(0, b"ab")
    assert content(rig, "/d/log") == b"ab23456789"

    rig.files.unlink("/d/log")
    log.write(0, b"cd")
    log.truncate(1)
    log.sync()
    assert log.size_bytes == 1


@settings(max_examples=100)
@given(st.lists(st.tuples(st.sampled_from(["write", "truncate", "allocate", "sync"]), st.integers(0, 30)), max_size=12))
def test_a_descriptor_behaves_like_a_byte_array(actions: list[tuple[str, int]]) -> None:
    rig = Rig(image=START, page_bytes=PAGE, sector_bytes=4)
    log, model = rig.files.open("/log"), bytearray(b"0123456789")
    for number, (kind, at) in enumerate(actions):
        data = bytes([65 + number]) * 3
        if kind == "write":
            log.write(at, data)
            model[:] = model.ljust(at, b"\0")
            model[at : at + 3] = data
        elif kind == "truncate":
            log.truncate(at)
            model[:] = model[:at].ljust(at, b"\0")
        elif kind == "allocate":
            log.allocate(at)
            model[:] = model.ljust(at, b"\0")
        else:
            log.sync()
        assert content(rig) == model
    assert rig.cut("nothing-lost").files["/log"].content == model


def contents_after_losses(rig: Any, profile: str = "strict-posix") -> set[bytes | None]:
    """Return all contents of the log that a crash can leave now."""
    states = rig.disk.crash_states(PROFILES[profile], 100_000, rig.choices.stream("states"))
    assert states.is_exhaustive
    files = [state.image.files for state in states]
    return {one["/log"].content if "/log" in one else None for one in files}


def test_an_unsynced_truncation_can_be_undone_by_a_crash(rig: Any) -> None:
    log = rig.files.open("/log")
    log.truncate(4)
    assert contents_after_losses(rig) == {b"0123456789", b"0123"}

    log.sync()
    assert contents_after_losses(rig) == {b"0123"}


def test_writes_after_a_lost_truncation_are_lost(rig: Any) -> None:
    log = rig.files.open("/log")
    log.truncate(4)
    log.write(4, b"AB")

    assert contents_after_losses(rig) == {b"0123456789", b"0123", b"0123\0\0", b"0123AB"}


def test_a_sync_covers_writes_before_a_truncation(rig: Any) -> None:
    log = rig.files.open("/log")
    log.write(0, b"AB")
    log.write(10, b"CD")
    log.truncate(11)
    log.sync()

    assert contents_after_losses(rig) == {b"AB23456789C"}


def test_of_two_truncations_the_second_can_survive_alone(rig: Any) -> None:
    log = rig.files.open("/log")
    log.truncate(6)
    log.truncate(2)

    assert contents_after_losses(rig) == {b"0123456789", b"012345", b"01"}


def test_a_lost_length_stays_lost_after_a_smaller_truncation(rig: Any) -> None:
    log = rig.files.open("/log")
    log.write(10, b"ABCDEF")
    log.truncate(12)

    assert b"0123456789" in contents_after_losses(rig)
    assert all(found is not None and len(found) in (10, 12, 16) for found in contents_after_losses(rig))


def test_an_overwrite_does_not_change_the_length(rig: Any) -> None:
    rig.files.open("/log").write(0, b"AB")

    assert contents_after_losses(rig) == {b"0123456789", b"AB23456789"}


def test_data_is_durable_before_the_length_on_ordered_file_systems(rig: Any) -> None:
    rig.files.open("/log").write(10, b"AB")

    assert contents_after_losses(rig, "ext4-ordered") == {b"0123456789", b"0123456789AB"}
    assert contents_after_losses(rig) == {b"0123456789", b"0123456789\0\0", b"0123456789AB"}


def test_a_crash_during_a_descriptor_write_leaves_a_prefix() -> None:
    found = set()
    for seed in range(30):
        rig = Rig(seed=str(seed), image=START)
        rig.disk.crash_at(0, "during")
        rig.run_until_death(lambda rig=rig: rig.files.open("/log").write(10, b"ABC"))
        found.add(rig.cut("process-kill").files["/log"].content)

    assert found == {b"0123456789", b"0123456789A", b"0123456789AB", b"0123456789ABC"}


def test_a_full_disk_refuses_growth_but_not_overwrites(rig: Any) -> None:
    rig.disk.capacity_bytes = 10
    log = rig.files.open("/log")
    log.write(0, b"AB")
    with pytest.raises(OSError, match="No space left"):
        log.write(9, b"CD")
    with pytest.raises(OSError, match="No space left"):
        log.allocate(11)

    assert content(rig) == b"AB23456789"


def test_a_truncated_file_keeps_pending_and_dropped_writes() -> None:
    inode = Inode(0, PAGE, 0)
    inode.write(0, 0, b"0123456789abcdef", 0)
    inode.fail_write_back(0, 0, PAGE)
    rest = inode.cut(1, 10, 7)

    assert rest.content() == b"0123456789"
    assert rest.pending == [(0, 8, b"89")]
    assert rest.stale == {0}
    assert rest.durable_bytes(10) == bytes(10)
    assert inode.content() == b"0123456789abcdef"


def test_a_hard_link_is_another_name_of_the_same_file(rig: Any) -> None:
    rig.files.link("/log", "/d/twin")
    rig.files.open("/d/twin").write(0, b"AB")
    assert content(rig) == b"AB23456789"
    assert rig.disk.used_bytes == 10

    rig.files.unlink("/log")
    assert rig.files.list_directory("/d") == ["twin"]
    assert content(rig, "/d/twin") == b"AB23456789"


def test_a_hard_link_to_an_existing_name_is_refused(rig: Any) -> None:
    with pytest.raises(FileExistsError):
        rig.files.link("/log", "/d")
    with pytest.raises(FileExistsError):
        rig.files.link("/log", "/log")
    with pytest.raises(FileNotFoundError):
        rig.files.link("/none", "/d/twin")


def test_a_rename_to_another_hard_link_of_the_same_file_has_no_effect(rig: Any) -> None:
    rig.files.link("/log", "/d/twin")
    before = rig.disk.operations
    rig.files.rename("/log", "/d/twin")

    assert rig.disk.operations == before
    assert rig.files.status("/log") is not None


def test_a_hard_link_is_durable_once_its_directory_is_synced(rig: Any) -> None:
    rig.files.link("/log", "/d/twin")
    rig.files.unlink("/log")
    assert None in contents_after_losses(rig)
    rig.files.sync_directory("/d")
    rig.files.sync_directory("/")

    assert rig.cut("strict-posix").files["/d/twin"].content == b"0123456789"
