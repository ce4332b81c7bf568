from typing import NamedTuple

import pytest

from tornlog.store.log.segment_queue import used_ratio


class Space(NamedTuple):
    used_bytes: int
    usable_bytes: int


@pytest.mark.parametrize(
    ("used_bytes", "usable_bytes", "ratio"),
    [(0, 100, 0.0), (1, 10_000, 0.01), (850, 150, 0.85), (8501, 1499, 0.86), (7, 0, 1.0), (0, 0, 1.0)],
)
def test_the_disk_usage_is_rounded_up_to_whole_percents(used_bytes: int, usable_bytes: int, ratio: float) -> None:
    assert used_ratio(Space(used_bytes, usable_bytes)) == ratio
