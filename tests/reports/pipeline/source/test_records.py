import gc
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from tornlog.reports.pipeline.source import records, rocketmq
from tornlog.reports.pipeline.source.directory import StoreDirectory
from tornlog.reports.pipeline.source.log_ranges import log_ranges
from tornlog.reports.pipeline.source.records import RangeReader
from tornlog.reports.pipeline.source.segment_slice import SegmentSlice
from tornlog.scenarios.claims.simulated_core import SimulatedCore


@pytest.fixture
def core(monkeypatch: pytest.MonkeyPatch) -> None:
    """Scan as with the C core, also on a machine without a compiler."""
    monkeypatch.setattr(records, "load_core", SimulatedCore)


def first_slice(root: Path) -> SegmentSlice:
    directory = StoreDirectory(str(root))
    piece = next(RangeReader(directory, log_ranges(directory, 0)[0]).pieces())
    assert isinstance(piece, SegmentSlice)
    return piece


def topics_in_bytes(piece: SegmentSlice) -> list[str]:
    return [record.topic for record in piece.records]


@pytest.mark.parametrize("names_max", [0, 1 << 10])
def test_topics_of_a_scan_equal_those_in_the_bytes(
    template: Path, core: None, monkeypatch: pytest.MonkeyPatch, names_max: int
) -> None:
    monkeypatch.setattr(records, "_NAMES_MAX", names_max)
    piece = first_slice(template)
    assert (piece.scanned_topics is not None) is (names_max > 0)
    assert len(set(topics_in_bytes(piece))) > 1
    assert piece.topics.to_pylist() == topics_in_bytes(piece)


def test_chosen_records_keep_their_topics(template: Path, core: None) -> None:
    piece = first_slice(template)
    assert piece.scanned_topics is not None
    for chosen in (np.arange(len(piece)) % 3 == 1, np.array([4, 2]), slice(1, 5)):
        some = piece.where(chosen)
        assert some.topics.to_pylist() == np.array(topics_in_bytes(piece))[chosen].tolist()


def test_topics_of_forgotten_queues_are_not_mixed_up(
    template: Path, core: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    scanner = records.RecordScanner("log")
    view = memoryview((template / "commitlog" / f"{0:020}").read_bytes())
    scan = scanner.scan(view, 0, len(view), 0)
    monkeypatch.setattr(records, "_QUEUES_MAX", 1)
    later = scanner.scan(view, int(scan.starts[1]), len(view), 0)  # the second record is of another topic
    assert scan.topics is not None
    assert later.topics is not None
    first, second = (
        pa.DictionaryArray.from_arrays(pa.array(one.codes), one.names).to_pylist()
        for one in (scan.topics, later.topics)
    )
    assert first[0] != first[1]
    assert second == first[1:]


def test_the_first_read_of_a_process_excludes_its_modules_from_garbage_collections(
    template: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rocketmq._freeze_modules.cache_clear()
    source = rocketmq.RocketMQSource({"path": str(template)})
    reader = source.reader(source.schema())
    before = gc.get_freeze_count()
    try:
        for part in reader.partitions():
            assert list(reader.read(part))
        assert gc.get_freeze_count() > before + 1000
    finally:
        gc.unfreeze()
