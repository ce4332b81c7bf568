"""The first damaged log offset is computed from damaged files."""

import pytest

from tornlog.faults.disk.image import DamagedRange
from tornlog.scenarios.claims.machine import ROOT
from tornlog.scenarios.oracle.known_damage import damaged_log_offset
from tornlog.store.config import StoreConfig

CONFIG = StoreConfig(ROOT)


def damaged_sector(base_offset: int, start: int) -> DamagedRange:
    return DamagedRange(f"{ROOT}/commitlog/{base_offset:020d}", start, start + 512, "lost write")


@pytest.mark.parametrize(
    ("damage", "expected"),
    [
        ([damaged_sector(0, 0)], 0),
        ([damaged_sector(0, 1024)], 1024),
        ([damaged_sector(8192, 512)], 8704),
        ([damaged_sector(8192, 0), damaged_sector(4096, 1536), damaged_sector(4096, 3072)], 5632),
    ],
)
def test_the_first_damaged_offset_is_relative_to_the_start_of_the_log(
    damage: list[DamagedRange], expected: int
) -> None:
    assert damaged_log_offset(CONFIG, iter(damage)) == expected


def test_damage_of_other_files_does_not_count_as_damage_of_the_log() -> None:
    beside = [
        DamagedRange(f"{ROOT}/consumequeue/T0/0/{0:020d}", 0, 512, "lost write"),
        DamagedRange(f"{ROOT}/commitlog-old/{0:020d}", 0, 512, "lost write"),
        DamagedRange(f"{ROOT}/checkpoint", 0, 512, "zeroed sector"),
    ]

    assert damaged_log_offset(CONFIG, []) is None
    assert damaged_log_offset(CONFIG, beside) is None
    assert damaged_log_offset(CONFIG, [*beside, damaged_sector(4096, 8)]) == 4104


def test_damage_is_found_in_the_configured_log_directory() -> None:
    elsewhere = StoreConfig(ROOT, store_path_commit_log="/fast/log")

    assert damaged_log_offset(elsewhere, [DamagedRange("/fast/log/00000000000000002048", 5, 6, "bit rot")]) == 2053
    assert damaged_log_offset(elsewhere, [damaged_sector(0, 0)]) is None
