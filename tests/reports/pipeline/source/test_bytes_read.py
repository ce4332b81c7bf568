from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tornlog.reports.pipeline.source.columns import conditions_of
from tornlog.reports.pipeline.source.directory import StoreDirectory, StoreFile
from tornlog.reports.pipeline.source.messages import Messages
from tornlog.reports.pipeline.source.source_options import SourceOptions
from tornlog.store.config import StoreConfig
from tornlog.store.formats.messages import Message
from tornlog.store.message_store import MessageStore
from tornlog.store.real.world import real_world

MESSAGES, SEGMENT_BYTES = 12_000, 2 << 20


class CopyingDirectory(StoreDirectory):
    """A local store directory that counts the bytes which it copies or maps."""

    read_bytes = 0

    def _read_file(self, file: StoreFile, start: int, end: int) -> memoryview:
        self.read_bytes += end - start
        return super()._read_file(file, start, end)


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with more records in a segment than a scan returns at once."""
    root = tmp_path_factory.mktemp("many") / "store"
    store = MessageStore(real_world(), StoreConfig(str(root), mapped_file_size_commit_log=SEGMENT_BYTES))
    store.load()
    store.start()
    for number in range(MESSAGES):
        store.put_message(Message.create(f"T{number % 2}", b"x" * 100, queue_id=0, keys=f"k{number}"))
    store.shutdown()
    return root


def rows_in(directory: StoreDirectory, where: str = "", **options: str) -> int:
    table = Messages(SourceOptions.from_spark({"path": directory.root, "columns": "topic", **options}))
    conditions = conditions_of(where, table.condition_columns)
    parts = table.partitions(directory, conditions)
    return sum(len(batch) for part in parts for batch in table.batches(directory, part, conditions))


def test_a_full_read_of_a_remote_log_requests_hardly_more_bytes_than_the_log_has(
    many: Path, counting_directory: Callable[[str], Any]
) -> None:
    directory = counting_directory(str(many))
    assert rows_in(directory) == MESSAGES
    log_bytes = sum(segment.size_bytes for segment in directory.segments())
    assert len(directory.segments()) == 2
    assert directory.read_bytes <= 1.05 * log_bytes


@pytest.mark.parametrize(
    ("query", "bytes_max"),
    [
        ({"where": "topic = 'T1' and queue_id = 0 and queue_offset = 2500"}, 24 << 10),
        ({"where": "topic = 'T0'", "key": "k5000"}, 2 << 20),  # of which 1 MiB is zeros after the log
        ({"where": "physical_offset >= 1000000 and physical_offset < 1000200"}, 256 << 10),
    ],
)
def test_a_query_for_one_message_maps_no_local_file(many: Path, query: dict[str, str], bytes_max: int) -> None:
    directory = CopyingDirectory(str(many))
    assert rows_in(directory, **query) == 1
    assert directory.read_bytes <= bytes_max


def test_records_far_apart_are_copied_and_near_ones_are_mapped(many: Path) -> None:
    directory = CopyingDirectory(str(many))
    segment = directory.segments()[0]
    for gap_bytes, read_bytes in ((500_000, 0), (120_000, segment.size_bytes)):
        begins = list(range(5000, 2_000_000, gap_bytes))
        directory.read_bytes = 0
        view, origin = directory.read_ranges(segment, begins, [begin + 50_000 for begin in begins])
        with Path(segment.path).open("rb") as file:
            for begin in begins:
                file.seek(begin)
                assert view[begin - origin : begin - origin + 50_000] == file.read(50_000)
        assert directory.read_bytes == read_bytes
