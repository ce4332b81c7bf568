"""Enumerated crash states: complete, possible, and reproducible from their decisions."""

from collections import Counter
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.faults.rigs import Rig
from tornlog.faults.crashes.crash import PowerCut
from tornlog.faults.crashes.enumeration import DRAWN_STATES, CrashStates
from tornlog.faults.crashes.profiles import PROFILES
from tornlog.faults.crashes.sampling import draw_lost_changes, draw_page_outcomes
from tornlog.faults.disk.disk import Disk
from tornlog.faults.disk.fault_injector import MOMENTS
from tornlog.faults.disk.image import FileImage, Image
from tornlog.faults.plan import FaultPlan
from tornlog.sim.choices import Choices, Stream
from tornlog.sim.errors import MachineDied

PAGE, SECTOR = 8, 4
START = Image({"/log": FileImage(b"o" * 3 * PAGE, 0), "/old": FileImage(b"keep", 0)}, ("/d",))
CUTS = [name for name, profile in PROFILES.items() if not profile.page_cache_survives]
WHOLE_SECTORS = [name for name in CUTS if not PROFILES[name].torn_bytes_chance]
EVERYTHING = 1_000_000
Body = Callable[[Any], None]


def left_by(
    body: Body,
    operation: int = EVERYTHING,
    moment: str = "before",
    faults: FaultPlan | None = None,
    choices: Choices | None = None,
    page_bytes: int = PAGE,
) -> Disk:
    """Return a small disk after a crash at an operation of body, or after its end."""
    rig = Rig(image=START, faults=faults, choices=choices, page_bytes=page_bytes, sector_bytes=SECTOR)
    disk: Disk = rig.disk
    disk.crash_at(operation, moment)
    try:
        rig.run(lambda: body(rig.files))
    except MachineDied:
        assert disk.operations > operation
    rig.kernel.kill(rig.machine)
    return disk


def states_of(disk: Disk, profile: str, limit: int = EVERYTHING) -> CrashStates:
    return disk.crash_states(PROFILES[profile], limit, Choices("2").stream("states"))


def digests(states: CrashStates) -> set[str]:
    found = set()
    for state in states:
        assert state.digest == state.image.digest()
        found.add(state.digest)
    return found


class Odometer(Stream):
    """A stream that goes through all decisions. For partial lengths it uses the two that enumeration tries."""

    def __init__(self) -> None:
        super().__init__("disk", Random(0))
        self._digits: list[int] = []
        self._wheels: list[int] = []
        self._at = 0

    def record_draw(self, options: int, label: str, proposed: int) -> int:
        if label.endswith("bytes kept"):
            parts = sorted({0, 1, options - 1})
            return parts[self.record_draw(len(parts), "part", 0)]
        if options == 1:
            return 0
        if self._at == len(self._digits):
            self._digits.append(0)
        del self._wheels[self._at :]
        self._wheels.append(options)
        self._at += 1
        return self._digits[self._at - 1]

    def turns(self) -> Iterator[None]:
        while True:
            self._at = 0
            yield
            del self._digits[self._at :]
            while self._digits and self._digits[-1] == self._wheels[len(self._digits) - 1] - 1:
                self._digits.pop()
            if not self._digits:
                return
            self._digits[-1] += 1


def all_drawn(disk: Disk, profile: str) -> set[str]:
    """Return the digests of all states that a crash can be drawn to leave."""
    cut = PowerCut(PROFILES[profile], disk._names, PAGE, SECTOR)
    odometer, found, injected = Odometer(), set(), Counter[str]()
    for _ in odometer.turns():
        lost = draw_lost_changes(odometer, PROFILES[profile], cut.losable_changes())
        entries = cut.entries_without_changes(lost, injected)
        dirty = cut.dirty_pages(entries)
        page_outcomes = draw_page_outcomes(odometer, dirty, cut.page_sectors)
        found.add(cut.image(entries, dirty, page_outcomes, injected, 0).digest())
    return found


def make_writes(files: Any) -> None:
    log = files.map("/log", 3 * PAGE)
    log.store(1, b"AAAAA")
    log.store(5, b"BBBBBB")
    log.msync(0, PAGE)
    log.store(0, b"CC")
    log.store(2 * PAGE, b"DDDDDD")


def names(files: Any) -> None:
    files.write("/d/new", b"fresh")
    files.rename("/d/new", "/old")
    files.sync("/old")
    files.unlink("/old")
    files.sync_directory("/")
    files.make_directories("/e")
    files.map("/e/grown", PAGE + 2).store(PAGE - 1, b"EE")


def make_one_change_of_each_kind(files: Any) -> None:
    log = files.map("/log", 3 * PAGE)
    log.store(3, b"AAAA")
    files.write("/d/new", b"fresh")
    log.store(6, b"BBBB")
    files.sync("/d/new")
    files.rename("/d/new", "/old")
    log.pwrite(2, b"CC")


def make_truncations(files: Any) -> None:
    log = files.open("/log")
    log.write(PAGE + 2, b"AAAA")
    log.truncate(PAGE + 4)
    log.write(PAGE + 3, b"BBBB")
    log.sync()
    log.truncate(2)
    log.truncate(PAGE)


def make_links(files: Any) -> None:
    fresh = files.open("/d/new")
    fresh.write(0, b"AAAAAA")
    files.link("/d/new", "/d/twin")
    files.unlink("/d/new")
    files.sync_directory("/d")
    fresh.write(3, b"BBBBBBBB")


@pytest.mark.ci
@pytest.mark.parametrize("profile", WHOLE_SECTORS)
@pytest.mark.parametrize(
    ("body", "expected"),
    [(make_writes, 5), (names, 10), (make_one_change_of_each_kind, 7), (make_truncations, 6), (make_links, 6)],
)
def test_an_exhaustive_enumeration_equals_the_set_of_all_draws(body: Body, expected: int, profile: str) -> None:
    assert left_by(body).operations == expected
    sizes = []
    for operation in range(expected):
        for moment in MOMENTS:
            disk = left_by(body, operation, moment)
            states = states_of(disk, profile)
            found = digests(states)

            assert states.is_exhaustive
            assert not states.was_cut
            assert found == all_drawn(disk, profile), (operation, moment)
            sizes.append(len(found))
    assert max(sizes) > 3


ACTIONS = st.lists(
    st.tuples(
        st.sampled_from(["store", "store", "write", "rename", "unlink", "sync", "names", "cut", "grow", "link"]),
        st.integers(0, 3 * PAGE - 5),
    ),
    max_size=3,
)


@settings(max_examples=40)
@given(ACTIONS, st.sampled_from(WHOLE_SECTORS), st.sampled_from(["none", "lying", "failed"]))
def test_every_possible_draw_is_enumerated(actions: list[tuple[str, int]], profile: str, syncs: str) -> None:
    faults = FaultPlan() if syncs == "none" else FaultPlan(**{f"{syncs}_sync_chance": 0.5})
    disk = left_by(body_of_actions(actions), faults=faults)
    states = states_of(disk, profile)

    assert digests(states) == all_drawn(disk, profile)
    assert states.is_exhaustive


@settings(max_examples=40)
@given(ACTIONS, st.sampled_from(WHOLE_SECTORS), st.integers(1, 40))
def test_a_limited_enumeration_is_a_subset_of_all_states_with_both_extremes(
    actions: list[tuple[str, int]], profile: str, limit: int
) -> None:
    disk = left_by(body_of_actions(actions))
    every = states_of(disk, profile)
    losses = {frozenset(state.lost.items()) for state in every}
    states = states_of(disk, profile, limit)
    found = [state.image.digest() for state in states]

    stood_for = [state.digest for state in states if frozenset(state.lost.items()) not in losses]
    assert set(found) - set(stood_for) <= digests(every)
    assert len(stood_for) <= DRAWN_STATES  # drawn states may have other lengths of a partial growth
    assert len(found) <= limit
    if states.is_exhaustive:
        assert set(found) == digests(every)
    elif limit >= 2:
        kept = PROFILES["process-kill"]
        whole = disk.crash_states(kept, 1, Choices("2").stream("states"))
        assert digests(whole) <= set(found)


def body_of_actions(actions: list[tuple[str, int]]) -> Body:
    def body(files: Any) -> None:
        for number, (kind, at) in enumerate(actions):
            data = bytes([65 + number]) * 5
            try:
                match kind:
                    case "store":
                        files.map("/log", 3 * PAGE).store(at, data)
                    case "write":
                        files.write(f"/d/{at % 2}", data)
                    case "rename":
                        files.rename(f"/d/{at % 2}", "/old")
                    case "unlink":
                        files.unlink("/old")
                    case "sync":
                        files.sync("/log")
                    case "cut":
                        files.open("/log").truncate(at)
                    case "grow":
                        files.open("/log").write(3 * PAGE + at, data)
                    case "link":
                        files.link("/old", f"/d/{at % 2}")
                    case "names":
                        files.sync_directory("/d")
            except OSError:
                continue

    return body


@pytest.mark.parametrize("profile", CUTS)
@pytest.mark.parametrize("limit", [60, EVERYTHING])
@pytest.mark.parametrize("harm", [FaultPlan(), FaultPlan(torn_bytes_chance=0.5, garbage_chance=0.5)])
def test_a_state_can_be_replayed_from_its_decisions(profile: str, limit: int, harm: FaultPlan) -> None:
    operation = 6
    states = states_of(left_by(make_one_change_of_each_kind, operation, faults=harm), profile, limit)
    count = 0
    for state in list(states)[::2]:
        decisions = states.decisions(state, "disk")
        choices = Choices.for_replay(decisions)
        again = left_by(make_one_change_of_each_kind, operation, faults=harm, choices=choices)

        assert again.crash(PROFILES[profile]).digest() == state.image.digest()
        assert choices.unused_decisions() == []
        count += 1
    assert count > 2


@pytest.mark.parametrize("profile", ["nothing-lost", "process-kill"])
def test_a_crash_that_the_page_cache_survives_leaves_one_state(profile: str) -> None:
    disk = left_by(make_one_change_of_each_kind)
    (state,) = states = list(states_of(disk, profile))

    assert states_of(disk, profile).is_exhaustive
    assert states_of(disk, profile).decisions(states[0], "disk") == []
    assert disk.crash(PROFILES[profile]).digest() == state.image.digest()


def test_sector_faults_require_a_disk_that_has_them() -> None:
    plain = digests(states_of(left_by(make_one_change_of_each_kind), "strict-posix"))
    torn = digests(
        states_of(left_by(make_one_change_of_each_kind, faults=FaultPlan(torn_bytes_chance=0.1)), "strict-posix")
    )
    garbage = digests(
        states_of(left_by(make_one_change_of_each_kind, faults=FaultPlan(garbage_chance=0.1)), "strict-posix")
    )

    assert plain < torn
    assert plain < garbage
    assert torn != garbage
    whole = states_of(left_by(make_one_change_of_each_kind, faults=FaultPlan(garbage_chance=0.1)), "os-crash")
    assert digests(whole) == digests(states_of(left_by(make_one_change_of_each_kind), "os-crash"))


def write_many_pages(files: Any) -> None:
    for number in range(8):
        files.map(f"/file-{number}", 2 * PAGE).store(PAGE - 3, b"across")


def test_a_selection_is_representative_and_not_exhaustive() -> None:
    disk = left_by(write_many_pages)
    states = states_of(disk, "strict-posix", 2000)
    found = list(states)
    images = {state.image.digest(): state.image for state in found}

    assert not states.is_exhaustive
    assert not states.was_cut
    assert len(found) > DRAWN_STATES
    names = [{path for path in image.files if "file" in path} for image in images.values()]
    for number in range(8):
        name = f"/file-{number}"
        assert any(name not in one and len(one) == 7 for one in names), "one alone is missing"
        assert any(one == {name} for one in names), "one alone is there"
        assert {len(one) for one in names} >= set(range(9)), "each prefix"
    contents = {image.files["/file-3"].content for image in images.values() if len(image.files) == 10}
    nothing = bytes(2 * PAGE)
    first, last = bytearray(nothing), bytearray(nothing)
    first[PAGE - 3 : PAGE] = b"acr"
    last[PAGE : PAGE + 3] = b"oss"
    assert {bytes(first), bytes(last)} <= contents, "torn between pages"


def test_a_limit_that_leaves_out_states_is_reported() -> None:
    states = states_of(left_by(write_many_pages), "strict-posix", 20)

    assert len(list(states)) == 20
    assert states.was_cut


def test_a_write_is_torn_at_every_sector_boundary_from_both_sides() -> None:
    def body(files: Any) -> None:
        write_many_pages(files)
        files.map("/log", 3 * PAGE).store(0, b"ABCDEFGHIJKL")

    states = states_of(left_by(body, page_bytes=3 * SECTOR), "ext4-ordered", 2000)
    found = {state.image.files["/log"].content[: 3 * SECTOR] for state in states}

    assert not states.is_exhaustive
    assert {b"ABCDoooooooo", b"ABCDEFGHoooo", b"ooooEFGHIJKL", b"ooooooooIJKL"} <= found


@pytest.mark.parametrize("limit", [256, EVERYTHING])
def test_torn_sectors_tear_short_writes_at_any_limit(limit: int) -> None:
    def body(files: Any) -> None:
        write_many_pages(files)
        files.map("/log", 3 * PAGE).store(SECTOR + 1, b"AB")

    found = [
        {
            state.image.files["/log"].content[:8]
            for state in states_of(left_by(body), profile, limit)
            if "/log" in state.image.files
        }
        for profile in ("strict-posix", "torn-sectors")
    ]

    assert [b"oooooAoo" in contents for contents in found] == [False, True]


def test_enumeration_does_not_change_the_disk() -> None:
    disk, twin = left_by(make_one_change_of_each_kind), left_by(make_one_change_of_each_kind)
    for profile in PROFILES:
        digests(states_of(disk, profile, 50))

    assert disk.injected == twin.injected
    assert disk.image_after_power_off().digest() == twin.image_after_power_off().digest()


def test_the_same_disk_gives_the_same_states_in_the_same_order() -> None:
    one, other = (
        [state.image.digest() for state in states_of(left_by(write_many_pages), "strict-posix", 300)] for _ in range(2)
    )

    assert one == other


def test_page_versions_above_the_limit_are_left_out() -> None:
    def body(files: Any) -> None:
        log = files.map("/log", 3 * PAGE)
        for number in range(5):
            log.store(0, bytes([65 + number]))

    states = states_of(left_by(body), "os-crash", 4)

    assert not states.is_exhaustive
    assert len(list(states)) == 4
    assert states_of(left_by(body), "os-crash", 6).is_exhaustive


def test_a_durable_page_is_neither_torn_nor_garbage() -> None:
    def body(files: Any) -> None:
        write_many_pages(files)
        files.write("/d/new", b"fresh")

    faults = FaultPlan(torn_bytes_chance=0.5, garbage_chance=0.5)
    found = {
        state.image.files["/d/new"].content
        for state in states_of(left_by(body, faults=faults), "ext4-ordered", 2000)
        if "/d/new" in state.image.files
    }

    assert found == {b"", b"fresh"}


def test_fingerprints_differ_with_the_crash_states() -> None:
    seen: dict[str, set[str]] = {}
    operations = left_by(make_one_change_of_each_kind).operations
    for operation in range(operations):
        for moment in ("before", "after"):
            disk = left_by(make_one_change_of_each_kind, operation, moment)
            states = digests(states_of(disk, "strict-posix"))
            assert seen.setdefault(disk.fingerprint(), states) == states
    assert len(seen) == operations + 1, "after one operation is before the next"


@pytest.mark.parametrize("profile", CUTS)
def test_a_file_with_two_hard_links_has_the_same_content_under_both_in_every_state(profile: str) -> None:
    def body(files: Any) -> None:
        files.link("/log", "/d/twin")
        files.sync_directory("/d")
        files.map("/log", 3 * PAGE).store(PAGE - 2, b"AAAA")

    contents = set()
    for state in states_of(left_by(body), profile):
        image = state.image
        assert image.digest() == state.digest
        assert image.files["/log"].content == image.files["/d/twin"].content
        contents.add(image.files["/log"].content)
    assert len(contents) >= 4


def test_a_state_lists_its_losses() -> None:
    states = states_of(left_by(make_one_change_of_each_kind), "strict-posix")
    for state in states:
        taken = states.losses_of(state)
        lost_pages = [page for page, page_outcome in taken.pages if page_outcome != (len(page.writes), 0, 0, 0, 0, 0)]

        assert {change.number: kept_bytes for change, kept_bytes in taken.changes} == state.lost
        assert state.loss_count <= len(taken.changes) + len(lost_pages)
    assert min(state.loss_count for state in states) == 0


def test_a_partial_file_growth_is_tried_with_one_byte_and_with_all_but_one() -> None:
    def grow(files: Any) -> None:
        files.map("/old", 3 * PAGE)

    for limit in (EVERYTHING, 3):  # all states, and a selection
        states = states_of(left_by(grow), "ext4-ordered", limit + 1)
        lengths = {len(state.image.files["/old"].content): states.losses_of(state).changes for state in states}
        assert sorted(lengths) == [4, 5, 3 * PAGE - 1, 3 * PAGE]
        assert [kept_bytes for _, kept_bytes in lengths[5]] == [1]
    assert lengths[3 * PAGE] == ()


def test_a_state_can_be_drawn_again_from_its_decisions() -> None:
    states = states_of(left_by(make_one_change_of_each_kind), "strict-posix")
    for state in list(states)[::3]:
        stream = Choices.for_replay(states.decisions(state, "disk")).stream("disk")

        assert states.drawn(stream).digest == state.digest
        assert stream.decisions() == states.decisions(state, "disk")
