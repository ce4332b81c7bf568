from pathlib import Path

import pytest

from tests.bench.zero_copy import SIZES, OpenFile, drained_connection


@pytest.mark.parametrize("size", SIZES)
def test_every_way_moves_the_bytes_of_the_file(tmp_path: Path, size: int) -> None:
    with drained_connection() as sending:
        file = OpenFile(tmp_path / "log", sending)
        for ways in file.ways().values():
            for way in ways.values():
                way(size, size)
        file.close()


def test_stores_and_writes_reach_the_file(tmp_path: Path) -> None:
    with drained_connection() as sending:
        file = OpenFile(tmp_path / "log", sending)
        writes = file.ways()["write"]
        file.record[:3] = b"abc"
        for at, name in ((0, "store to a map"), (8192, "pwrite")):
            writes[name](at, 1024)
        file.close()
    written = (tmp_path / "log").read_bytes()

    assert (written[:3], written[8192:8195]) == (b"abc", b"abc")
