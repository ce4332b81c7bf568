"""Draws of a power cut and their record: tears inside sectors and garbage."""

from collections import Counter
from typing import Any

import pytest

from tests.faults.rigs import Rig
from tornlog.faults.disk.image import FileImage, Image
from tornlog.faults.plan import FaultPlan
from tornlog.sim.choices import Choices

PAGE, SECTOR = 4096, 512
LOG = Image({"/log": FileImage(bytes(2 * PAGE), 0)}, ())
HARMFUL = FaultPlan(torn_bytes_chance=0.5, garbage_chance=0.3)


def write_pages(rig: Any) -> None:
    mapped = rig.files.map("/log", 2 * PAGE)
    mapped.store(100, b"a" * 1500)
    mapped.store(5000, b"b" * 700)
    mapped.store(1000, b"c" * 1500)


def crash_after_writes(seed: int, faults: FaultPlan, profile: str = "strict-posix", **options: Any) -> Any:
    rig = Rig(seed=str(seed), image=LOG, faults=faults, **options)
    write_pages(rig)
    return rig, rig.cut(profile)


def test_a_replayed_record_gives_the_same_image_and_an_empty_record_loses_no_data() -> None:
    whole = Rig(image=LOG)
    write_pages(whole)
    everything = whole.cut("process-kill").digest()
    injected: Counter[str] = Counter()
    for seed in range(60):
        rig, image = crash_after_writes(seed, HARMFUL)
        decisions = [one for one in rig.choices.decisions() if one.stream == "disk"]
        replayed, again = crash_after_writes(0, HARMFUL, choices=Choices.for_replay(decisions))
        _, plain = crash_after_writes(0, HARMFUL, choices=Choices.for_replay([]))

        assert again.digest() == image.digest()
        assert [one for one in replayed.choices.decisions() if one.stream == "disk"] == decisions
        assert plain.digest() == everything
        injected += rig.injected
    assert injected["torn sector"] > 5
    assert injected["garbage sector"] > 5


def test_each_loss_of_a_power_cut_can_be_undone_separately() -> None:
    kinds = set()
    for seed in range(30):
        rig, _ = crash_after_writes(seed, HARMFUL)
        decisions = [one for one in rig.choices.decisions() if one.stream == "disk"]
        for left_out in decisions:
            rest = [one for one in decisions if one is not left_out]
            replayed, _ = crash_after_writes(0, HARMFUL, choices=Choices.for_replay(rest))
            found = [one for one in replayed.choices.decisions() if one.stream == "disk"]
            assert set(found) <= set(rest)
            kinds.add(left_out.label.partition(" ")[2].partition(" ")[2])
    assert {"torn sectors", "torn at byte", "garbage sectors", "garbage"} <= kinds


def test_garbage_is_only_in_sectors_in_flight() -> None:
    untouched = [sector for sector in range(16) if sector not in (0, 1, 2, 3, 4, 9, 10, 11)]
    for seed in range(60):
        rig, image = crash_after_writes(seed, FaultPlan(garbage_chance=1.0))
        content = image.files["/log"].content
        for sector in untouched:
            assert content[sector * SECTOR : (sector + 1) * SECTOR] == bytes(SECTOR)
        foreign = sum(
            any(byte not in b"\0abc" for byte in content[at : at + SECTOR]) for at in range(0, 2 * PAGE, SECTOR)
        )
        assert foreign <= rig.injected["garbage sector"]
        told = {(one.path, one.start // SECTOR) for one in rig.disk.damage if one.kind == "garbage sector"}
        assert len(told) >= rig.injected["garbage sector"]
        assert told <= {("/log", sector) for sector in (0, 1, 2, 3, 4, 9, 10, 11)}


def test_a_torn_sector_also_counts_as_a_torn_page() -> None:
    found: Counter[str] = Counter()
    for seed in range(100):
        rig, _ = crash_after_writes(seed, FaultPlan(torn_bytes_chance=1.0))
        found += rig.injected
        assert rig.injected["torn sector"] <= rig.injected["torn page"]
    assert found["torn sector"] > 10
    assert found["garbage sector"] == 0


@pytest.mark.parametrize("profile", ["btrfs", "ext4-data", "os-crash"])
def test_a_profile_without_torn_pages_draws_no_tear(profile: str) -> None:
    for seed in range(40):
        rig, _ = crash_after_writes(seed, HARMFUL, profile)
        assert not {"torn page", "torn sector", "garbage sector"} & set(rig.injected)
        assert all(one.label.endswith(" lost") for one in rig.choices.decisions() if one.stream == "disk")


def test_pages_of_one_write_survive_independently() -> None:
    found = set()
    for seed in range(100):
        rig = Rig(seed=str(seed), image=LOG)
        rig.files.map("/log", 2 * PAGE).store(0, b"x" * 2 * PAGE)
        content = rig.cut("btrfs").files["/log"].content
        found.add((content[:PAGE].strip(b"\0") != b"", content[PAGE:].strip(b"\0") != b""))
    assert found == {(False, False), (False, True), (True, False), (True, True)}
