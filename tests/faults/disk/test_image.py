import pickle
from collections import Counter

import pytest

from tornlog.faults.disk.image import FileImage, Image, RotPlan, decay_image
from tornlog.faults.kinds import FaultKind
from tornlog.sim.choices import Choices


def make_image(content: bytes = b"x", mtime_ms: int = 5, directory: str = "/d") -> Image:
    return Image({"/d/b": FileImage(content, mtime_ms), "/a": FileImage(b"", 1)}, (directory,))


def test_the_digest_covers_names_and_contents_but_not_times() -> None:
    image = make_image()

    assert image.digest() == make_image(mtime_ms=6).digest()
    assert image.digest() != make_image(content=b"y").digest()
    assert image.digest() != make_image(directory="/e").digest()
    assert image.digest() != Image({"/d/b": FileImage(b"x", 5)}, ("/d",)).digest()
    assert Image({"/a": FileImage(b"", 0)}, ()).digest() != Image({}, ("/a",)).digest()


def test_files_and_directories_are_sorted() -> None:
    image = Image({"/b": FileImage(b"", 0), "/a": FileImage(b"", 0)}, ("/z", "/y"))

    assert list(image.files) == ["/a", "/b"]
    assert image.directories == ("/y", "/z")


def test_a_file_with_a_changed_mtime_shares_content_and_digest() -> None:
    file = FileImage(b"content", 1)
    digest = file.digest()
    later = file.with_mtime(2)

    assert file.with_mtime(1) is file
    assert later.content is file.content
    assert later.mtime_ms == 2
    assert later.digest() is digest
    assert later != file
    assert later == FileImage(b"content", 2)
    assert later != b"content"


def test_an_image_can_be_pickled() -> None:
    image = make_image()
    copy = pickle.loads(pickle.dumps(image))

    assert copy.digest() == image.digest()
    assert copy.files == image.files


PAGE, SECTOR = 4096, 512
IMAGE = Image(
    {
        "/d/a": FileImage(bytes(range(256)) * 48 + bytes(PAGE), 7),
        "/empty": FileImage(b"", 1),
        "/small": FileImage(b"s" * 100, 2),
    },
    ("/d",),
)


def rotten_image(plan: RotPlan, seed: int) -> tuple[Image, list[tuple[str, int, int, str]], Counter[str]]:
    injected: Counter[str] = Counter()
    image, damage = decay_image(IMAGE, Choices(str(seed)).stream("rot"), plan, injected)
    return image, [tuple(found) for found in damage], injected


def changed_offsets(image: Image, path: str) -> list[int]:
    before, after = IMAGE.files[path].content, image.files[path].content
    assert len(after) == len(before)
    return [at for at in range(len(before)) if before[at] != after[at]]


def test_without_chances_no_data_decays() -> None:
    stream = Choices("none").stream("rot")
    injected: Counter[str] = Counter()

    assert decay_image(IMAGE, stream, RotPlan(), injected) == (IMAGE, [])
    assert stream.draw_count == 0
    assert not injected


def test_bit_rot_changes_one_bit_of_each_affected_file() -> None:
    for seed in range(30):
        image, damage, injected = rotten_image(RotPlan(bit_rot_chance=1.0), seed)
        assert [found[0] for found in damage] == ["/d/a", "/small"]
        assert injected == {"bit rot": 2}
        for path, start, end, _ in damage:
            [at] = changed_offsets(image, path)
            assert start <= at < end <= start + SECTOR
            assert (IMAGE.files[path].content[at] ^ image.files[path].content[at]).bit_count() == 1
            assert image.files[path].mtime_ms == IMAGE.files[path].mtime_ms


def test_a_zeroed_sector_changes_no_other_bytes() -> None:
    struck = 0
    for seed in range(30):
        image, damage, injected = rotten_image(RotPlan(zeroed_sector_chance=0.5), seed)
        assert injected["zeroed sector"] == len(damage) == (image is not IMAGE) + (len(damage) == 2)
        for path, start, end, _ in damage:
            assert not any(image.files[path].content[start:end])
            assert all(start <= at < end for at in changed_offsets(image, path))
        struck += len(damage)
    assert 10 < struck < 50


def test_swapped_pages_exchange_their_bytes() -> None:
    struck = 0
    for seed in range(30):
        image, damage, injected = rotten_image(RotPlan(swapped_pages_chance=1.0), seed)
        assert injected["swapped pages"] * 2 == len(damage)
        before, after = IMAGE.files["/d/a"].content, image.files["/d/a"].content
        if damage:
            (_, one, one_end, _), (_, other, other_end, _) = damage
            assert before[one:one_end] == after[other:other_end] != before[other:other_end] == after[one:one_end]
            struck += 1
        else:  # two equal pages
            assert image is IMAGE
        assert image.files["/small"] is IMAGE.files["/small"]
    assert struck > 10


def test_a_latent_sector_error_keeps_the_bytes_readable_for_judges() -> None:
    image, damage, injected = rotten_image(RotPlan(latent_sector_error_chance=1.0), 1)

    assert image is IMAGE
    assert {(path, kind) for path, _, _, kind in damage} == {
        ("/d/a", FaultKind.LATENT_SECTOR_ERROR),
        ("/small", FaultKind.LATENT_SECTOR_ERROR),
    }
    assert all(0 < end - start <= SECTOR for _, start, end, _ in damage)
    assert not injected  # counted only when a sector is read


def test_most_decay_hits_files_with_data() -> None:
    starts = [rotten_image(RotPlan(bit_rot_chance=1.0), seed)[1][0][1] for seed in range(200)]
    behind = sum(start >= 3 * PAGE for start in starts)

    assert 0 < behind < 40
    assert len(set(starts)) > 20


@pytest.mark.parametrize("plan", [RotPlan(1.0, 0.5, 0.5, 0.5)])
def test_a_replayed_record_gives_the_same_decay(plan: RotPlan) -> None:
    choices = Choices("again")
    image, damage = decay_image(IMAGE, choices.stream("rot"), plan, Counter())
    replayed = Choices.for_replay(choices.decisions())
    again, damage_again = decay_image(IMAGE, replayed.stream("rot"), plan, Counter())

    assert again.digest() == image.digest()
    assert damage_again == damage
    assert replayed.unused_decisions() == []


def test_the_decay_of_a_file_does_not_depend_on_other_files() -> None:
    plan = RotPlan(bit_rot_chance=0.5)
    choices = Choices("files")
    image, damage = decay_image(IMAGE, choices.stream("rot"), plan, Counter())
    while not {"/d/a", "/small"} <= {found.path for found in damage}:
        choices = Choices(f"files{image.digest()}")
        image, damage = decay_image(IMAGE, choices.stream("rot"), plan, Counter())
    kept = Choices.for_replay(entry for entry in choices.decisions() if "/small" in entry.label)
    again, _ = decay_image(IMAGE, kept.stream("rot"), plan, Counter())

    assert again.files["/small"] == image.files["/small"]
    assert again.files["/d/a"] == IMAGE.files["/d/a"]
