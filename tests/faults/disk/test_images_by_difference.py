"""Images that are made from the last one: as if made anew, at the cost of what changed."""

import pytest

from tests.faults.probe.generated import Program
from tornlog.faults.crashes.crash import surviving_cache_image
from tornlog.faults.disk.content import PAGE_BYTES, SparseBytes
from tornlog.faults.disk.difference import FilePatch, ImageDifference
from tornlog.faults.disk.file_tree import FileTree
from tornlog.faults.disk.image import FileImage, Image
from tornlog.faults.probe.record import ProgramRecord, Step
from tornlog.faults.probe.recording.run import EMPTY
from tornlog.faults.probe.replay import Replayer
from tornlog.sim.choices import Choices

SEEDS = 60
MANY = {f"/files/{number}": FileImage(str(number).encode(), 0) for number in range(5_000)}


def replayer_of(seed: int) -> Replayer:
    return Replayer(ProgramRecord(("program",), tuple(Program(seed).steps), ((),)), EMPTY)


def image_made_anew(replayer: Replayer) -> Image:
    entries = replayer.disk._names.current
    for inode in entries.files.values():
        inode.visible = None
    made = surviving_cache_image(entries, replayer.disk.kernel.wall_start_ms)
    return Image(dict(made.files), made.directories, dict(made.symlinks))


def test_the_image_of_the_page_cache_is_the_same_as_one_made_anew() -> None:
    for seed in range(SEEDS):
        replayer = replayer_of(seed)
        for _ in replayer.points():
            (state,) = replayer.states("process-kill", 1, Choices("test").stream("states"))
            anew = image_made_anew(replayer)
            assert (state.key, state.digest) == (anew.key, anew.digest())


@pytest.mark.parametrize("disk", ["strict-posix", "torn-sectors", "ext4-ordered"])
def test_states_have_equal_keys_exactly_if_their_digests_are_equal(disk: str) -> None:
    digests: dict[int, str] = {}
    for seed in range(SEEDS // 3):
        replayer = replayer_of(seed)
        for _ in replayer.points():
            for state in replayer.states(disk, 40, Choices("test").stream("states")):
                assert state.key == state.image.key
                assert digests.setdefault(state.key, state.digest) == state.digest
    assert len(set(digests.values())) == len(digests) > 50


@pytest.mark.parametrize("disk", ["strict-posix", "torn-sectors", "ext4", "btrfs"])
def test_states_do_not_depend_on_the_moments_asked_about_before(disk: str) -> None:
    for seed in range(0, SEEDS, 6):
        replayer = replayer_of(seed)
        for point in replayer.points():
            stream = f"{disk} after {point.operations}"
            states = replayer.states(disk, 40, Choices("test").stream(stream))
            alone = replayer_of(seed)
            alone.replay_to(point)
            expected = alone.states(disk, 40, Choices("test").stream(stream))
            assert [one.digest for one in states] == [one.digest for one in expected], (seed, point)


class CountedFile:
    """A file that counts how often its key was asked for."""

    asked = 0

    def key_at(self, path: str) -> int:
        CountedFile.asked += 1
        return len(path)


def test_a_changed_file_costs_as_much_as_that_file() -> None:
    tree = FileTree.of({path: CountedFile() for path in MANY})
    CountedFile.asked = 0
    changed = tree.changed({"/files/7": CountedFile(), "/files/new": CountedFile()}, ["/files/8"])
    assert CountedFile.asked == 4  # the old and the new 7, the new file, the old 8
    assert (changed.count, changed.key) == (tree.count, tree.key + len("/files/new") - len("/files/8"))
    shared = [one is other for one, other in zip(tree._parts, changed._parts, strict=True)]
    assert len(shared) - sum(shared) <= 3
    files, removed = tree.difference(changed)
    assert (sorted(files), removed) == (["/files/7", "/files/new"], ["/files/8"])


def test_a_difference_of_trees_in_one_part_and_in_many_leads_from_one_to_the_other() -> None:
    few = Image(dict(list(MANY.items())[:10]), ("/files",))
    many = Image(MANY, ("/files",))
    grown = ImageDifference.from_images(few, many)
    assert (len(grown.files), grown.removed) == (len(MANY) - 10, ())
    shrunk = ImageDifference.from_images(many, few)
    assert (shrunk.files, len(shrunk.removed)) == ({}, len(MANY) - 10)
    moved = many.with_files(many.tree.changed({"/files/1": MANY["/files/2"], "/files/2": MANY["/files/1"]}, ()))
    assert moved.key != many.key
    assert sorted(ImageDifference.from_images(many, moved).files) == ["/files/1", "/files/2"]


def test_a_long_file_is_sent_as_its_changed_pages() -> None:
    before = SparseBytes(40 * PAGE_BYTES)
    before[0 : 40 * PAGE_BYTES] = bytes(range(1, 41)) * PAGE_BYTES
    after = before.copy()
    after[PAGE_BYTES : PAGE_BYTES + 3] = b"new"
    after[2 * PAGE_BYTES : 3 * PAGE_BYTES] = bytes(PAGE_BYTES)
    after.resize(39 * PAGE_BYTES + 5)
    one, other = FileImage(before, 1), FileImage(after, 2)
    images = [Image({"/files/long": file}, ("/files",)) for file in (one, other)]
    patch = ImageDifference.from_images(*images).files["/files/long"]
    assert isinstance(patch, FilePatch)
    assert sorted(patch.pages) == [1, 2, 39]
    assert patch.applied_to(one) == other


def test_a_sync_of_many_files_makes_one_image() -> None:
    creations = [Step("create", f"/files/{number}", file=number) for number in range(300)]
    replayer = Replayer(ProgramRecord(("program",), (*creations, Step("sync all")), ((),)), EMPTY)
    images = {
        id(state.image): state.image
        for point in replayer.points()
        if point.step == len(creations)
        for state in replayer.states("process-kill", 1, Choices("test").stream("states"))
    }
    assert len(images) == 1
