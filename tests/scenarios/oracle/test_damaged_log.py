"""The first damaged log offset is computed from damaged files."""

import pytest

from tornlog.faults.disk.image import DamagedRange
from tornlog.scenarios.claims.machine import ROOT
from tornlog.scenarios.oracle.known_damage import damaged_log_offset
from tornlog.store.config import StoreConfig

CONFIG = StoreConfig(ROOT)


def in_segment(base_offset: int, start: int) -> DamagedRange:
    return DamagedRange(f"{ROOT}/commitlog/{base_offset:020d}", start, start + 512, "lost write")


@pytest.mark.parametrize(
    ("damage", "expected"),
    [
        ([in_segment(0, 0)], 0),
        ([in_segment(0, 1024)], 1024),
        ([in_segment(8192, 512)], 8704),
        ([in_segment(8192, 0), in_segment(4096, 1536), in_segment(4096, 3072)], 5632),
    ],
)
def test_the_first_damaged_byte_of_the_log_counts_from_where_the_log_begins(
    damage: list[DamagedRange], expected: int
) -> None:
    assert damaged_log_offset(CONFIG, iter(damage)) == expected


def test_damage_of_other_files_is_not_damage_of_the_log() -> None:
    beside = [
        DamagedRange(f"{ROOT}/consumequeue/T0/0/{0:020d}", 0, 512, "lost write"),
        DamagedRange(f"{ROOT}/commitlog-old/{0:020d}", 0, 512, "lost write"),
        DamagedRange(f"{ROOT}/checkpoint", 0, 512, "zeroed sector"),
    ]

    assert damaged_log_offset(CONFIG, []) is None
    assert damaged_log_offset(CONFIG, beside) is None
    assert damaged_log_offset(CONFIG, [*beside, in_segment(4096, 8)]) == 4104


def test_damage_is_found_in_the_configured_log_directory() -> None:
    elsewhere = StoreConfig(ROOT, store_path_commit_log="/fast/log")

    assert damaged_log_offset(elsewhere, [DamagedRange("/fast/log/00000000000000002048", 5, 6, "bit rot")]) == 2053
    assert damaged_log_offset(elsewhere, [in_segment(0, 0)]) is None
