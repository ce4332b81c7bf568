"""Defects that are planted in a store, one of each kind in each of its parts, and stores without any."""

import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tornlog.reports.pipeline.audit.audit import audit

pytestmark = pytest.mark.slow

GOLDEN = Path(__file__).parents[3] / "golden"
CLEAN = (
    "01-simple",
    "02-multi-rollover",
    "03-props",
    "04-batch",
    "05-delay",
    "06-transaction",
    "07-ipv6",
    "08-clean-shutdown",
    "12-index-roll",
    "13-head-deleted",
)
"""Stores that the real RocketMQ wrote and stopped."""
QUEUE = f"consumequeue/T/0/{0:020}"
INDEX_ENTRIES_AT = 40 + 4 * 50


class Log:
    """The first segment of a log, to plant defects in."""

    def __init__(self, root: Path) -> None:
        self.path = root / "commitlog" / f"{0:020}"
        self.raw = bytearray(self.path.read_bytes())
        self.starts = [0]
        while size := int.from_bytes(self.raw[self.starts[-1] : self.starts[-1] + 4], "big"):
            if self.starts[-1] + size > len(self.raw) - 400:
                break
            self.starts.append(self.starts[-1] + size)

    def record(self, number: int) -> bytes:
        start = self.starts[number]
        return bytes(self.raw[start : self.starts[number + 1]])

    def put(self, number: int, record: bytes) -> None:
        """Lay a record where another of its length is, saying that it is there."""
        start = self.starts[number]
        assert self.starts[number + 1] - start == len(record)
        moved = record[:28] + start.to_bytes(8, "big") + record[36:]
        self.raw[start : start + len(moved)] = moved

    def write(self) -> None:
        self.path.write_bytes(self.raw)


def entries_of(path: Path, at: int = 0) -> list[bytes]:
    raw = path.read_bytes()[at:]
    return [raw[start : start + 20] for start in range(0, len(raw), 20)]


def rewritten(path: Path, entries: list[bytes], at: int = 0) -> None:
    path.write_bytes(path.read_bytes()[:at] + b"".join(entries))


def test_a_sound_store_has_nothing_to_be_found(
    spark: SparkSession, store_at: Path, found_in: Callable[..., Any]
) -> None:
    assert found_in(store_at) == []
    found = audit(spark, str(store_at))
    assert (found.records, found.entries, found.index_entries) == (140, 140, 140)


@pytest.mark.parametrize("name", CLEAN)
def test_what_rocketmq_stopped_cleanly_has_nothing_to_be_found(
    tmp_path: Path, found_in: Callable[..., Any], name: str
) -> None:
    with tarfile.open(GOLDEN / name / "store.tar.gz") as archive:
        archive.extractall(tmp_path, filter="data")
    root = tmp_path / "before"
    assert not (root / "abort").exists()
    assert found_in(root) == []


def test_defects_of_the_log_are_found(store_at: Path, found_in: Callable[..., Any]) -> None:
    log = Log(store_at)
    log.raw[log.starts[2] + 100] ^= 1  # flip a bit of a body
    log.raw[log.starts[5] : log.starts[6]] = bytes(log.starts[6] - log.starts[5])  # drop
    log.put(14, log.record(12))  # duplicate, over another of the same queue
    twentieth, twentysecond = log.record(20), log.record(22)
    log.put(20, twentysecond)  # swap
    log.put(22, twentieth)
    log.write()
    found = found_in(store_at)
    segment = f"commitlog/{0:020}"
    starts = log.starts
    assert ("LOG", segment, starts[2], "bodyCRC", False) in found
    assert ("LOG", segment, starts[5] + 4, "magicCode", False) in found
    assert ("CQ-VALID", f"consumequeue/T/1/{0:020}", 2 * 20, "phyOffset", False) in found, "of the dropped one"
    assert ("QOFF", segment, starts[14], "queueOffset", False) in found
    assert ("QOFF", segment, starts[20], "queueOffset", False) in found
    assert {one[0] for one in found} == {"LOG", "QOFF", "CQ-VALID", "IDX"}
    assert ("CQ-VALID", QUEUE, 10 * 20, "phyOffset", False) in found, "of the swapped ones"


def test_a_segment_that_is_missing_is_found(store_at: Path, found_in: Callable[..., Any]) -> None:
    (store_at / "commitlog" / f"{16 << 10:020}").unlink()
    found = found_in(store_at)
    assert ("LOG", f"commitlog/{32 << 10:020}", 0, "name of the segment", False) in found


def test_defects_of_a_queue_are_found(store_at: Path, found_in: Callable[..., Any]) -> None:
    path = store_at / QUEUE
    entries = entries_of(path)
    entries[1] = entries[1][:11] + bytes([entries[1][11] ^ 1]) + entries[1][12:]  # flip a bit of the size
    entries[3] = entries[3][:19] + bytes([entries[3][19] ^ 1])  # and one of the tag
    entries[5] = bytes(20)  # drop
    entries[8] = entries[7]  # duplicate
    entries[10], entries[11] = entries[11], entries[10]  # swap
    entries[13] = (7).to_bytes(8, "big") + entries[13][8:]  # dangle
    rewritten(path, entries)
    missing = store_at / f"consumequeue/T/1/{600:020}"
    dropped = len([one for one in entries_of(missing) if any(one)])
    missing.unlink()
    found = found_in(store_at)
    log = [one for one in found if one[0] == "CQ-COMPLETE" and one[1].startswith("commitlog/")]
    assert len(log) == dropped + 3, "and those that are zeros, overwritten, led astray"
    assert [one for one in found if one not in log] == [
        ("CQ-VALID", QUEUE, 1 * 20 + 8, "size", False),
        ("CQ-VALID", QUEUE, 3 * 20 + 12, "tagsCode", False),
        ("CQ-VALID", QUEUE, 5 * 20, "entry", False),
        ("CQ-VALID", QUEUE, 8 * 20, "phyOffset", False),
        ("CQ-VALID", QUEUE, 10 * 20, "phyOffset", False),
        ("CQ-VALID", QUEUE, 11 * 20, "phyOffset", False),
        ("CQ-VALID", QUEUE, 13 * 20, "phyOffset", False),
        ("CQ-VALID", f"consumequeue/T/1/{1200:020}", 0, "name of the segment", False),
    ]


def test_an_entry_that_leads_to_an_extension_file_has_no_tag_where_there_is_one(
    store_at: Path, found_in: Callable[..., Any]
) -> None:
    path = store_at / QUEUE
    entries = entries_of(path)
    entries[2] = entries[2][:12] + (1 << 63).to_bytes(8, "big")
    rewritten(path, entries)
    assert found_in(store_at) == [("CQ-VALID", QUEUE, 2 * 20 + 12, "tagsCode", False)]
    (store_at / "consumequeue_ext" / "T" / "0").mkdir(parents=True)
    assert found_in(store_at) == []


def test_an_entry_behind_all_records_leads_nowhere(store_at: Path, found_in: Callable[..., Any]) -> None:
    path = sorted((store_at / "consumequeue/T/0").iterdir())[-1]
    entries = entries_of(path)
    end = next(number for number, one in enumerate(entries) if not any(one))
    entries[end] = entries[end - 1]
    rewritten(path, entries)
    name = str(path.relative_to(store_at))
    assert found_in(store_at) == [("CQ-VALID", name, end * 20, "phyOffset", False)]


def test_defects_of_the_index_are_found(store_at: Path, found_in: Callable[..., Any]) -> None:
    first, second, *_ = sorted((store_at / "index").iterdir())
    entries = entries_of(first, INDEX_ENTRIES_AT)
    entries[2] = bytes([entries[2][0] ^ 1]) + entries[2][1:]  # flip a bit of the hash
    entries[5] = bytes(20)  # drop
    entries[8] = entries[7]  # duplicate
    entries[10], entries[11] = entries[11], entries[10]  # swap
    entries[13] = entries[13][:4] + (7).to_bytes(8, "big") + entries[13][12:]  # dangle
    entries[16] = entries[16][:12] + (99).to_bytes(4, "big") + entries[16][16:]  # another time
    rewritten(first, entries, INDEX_ENTRIES_AT)
    raw = bytearray(second.read_bytes())
    slot = next(at for at in range(40, INDEX_ENTRIES_AT, 4) if raw[at + 3])
    raw[slot + 3] ^= 1
    raw[24 + 7] ^= 1  # endPhyOffset
    second.write_bytes(raw)
    found = found_in(store_at)
    assert {one[0] for one in found} == {"IDX"}
    name, other = (str(path.relative_to(store_at)) for path in (first, second))
    missing = [one for one in found if one[3] == "keys of the record"]
    assert len(missing) == 4, "flipped, dropped, overwritten by its neighbour, led astray"
    at = [INDEX_ENTRIES_AT + 20 * number for number in range(20)]
    for number in (2, 5, 13):
        assert ("IDX", name, at[number], "entries for a key", False) in found
    assert any(one[1] == name and one[2] in (at[7], at[8]) and one[3] == "entries for a key" for one in found)
    assert ("IDX", name, at[11], "phyOffset", False) in found
    assert ("IDX", name, at[16] + 12, "timeDiff", False) in found
    assert ("IDX", other, slot, "slot", False) in found
    assert ("IDX", other, 24, "endPhyOffset", False) in found


def test_what_an_unclean_exit_may_take_is_explained(store_at: Path, found_in: Callable[..., Any]) -> None:
    (store_at / "abort").touch()
    (store_at / "checkpoint").unlink()
    log = Log(store_at)
    for path in (store_at / "consumequeue/T/1").iterdir():
        path.unlink()
    sorted((store_at / "index").iterdir())[-1].unlink()
    found = found_in(store_at)
    assert {one[0] for one in found} == {"CQ-COMPLETE", "IDX", "CKPT"}
    assert all(one[-1] for one in found)
    log.raw[log.starts[2] + 100] ^= 1
    log.write()
    assert [one for one in found_in(store_at) if not one[-1]] == [
        ("LOG", f"commitlog/{0:020}", log.starts[2], "bodyCRC", False)
    ]


def test_a_place_without_a_store_is_said_to_be_none(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no store"):
        audit(spark, str(tmp_path))
