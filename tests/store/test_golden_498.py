import csv
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from tornlog.store.config import StoreConfig
from tornlog.store.formats.delay_level import SCHEDULE_TOPIC
from tornlog.store.formats.host import decode_message_id, encode_message_id
from tornlog.store.message_store import MessageStore
from tornlog.store.real.world import overlay_world
from tornlog.store.tools.geometry import Geometry
from tornlog.store.tools.verify import verify_directory

GOLDEN = Path(__file__).parents[1] / "golden" / "4.9.8"
TREES = {"clean": "gclean", "killed": "gkill"}


@pytest.fixture(params=sorted(TREES))
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def root(name: str, tmp_path: Path) -> Path:
    with tarfile.open(GOLDEN / f"{name}.tar.gz") as tar:
        tar.extractall(tmp_path, filter="data")
    return tmp_path / TREES[name]


@pytest.fixture
def rows(name: str) -> list[list[str]]:
    with open(GOLDEN / f"{name}.tsv", encoding="utf-8", newline="") as table:
        return list(csv.reader(table, delimiter="\t"))


@pytest.fixture
def store(root: Path, loaded: Callable[..., MessageStore]) -> MessageStore:
    return loaded(
        StoreConfig(
            str(root),
            mapped_file_size_commit_log=65536,
            mapped_file_size_consume_queue=1000,
            max_hash_slot_num=100,
            max_index_num=400,
        )
    )


def test_log_and_queues_end_at_rocketmqs_offsets(store: MessageStore, rows: list[list[str]]) -> None:
    ends = {row[0]: row[1:] for row in rows if row[0] == "max"}
    queues = [(topic, int(queue), int(low), int(high)) for kind, topic, queue, low, high in _cq(rows)]
    assert [str(store.max_phy_offset)] == ends["max"]
    assert len(queues) == 6
    for topic, queue_id, low, high in queues:
        assert store.get_min_offset_in_queue(topic, queue_id) == low
        assert store.get_max_offset_in_queue(topic, queue_id) == high


def _cq(rows: list[list[str]]) -> list[list[str]]:
    return [row for row in rows if row[0] == "cq"]


def test_every_message_is_at_the_offset_in_its_id(store: MessageStore, rows: list[list[str]]) -> None:
    looked_up = 0
    for kind, note, topic, queue_id, status, wrote, size, queue_offset, ids in (
        row for row in rows if row[0] in ("put", "batch")
    ):
        assert status == "PUT_OK"
        at, total = int(wrote), 0
        for number, message_id in enumerate(ids.split(",")):
            _, physical_offset = decode_message_id(message_id)
            record = store.look_message_by_offset(physical_offset)
            assert record is not None
            assert encode_message_id(record.store_host, record.physical_offset) == message_id
            assert physical_offset == at + total
            assert record.queue_offset == int(queue_offset) + number
            expected = (SCHEDULE_TOPIC, 4) if note == "delay5" else (topic, int(queue_id))
            assert (record.topic, record.queue_id) == expected
            total += record.size_bytes
            looked_up += 1
        assert total == int(size)
        assert (kind == "batch") == ("," in ids)
    assert looked_up == 76


def test_a_key_query_finds_as_many_messages_as_rocketmq_found(store: MessageStore, rows: list[list[str]]) -> None:
    queries = [row[1:] for row in rows if row[0] == "query"]
    assert len(queries) == 5
    for topic, key, hits in queries:
        found = store.query_message(topic, key, 32, 0, 1 << 62)
        assert len(found.records) == int(hits), (topic, key)


def test_verify_finds_no_violation_in_a_rocketmq_4_9_8_store(root: Path, name: str) -> None:
    found = verify_directory(overlay_world().files, str(root), Geometry(), lambda read_bytes: None)
    assert found.findings.violations == []
    assert found.findings.unclean_exit == (name == "killed")
    assert found.counts["records"] == 76


def test_every_kind_of_observed_row_is_checked(rows: list[list[str]]) -> None:
    assert {row[0] for row in rows} == {"put", "batch", "max", "cq", "query"}
