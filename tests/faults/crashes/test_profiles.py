"""Crash profiles: each has the guarantees of its file system, and at least those of POSIX."""

from collections import Counter
from collections.abc import Iterator
from itertools import chain, combinations, product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.faults.rigs import Rig
from tornlog.faults.crashes.crash import PowerCut, surviving_cache_image
from tornlog.faults.crashes.page_outcomes import DirtyPage, PageOutcome
from tornlog.faults.crashes.profiles import PROFILES, CrashProfile, Metadata, crash_kinds
from tornlog.faults.disk.changes import Extend, Lost, MakeDirectory
from tornlog.faults.disk.disk import Disk
from tornlog.faults.disk.image import FileImage, Image
from tornlog.faults.kinds import FAULTS
from tornlog.faults.plan import FaultPlan
from tornlog.sim.errors import MachineDied

PAGE, SECTOR = 8, 4
START = Image({"/old": FileImage(b"o" * 2 * PAGE, 0), "/gone": FileImage(b"g", 0)}, ("/d",))
CUTS = [name for name, profile in PROFILES.items() if not profile.page_cache_survives]
WHOLE_SECTORS = [name for name in CUTS if not PROFILES[name].torn_bytes_chance]
Operation = tuple[str, str, int]


def disk_after(operations: list[Operation], seed: str = "1", faults: FaultPlan | None = None) -> Disk:
    """Return a small disk after some operations. Impossible operations are skipped."""
    rig = Rig(seed, START, faults=faults, page_bytes=PAGE, sector_bytes=SECTOR)

    def body() -> None:
        for number, (kind, path, at) in enumerate(operations):
            try:
                perform(rig.files, kind, path, at, bytes([65 + number]) * 3)
            except OSError:
                continue

    rig.run(body)
    rig.kernel.kill(rig.machine)
    disk: Disk = rig.disk
    return disk


def perform(files: Any, kind: str, path: str, at: int, data: bytes) -> None:
    match kind:
        case "store":
            files.map(path, 2 * PAGE).store(at, data)
        case "write":
            files.write(path, data)
        case "rename":
            files.rename(path, f"/d/{at}")
        case "unlink":
            files.unlink(path)
        case "make":
            files.make_directories(f"/d{at}")
        case "sync":
            files.sync(path)
        case "sync directory":
            files.sync_directory("/")


def all_images(disk: Disk, profile: CrashProfile) -> set[str]:
    """Return the digests of all images that a crash may leave."""
    names = disk._names
    if profile.page_cache_survives:
        return {surviving_cache_image(names.current, 0).digest()}
    cut = PowerCut(profile, names, PAGE, SECTOR)
    injected: Counter[str] = Counter()
    found = set()
    for lost in lost_sets(cut, profile):
        entries = cut.entries_without_changes(lost, injected)
        dirty = cut.dirty_pages(entries)
        for page_outcomes in product(*(possible_outcomes(page, cut.page_sectors) for page in dirty)):
            found.add(cut.image(entries, dirty, page_outcomes, injected, 0).digest())
    return found


def lost_sets(cut: PowerCut, profile: CrashProfile) -> Iterator[Lost]:
    unsure = cut.losable_changes()
    ordered = [change.number for change in unsure if profile.metadata.is_in_order(change)]
    free = [change.number for change in unsure if not profile.metadata.is_in_order(change)]
    subsets = chain.from_iterable(combinations(free, size) for size in range(len(free) + 1))
    for lost in subsets:
        for kept in range(len(ordered) + 1):
            whole = dict.fromkeys([*lost, *ordered[kept:]], 0)
            growths = profile.partial_growths(unsure, whole)
            for parts in product(*(range(growth.grown_bytes) for growth in growths)):
                yield whole | {growth.number: part for growth, part in zip(growths, parts, strict=True)}


def possible_outcomes(page: DirtyPage, page_sectors: int) -> list[PageOutcome]:
    moments = range(page.least, len(page.writes) + 1)
    whole = [PageOutcome(moment) for moment in moments]
    torn = [
        PageOutcome(one, other, sectors)
        for one, other in combinations(moments, 2)
        for sectors in range(1, (1 << page_sectors) - 1)
    ]
    return whole + torn


OPERATIONS = st.tuples(
    st.sampled_from(["store", "store", "write", "rename", "unlink", "make", "sync", "sync", "sync directory"]),
    st.sampled_from(["/old", "/gone", "/a"]),
    st.integers(0, 2 * PAGE - 3),
)


@pytest.mark.slow
@settings(max_examples=60)
@pytest.mark.parametrize(("least", "most"), [(0, 3), (4, 5)])
@given(st.data(), st.booleans())
def test_strict_posix_allows_every_crash_image_of_weaker_profiles(
    least: int, most: int, data: st.DataObject, lies: bool
) -> None:
    operations = data.draw(st.lists(OPERATIONS, min_size=least, max_size=most))
    disk = disk_after(operations, faults=FaultPlan(lying_sync_chance=0.5 if lies else 0.0))
    strict = all_images(disk, PROFILES["strict-posix"])
    for name in PROFILES.keys() - {"torn-sectors"}:
        assert all_images(disk, PROFILES[name]) <= strict, name


@pytest.mark.ci
@settings(max_examples=60)
@given(st.lists(OPERATIONS, max_size=5), st.integers(0, 10**6), st.sampled_from(WHOLE_SECTORS))
def test_a_drawn_image_is_allowed_by_its_profile(operations: list[Operation], seed: int, name: str) -> None:
    disk = disk_after(operations, str(seed))
    allowed = all_images(disk, PROFILES[name])

    assert disk.crash(PROFILES[name]).digest() in allowed


def names_left(profile: str, disk: Disk) -> set[tuple[str, ...]]:
    """Return all sets of new names that a crash may leave."""
    names: set[tuple[str, ...]] = set()
    cut = PowerCut(PROFILES[profile], disk._names, PAGE, SECTOR)
    for lost in lost_sets(cut, PROFILES[profile]):
        entries = cut.entries_without_changes(lost, Counter())
        names.add(tuple(sorted(entries.names.keys() - START.files.keys())))
    return names


def contents_left(profile: str, operations: list[Operation], path: str) -> set[bytes | None]:
    """Return the possible contents of a file after a crash."""
    found: set[bytes | None] = set()
    for seed in range(150):
        file = disk_after(operations, str(seed)).crash(PROFILES[profile]).files.get(path)
        found.add(None if file is None else file.content)
    return found


NEW_FILE: list[Operation] = [("write", "/a", 0), ("write", "/b", 0), ("sync", "/b", 0)]


@pytest.mark.parametrize(
    ("profile", "expected"),
    [
        ("ext4", {("/a", "/b")}),
        ("ext4-ordered", {("/a", "/b")}),
        ("ext4-data", {("/a", "/b")}),
        ("xfs", {("/a", "/b")}),
        ("btrfs", {("/b",), ("/a", "/b")}),
        ("os-crash", {(), ("/a",), ("/b",), ("/a", "/b")}),
        ("strict-posix", {(), ("/a",), ("/b",), ("/a", "/b")}),
    ],
)
def test_a_sync_of_a_new_file_makes_its_name_durable_only_under_some_profiles(
    profile: str, expected: set[tuple[str, ...]]
) -> None:
    assert names_left(profile, disk_after(NEW_FILE)) == expected


@pytest.mark.parametrize(("profile", "expected"), [("ext4", {b"", b"A" * 3}), ("ext4-ordered", {b"A" * 3})])
def test_delayed_allocation_can_leave_a_file_empty(profile: str, expected: set[bytes | None]) -> None:
    assert contents_left(profile, NEW_FILE, "/a") == expected


REPLACED: list[Operation] = [
    *(("write", "/a", 0), ("rename", "/a", 1), ("sync", "/d/1", 0), ("sync directory", "/", 0)),
    *(("write", "/b", 0), ("rename", "/b", 1), ("write", "/gone", 0), ("sync", "/gone", 0)),
]


@pytest.mark.parametrize(("operations", "expected"), [(REPLACED, {b"E" * 3}), (REPLACED[4:], {b"", b"A" * 3})])
def test_ext4_allocates_a_file_that_replaces_another(operations: list[Operation], expected: set[bytes | None]) -> None:
    assert contents_left("ext4", operations, "/d/1") == expected


def test_ext4_replaces_a_file_completely_or_not_at_all() -> None:
    assert contents_left("ext4", REPLACED[:6], "/d/1") == {b"A" * 3, b"E" * 3}


def test_a_surviving_file_length_on_ext4_implies_earlier_changes() -> None:
    made, grown, later = MakeDirectory(1, "/d1"), Extend(2, "/old", 0, 8, 9, by_write=True), MakeDirectory(3, "/d3")
    unsure = [made, grown, later]

    assert PROFILES["ext4"].with_consequences(unsure, {1: 0, 3: 0}) == {1: 0, 2: 0, 3: 0}
    assert PROFILES["ext4"].with_consequences(unsure, {3: 0}) == {3: 0}
    assert PROFILES["xfs"].with_consequences(unsure, {1: 0, 3: 0}) == {1: 0, 3: 0}
    assert PROFILES["ext4"].with_consequences([made, grown.as_allocated(), later], {3: 0}) == {3: 0}


def test_btrfs_logs_a_synced_files_name_and_directories() -> None:
    moved: list[Operation] = [("make", "", 7), ("write", "/d7/x", 0), ("rename", "/d7/x", 3), ("sync", "/d/3", 0)]

    assert names_left("btrfs", disk_after(moved)) == {("/d/3",)}
    disk = disk_after([("make", "", 7), ("make", "", 8), ("write", "/d7/x", 0), ("sync", "/d7/x", 0)])
    assert [change.path for change in PowerCut(PROFILES["btrfs"], disk._names, PAGE, SECTOR).losable_changes()] == [
        "/d8"
    ]


def test_btrfs_may_lose_a_rename_made_after_the_sync() -> None:
    renamed: list[Operation] = [("write", "/a", 0), ("sync", "/a", 0), ("rename", "/a", 1)]

    assert names_left("btrfs", disk_after(renamed)) == {("/a",), ("/d/1",)}


def test_btrfs_keeps_the_logged_name_of_an_emptied_file() -> None:
    emptied: list[Operation] = [("write", "/a", 0), ("sync", "/a", 0), ("write", "/a", 0)]

    assert names_left("btrfs", disk_after(emptied)) == {("/a",)}


def test_xfs_may_leave_a_file_empty_but_not_zeroed() -> None:
    written: list[Operation] = [("write", "/a", 0), ("write", "/b", 0), ("sync", "/b", 0)]

    assert contents_left("xfs", written, "/a") == {b"", b"AAA"}
    assert contents_left("xfs", written, "/b") == {b"BBB"}
    assert contents_left("ext4-ordered", written, "/a") == {b"AAA"}
    assert bytes(3) in contents_left("strict-posix", written, "/a")


def test_xfs_logs_an_allocated_length_in_order() -> None:
    mapped: list[Operation] = [("store", "/a", 0), ("write", "/b", 0), ("sync", "/b", 0)]

    assert {len(content or b"") for content in contents_left("xfs", mapped, "/a")} == {2 * PAGE}


@pytest.mark.parametrize("name", CUTS)
def test_pages_are_torn_only_under_profiles_with_torn_pages(name: str) -> None:
    found = contents_left(name, [("store", "/old", 3)], "/old")
    torn = {b"oooA" + b"o" * 12, b"ooooAA" + b"o" * 10}

    inside = {b"oooAA" + b"o" * 11, b"ooooA" + b"o" * 11, b"oooAoA" + b"o" * 10}

    assert found - torn - inside <= {b"o" * 16, b"oooAAA" + b"o" * 10}
    assert (found & torn == set()) == PROFILES[name].whole_pages
    assert (found & inside != set()) == (name == "torn-sectors")


@pytest.mark.parametrize("name", CUTS)
def test_an_allocation_may_leave_any_length_except_on_xfs(name: str) -> None:
    lengths = set()
    for seed in range(150):
        rig = Rig(str(seed), START, page_bytes=PAGE, sector_bytes=SECTOR)

        def body(files: Any = rig.files) -> None:
            files.map("/old", 2 * PAGE + 6).store(2 * PAGE, b"behind")

        rig.run(body)
        lengths.add(len(rig.cut(name).files["/old"].content))
    assert lengths == ({2 * PAGE, 2 * PAGE + 6} if name == "xfs" else set(range(2 * PAGE, 2 * PAGE + 7)))


def test_only_the_first_lost_growth_can_be_partial() -> None:
    seen = set()
    for seed in range(300):
        rig = Rig(str(seed), START, page_bytes=PAGE, sector_bytes=SECTOR)

        def body(files: Any = rig.files) -> None:
            files.map("/old", 2 * PAGE + 3)
            files.map("/gone", 4)

        rig.run(body)
        files = rig.cut("ext4-ordered").files
        seen.add((len(files["/old"].content) - 2 * PAGE, len(files["/gone"].content) - 1))
    assert seen == {(0, 0), (1, 0), (2, 0), (3, 0), (3, 1), (3, 2), (3, 3)}


@pytest.mark.parametrize("way", ["map", "allocate", "truncate"])
def test_a_kill_during_an_allocation_can_leave_a_partial_allocation(way: str) -> None:
    lengths = set()
    for seed in range(200):
        rig = Rig(str(seed), START, page_bytes=PAGE, sector_bytes=SECTOR)

        def body(files: Any = rig.files) -> None:
            if way == "map":
                files.map("/gone", 4)
            else:
                getattr(files.open("/gone"), way)(4)

        rig.disk.crash_at(0, "during")
        with pytest.raises(MachineDied):
            rig.run(body)
        lengths.add(len(rig.cut("process-kill").files["/gone"].content))
    assert lengths == ({1, 4} if way == "truncate" else {1, 2, 3, 4})


@pytest.mark.parametrize(
    ("operations", "profiles", "expected"),
    [
        ({"create", "write"}, ["process-kill"], []),
        ({"create", "write"}, ["process-kill", "os-crash"], ["name lost", "page lost"]),
        ({"rename", "store"}, ["xfs"], ["rename undone", "page lost", "torn page"]),
        ({"pwrite"}, ["torn-sectors"], ["page lost", "torn page", "torn sector"]),
        ({"extend", "make directory", "sync"}, ["btrfs"], ["size lost", "directory lost"]),
        (set(), list(PROFILES), []),
    ],
)
def test_crash_kinds_follow_from_operations_and_profiles(
    operations: set[str], profiles: list[str], expected: list[str]
) -> None:
    found = list(crash_kinds(operations, [PROFILES[name] for name in profiles]))

    assert found == expected
    assert set(found) <= FAULTS.keys()


def test_a_profile_that_keeps_the_page_cache_but_loses_names_is_refused() -> None:
    with pytest.raises(AssertionError):
        CrashProfile("odd", page_cache_survives=True, metadata=Metadata.ANY)
