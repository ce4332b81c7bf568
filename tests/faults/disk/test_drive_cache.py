"""A drive that acknowledges syncs without executing them."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.faults.rigs import Rig
from tornlog.faults.disk.image import FileImage, Image
from tornlog.faults.plan import FaultPlan

PAGE = 4096
LIES = FaultPlan(lying_sync_chance=1.0)
LOG = Image({"/log": FileImage(bytes(2 * PAGE), 0)}, ())


def write_with_lying_sync(rig: Any) -> Any:
    """Write a page with a lying sync."""
    mapped = rig.files.map("/log", 2 * PAGE)
    mapped.store(0, b"data")
    mapped.msync(0, PAGE)
    return mapped


def contents_after_crashes(profile: str, then: Callable[[Any, Any], None]) -> set[bytes]:
    """Return the contents of the page after crashes of many seeds."""
    found = set()
    for seed in range(40):
        rig = Rig(seed=str(seed), image=LOG, faults=LIES)
        then(rig, write_with_lying_sync(rig))
        found.add(rig.cut(profile).files["/log"].content[:4])
    return found


def do_nothing_more(rig: Any, mapped: Any) -> None:
    assert rig.injected["lying sync"] == 1


@pytest.mark.parametrize("profile", ["process-kill", "os-crash", "nothing-lost"])
def test_data_of_a_lying_sync_survives_if_the_power_stays_on(profile: str) -> None:
    assert contents_after_crashes(profile, do_nothing_more) == {b"data"}


@pytest.mark.parametrize("profile", ["strict-posix", "ext4-ordered", "xfs", "btrfs", "ext4-data"])
def test_data_of_a_lying_sync_may_be_lost_in_a_power_cut(profile: str) -> None:
    assert contents_after_crashes(profile, do_nothing_more) == {b"data", bytes(4)}


def test_any_honest_sync_makes_the_drive_cache_durable() -> None:
    def sync_another(rig: Any, mapped: Any) -> None:
        with rig.disk.with_faults(lying_sync_chance=0.0):
            rig.files.write("/other", b"x")
            rig.files.sync("/other")
        assert rig.disk.is_durable("/log", 0, 4)

    assert contents_after_crashes("strict-posix", sync_another) == {b"data"}


def test_an_honest_directory_sync_makes_the_drive_cache_durable() -> None:
    def sync_directory(rig: Any, mapped: Any) -> None:
        with rig.disk.with_faults(lying_sync_chance=0.0):
            rig.files.sync_directory("/")

    assert contents_after_crashes("strict-posix", sync_directory) == {b"data"}


def test_an_honest_sync_does_not_make_later_writes_durable() -> None:
    def write_again(rig: Any, mapped: Any) -> None:
        mapped.store(0, b"late")
        with rig.disk.with_faults(lying_sync_chance=0.0):
            rig.files.sync_directory("/")

    assert contents_after_crashes("strict-posix", write_again) == {b"data", b"late"}


def test_is_durable_is_false_after_a_lying_sync() -> None:
    rig = Rig(image=LOG, faults=LIES)
    write_with_lying_sync(rig)

    assert not rig.disk.is_durable("/log", 0, 4)
    assert rig.disk.is_durable("/log", PAGE, 2 * PAGE)


def test_a_clean_power_off_flushes_the_drive_cache() -> None:
    rig = Rig(image=LOG, faults=LIES)
    write_with_lying_sync(rig)

    assert rig.disk.image_after_power_off().files["/log"].content[:4] == b"data"


def test_a_sync_without_changes_does_not_count_as_lying() -> None:
    rig = Rig(image=LOG, faults=LIES)
    rig.files.map("/log", 2 * PAGE).msync(0, PAGE)
    rig.files.sync("/log")
    rig.files.sync_directory("/")

    assert rig.injected["lying sync"] == 0


@pytest.mark.parametrize(("profile", "survives"), [("os-crash", True), ("strict-posix", False)])
def test_names_and_sizes_of_a_lying_sync_survive_only_an_os_crash(profile: str, survives: bool) -> None:
    found = set()
    exposed = 0
    for seed in range(40):
        rig = Rig(seed=str(seed), faults=LIES)
        rig.files.write("/a", b"new")
        rig.files.sync("/a")
        rig.files.sync_directory("/")
        file = rig.cut(profile).files.get("/a")
        found.add(None if file is None else file.content)
        exposed += rig.injected["synced data lost"]
    assert found == ({b"new"} if survives else {None, b"", bytes(3), b"new"})
    assert (exposed == 0) == survives


def test_a_lying_sync_counts_as_exposed_only_if_acknowledged_data_is_lost() -> None:
    for seed in range(80):
        rig = Rig(seed=str(seed), image=LOG, faults=LIES)
        mapped = write_with_lying_sync(rig)
        mapped.store(PAGE, b"never synced")
        content = rig.cut("strict-posix").files["/log"].content
        assert rig.injected["synced data lost"] == (content[:4] != b"data")


def test_rewriting_equal_bytes_keeps_them_acknowledged() -> None:
    for seed in range(40):
        rig = Rig(seed=str(seed), image=LOG, faults=LIES)
        mapped = rig.files.map("/log", 2 * PAGE)
        mapped.store(0, bytes(4))
        mapped.msync(0, PAGE)
        rig.cut("strict-posix")
        assert rig.injected["lying sync"] == 1
        assert rig.injected["synced data lost"] == 0


def test_a_lying_sync_changes_the_digest() -> None:
    honest, liar = Rig(image=LOG), Rig(image=LOG, faults=LIES)
    write_with_lying_sync(honest)
    write_with_lying_sync(liar)

    assert honest.kernel.digest() != liar.kernel.digest()
