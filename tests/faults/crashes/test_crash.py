import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.faults.rigs import Rig
from tornlog.faults.disk.image import FileImage, Image

PAGE = 4096
SECTOR = 512
SURVIVES = ("nothing-lost", "process-kill")
CUTS = ("ext4-ordered", "strict-posix")


def make_unsynced_changes(rig: Any) -> None:
    """Make unsynced changes of every kind, on a disk with durable files."""
    files = rig.files
    files.make_directories("/d/e")
    files.write("/d/e/inner", b"inner")
    mapped = files.map("/d/log", 3 * PAGE)
    for number in range(1, 5):
        mapped.store(PAGE - 1000, bytes([number]) * 2000)
    files.write("/d/tmp", b"small")
    files.rename("/d/tmp", "/d/json")
    old = files.map("/old", 2 * PAGE)
    old.store(0, b"new bytes")
    old.store(PAGE - 1024, b"n" * 2048)
    files.unlink("/gone")
    files.write("/emptied", b"afresh")
    files.make_directories("/hollow2")
    files.remove_directory("/hollow")


DURABLE = Image(
    {
        "/old": FileImage(b"o" * 2 * PAGE, 1),
        "/gone": FileImage(b"gone", 2),
        "/emptied": FileImage(b"before", 3),
        "/untouched": FileImage(b"u" * 100, 4),
    },
    ("/hollow",),
)


def crash_under_seeds(profile: str, seeds: int) -> tuple[list[Image], Counter[str]]:
    images = []
    injected: Counter[str] = Counter()
    for seed in range(seeds):
        rig = Rig(seed=str(seed), image=DURABLE)
        make_unsynced_changes(rig)
        images.append(rig.cut(profile))
        injected += rig.injected
    return images, injected


LOSSES = (
    *("page lost", "page kept", "intermediate page", "torn page", "name lost", "size lost"),
    *("truncation undone", "unlink undone", "rename undone", "directory lost", "removal undone"),
)


@pytest.mark.parametrize("profile", CUTS)
def test_every_kind_of_loss_occurs_within_a_few_seeds(profile: str) -> None:
    _, injected = crash_under_seeds(profile, 100)

    assert [loss for loss in LOSSES if not injected[loss]] == []
    assert injected["crash"] == injected[f"crash {profile}"] == 100


@pytest.mark.parametrize("profile", SURVIVES)
def test_a_surviving_page_cache_keeps_everything(profile: str) -> None:
    images, injected = crash_under_seeds(profile, 10)

    assert set(injected) == {"crash", f"crash {profile}"}
    assert {image.digest() for image in images} == {images[0].digest()}
    assert images[0].directories == ("/d", "/d/e", "/hollow2")
    assert {path: file.content[:9] for path, file in images[0].files.items()} == {
        "/d/e/inner": b"inner",
        "/d/json": b"small",
        "/d/log": bytes(9),
        "/emptied": b"afresh",
        "/old": b"new bytes",
        "/untouched": b"u" * 9,
    }
    assert images[0].files["/d/log"].content[PAGE - 1000 : PAGE + 1000] == b"\4" * 2000


@pytest.mark.parametrize("profile", CUTS)
def test_synced_data_is_never_lost(profile: str) -> None:
    for seed in range(30):
        rig = Rig(seed=str(seed), image=DURABLE)
        make_unsynced_changes(rig)
        for path in ("/d/e/inner", "/d/log", "/d/json", "/old", "/emptied"):
            rig.files.sync(path)
        for path in ("/d/e", "/d", "/"):
            rig.files.sync_directory(path)
        image = rig.cut(profile)
        whole = Rig(image=DURABLE)
        make_unsynced_changes(whole)

        assert image.digest() == whole.cut("nothing-lost").digest()
        assert set(rig.injected) == {"crash", f"crash {profile}"}


def test_a_power_cut_loses_all_or_some_or_no_changes() -> None:
    whole = Rig(image=DURABLE)
    make_unsynced_changes(whole)
    everything = whole.cut("nothing-lost").digest()
    for profile in CUTS:
        images, _ = crash_under_seeds(profile, 150)
        digests = Counter(image.digest() for image in images)
        assert digests[DURABLE.digest()] > 0
        assert digests[everything] > 0
        assert len(digests) > 50


ANY = {"", "a", "b", "c", "ab", "ac", "bc", "abc"}


@pytest.mark.parametrize(
    ("profile", "synced", "expected"),
    [
        ("strict-posix", "", ANY),
        ("strict-posix", "/a", ANY),
        ("ext4-ordered", "", {"", "a", "ab", "abc"}),
        ("ext4-ordered", "/a", {"a", "ab", "abc"}),
    ],
)
def test_directory_entries_are_lost_independently_or_in_order_by_profile(
    profile: str, synced: str, expected: set[str]
) -> None:
    found = set()
    for seed in range(200):
        rig = Rig(seed=str(seed))
        for name in "abc":
            rig.files.write(f"/{name}", b"")
            if name == "b" and synced:
                rig.files.sync(synced)
        found.add("".join(rig.cut(profile).files).replace("/", ""))
    assert found == expected


def test_ext4_writes_data_before_its_size() -> None:
    found: dict[str, set[bytes | None]] = {profile: set() for profile in CUTS}
    for profile in CUTS:
        for seed in range(80):
            rig = Rig(seed=str(seed))
            rig.files.write("/a", b"data")
            file = rig.cut(profile).files.get("/a")
            found[profile].add(None if file is None else file.content)
    assert found == {"ext4-ordered": {None, b"", b"data"}, "strict-posix": {None, b"", b"data", bytes(4)}}


def test_a_new_segment_can_be_missing_empty_or_full_of_zeros() -> None:
    for profile in CUTS:
        found = set()
        for seed in range(60):
            rig = Rig(seed=str(seed))
            rig.files.map("/segment", PAGE).store(0, b"record")
            file = rig.cut(profile).files.get("/segment")
            found.add(None if file is None else file.content.rstrip(b"\0") if file.content else "length 0")
        assert found == {None, "length 0", b"", b"record"}


def test_each_page_can_be_the_only_lost_or_the_only_surviving_page() -> None:
    page_outcomes = set()
    image = Image({"/log": FileImage(bytes(6 * PAGE), 0)}, ())
    for seed in range(400):
        rig = Rig(seed=str(seed), image=image)
        mapped = rig.files.map("/log", 6 * PAGE)
        for page in range(6):
            mapped.store(page * PAGE, b"x")
        content = rig.cut("ext4-ordered").files["/log"].content
        page_outcomes.add("".join("x" if content[page * PAGE] else "-" for page in range(6)))
    alone = {"-" * page + "x" + "-" * (5 - page) for page in range(6)}
    missing = {"x" * page + "-" + "x" * (5 - page) for page in range(6)}
    assert page_outcomes >= alone | missing | {"------", "xxxxxx"}


REPEAT = """
from tests.faults.conftest import Rig
from tests.faults.crashes.test_crash import DURABLE, make_unsynced_changes
for seed in range(12):
    rig = Rig(seed=str(seed), image=DURABLE)
    make_unsynced_changes(rig)
    print(rig.cut("strict-posix").digest(), rig.kernel.digest())
"""


def test_crash_images_do_not_depend_on_the_hash_seed() -> None:
    root = Path(__file__).parents[3]
    outputs = {
        subprocess.run(
            [sys.executable, "-c", REPEAT],
            cwd=root,
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for hash_seed in ("1", "2")
    }
    assert len(outputs) == 1
    assert len(outputs.pop().splitlines()) == 12


def test_each_recorded_draw_names_its_page_or_change() -> None:
    labels = set()
    for seed in range(40):
        rig = Rig(seed=str(seed), image=DURABLE)
        make_unsynced_changes(rig)
        rig.cut("strict-posix")
        labels |= {decision.label for decision in rig.choices.decisions() if decision.stream == "disk"}
    assert labels >= {
        "page /d/log#0 writes lost",
        "page /d/log#1 writes lost",
        "page /d/log#1 torn sectors",
        "page /d/log#1 writes lost in torn sectors",
        "create /d/tmp lost",
        "rename /d/tmp lost",
        "unlink /gone lost",
    }


def test_a_disk_without_unsynced_changes_makes_no_draws() -> None:
    rig = Rig(image=DURABLE)
    rig.files.read("/old")
    rig.files.map("/old", 2 * PAGE)
    image = rig.cut("strict-posix")

    assert rig.choices.stream("disk").draw_count == 0
    assert all(image.files[path] is DURABLE.files[path] for path in DURABLE.files)


@pytest.mark.parametrize("profile", [*SURVIVES, *CUTS])
def test_crash_images_share_unchanged_content(profile: str) -> None:
    rig = Rig(image=DURABLE)
    rig.files.map("/untouched", 100)
    rig.files.map("/old", 2 * PAGE).store(0, b"changed")
    image = rig.cut(profile)

    assert image.files["/untouched"] is DURABLE.files["/untouched"]
    assert image.files["/gone"].content is DURABLE.files["/gone"].content


def test_a_page_without_surviving_writes_shares_its_content() -> None:
    shared = 0
    for seed in range(20):
        rig = Rig(seed=str(seed), image=DURABLE)
        rig.files.map("/old", 2 * PAGE).store(0, b"changed")
        content = rig.cut("ext4-ordered").files["/old"].content
        if content == DURABLE.files["/old"].content:
            assert content is DURABLE.files["/old"].content
            shared += 1
    assert shared > 0


SIZE = 3 * PAGE
STORE = st.tuples(st.just("store"), st.integers(0, SIZE - 1), st.integers(1, 3 * SECTOR), st.integers(1, 255))
MSYNC = st.tuples(st.just("msync"), st.integers(0, SIZE - 1), st.integers(1, SIZE), st.just(0))


@settings(max_examples=150)
@given(st.lists(st.one_of(STORE, STORE, MSYNC), max_size=14), st.integers(0, 10**6), st.sampled_from(CUTS))
def test_a_page_has_one_version_for_each_write_since_its_last_sync(
    steps: list[tuple[str, int, int, int]], seed: int, profile: str
) -> None:
    rig = Rig(seed=str(seed), image=Image({"/log": FileImage(bytes(SIZE), 0)}, ()))
    mapped = rig.files.map("/log", SIZE)
    state = bytes(SIZE)
    moments = [[state[page * PAGE :][:PAGE]] for page in range(SIZE // PAGE)]
    for kind, start, length, value in steps:
        end = min(start + length, SIZE)
        if kind == "store":
            mapped.store(start, bytes([value]) * (end - start))
            state = state[:start] + bytes([value]) * (end - start) + state[end:]
            for page, states in enumerate(moments):
                states.append(state[page * PAGE :][:PAGE])
        else:
            mapped.msync(start, end)
            for page in range(start // PAGE, (end - 1) // PAGE + 1):
                del moments[page][:-1]
    content = rig.cut(profile).files["/log"].content

    assert len(content) == SIZE
    for page, states in enumerate(moments):
        found = content[page * PAGE :][:PAGE]
        assert found in states or is_torn_between_two(found, states)


def is_torn_between_two(found: bytes, states: list[bytes]) -> bool:
    sectors = range(0, PAGE, SECTOR)
    return any(
        all(found[at : at + SECTOR] in (one[at : at + SECTOR], two[at : at + SECTOR]) for at in sectors)
        for one in states
        for two in states
    )
