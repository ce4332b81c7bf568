from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.store.rigs import verified
from tornlog.store.config import StoreConfig
from tornlog.store.formats.consume_queue import END_MARK, ext_address_of
from tornlog.store.formats.messages import Message
from tornlog.store.message_store import MessageStore
from tornlog.store.real.world import overlay_world
from tornlog.store.tools.geometry import Geometry
from tornlog.store.tools.inspect import inspect_directory

Make = Callable[..., Any]

EXT = "consumequeue_ext/T/0/00000000000000000"
QUEUE = "consumequeue/T/0/00000000000000000"
COUNT = 15
"""Nine units of 20 bytes in the first file, six in the second."""


def violations_in(root: Path) -> list[tuple[str, int, str]]:
    return [(each.file, each.offset, each.field) for each in verified(root).findings.violations]


def patch(path: Path, at: int, data: bytes) -> None:
    raw = path.read_bytes()
    path.write_bytes(raw[:at] + data + raw[at + len(data) :])


@pytest.fixture
def root(tmp_path: Path, started: Make) -> Path:
    config = StoreConfig(
        str(tmp_path),
        mapped_file_size_commit_log=4096,
        mapped_file_size_consume_queue=200,
        mapped_file_size_consume_queue_ext=200,
        max_hash_slot_num=10,
        max_index_num=100,
        enable_consume_queue_ext=True,
        enable_lmq=True,
        enable_multi_dispatch=True,
    )
    store: MessageStore = started(config)
    for number in range(COUNT):
        names = {"INNER_MULTI_DISPATCH": "%LMQ%a"} if number % 5 == 0 else {}
        store.put_message(Message.create("T", b"body", tags="A", properties=names))
    assert store.shutdown()
    return tmp_path


def test_an_undamaged_store_with_extension_files_has_no_findings(root: Path) -> None:
    found = verified(root)
    assert found.findings.violations == []
    assert found.config is not None
    assert found.config.mapped_file_size_consume_queue_ext == 200
    counts = found.fields()["counts"]
    assert (counts["extFiles"], counts["extUnits"], counts["queues"]) == (2, 15, 2)
    assert counts["entries"] == COUNT + 3


def test_inspect_recovers_queue_and_extension_and_counts_extension_files(root: Path) -> None:
    found = inspect_directory(overlay_world(), str(root), Geometry())
    fields = found.summary()
    assert fields["findings"] == []
    assert fields["recovery"]["changedEntries"] == 0
    assert fields["consumeQueueExtFiles"] == 2
    assert [queue["maxOffset"] for queue in fields["queues"]] == [3, COUNT]


def test_the_extension_file_size_is_taken_from_broker_conf(root: Path) -> None:
    told = Geometry.of_broker_conf("mappedFileSizeConsumeQueueExt=400\n")
    found = inspect_directory(overlay_world(), str(root), told)
    assert found.config is not None
    assert found.config.mapped_file_size_consume_queue_ext == 400


def test_light_queues_are_detected_by_their_names_or_broker_conf(root: Path) -> None:
    found = inspect_directory(overlay_world(), str(root), Geometry())
    assert found.config is not None
    assert (found.config.enable_multi_dispatch, found.config.enable_lmq) == (True, True)
    told = Geometry.of_broker_conf("enableMultiDispatch=true\nenableLmq=false\n")
    found = inspect_directory(overlay_world(), str(root), told)
    assert found.config is not None
    assert (found.config.enable_multi_dispatch, found.config.enable_lmq) == (True, False)


def test_an_extension_address_without_the_unit_of_its_record_is_reported(root: Path) -> None:
    patch(root / f"{QUEUE}000", 12, ext_address_of(10_000).to_bytes(8, "big", signed=True))
    patch(root / f"{EXT}000", 20 + 9, b"\7")
    patch(root / f"{EXT}000", 40 + 12, b"\7")

    patch(root / f"{QUEUE}000", 72, ext_address_of(65).to_bytes(8, "big", signed=True))

    assert violations_in(root) == [
        (f"{QUEUE}000", 12, "tagsCode"),
        (f"{QUEUE}000", 32, "tagsCode"),
        (f"{QUEUE}000", 52, "tagsCode"),
        (f"{QUEUE}000", 72, "tagsCode"),
    ]


def test_an_extension_file_must_consist_of_whole_units_and_an_end(root: Path) -> None:
    patch(root / f"{EXT}000", 180, b"\0\0")
    patch(root / f"{EXT}200", 150, b"\1")
    assert violations_in(root) == [(f"{EXT}000", 180, "size"), (f"{EXT}200", 150, "size")]
    patch(root / f"{EXT}000", 180, END_MARK)
    patch(root / f"{EXT}200", 120, b"\0\5")
    assert (f"{EXT}200", 120, "size") in violations_in(root)


def test_a_missing_extension_file_is_a_violation_or_after_an_unclean_exit_a_note(root: Path) -> None:
    for path in (root / "consumequeue_ext").rglob("0000*"):
        path.unlink()
    assert len(violations_in(root)) == COUNT
    (root / "abort").touch()
    found = verified(root)
    assert found.findings.violations == []
    assert "recovery will write the plain tagsCode" in found.findings.notes[0]


def test_a_light_queue_without_an_entry_is_reported(root: Path) -> None:
    patch(root / "consumequeue/%LMQ%a/0/00000000000000000000", 20, bytes(20))
    assert "queue entry" in [field for _, _, field in violations_in(root)]


def test_light_queue_offsets_that_do_not_increase_by_one_are_reported(root: Path) -> None:
    log = root / "commitlog/00000000000000000000"
    at = log.read_bytes().rfind(b"INNER_MULTI_QUEUE_OFFSET\x012")
    patch(log, at, b"INNER_MULTI_QUEUE_OFFSET\x019")
    fields = [field for _, _, field in violations_in(root)]
    assert "INNER_MULTI_QUEUE_OFFSET for %LMQ%a" in fields


def test_without_light_queues_their_properties_are_not_checked(tmp_path: Path, started: Make) -> None:
    config = StoreConfig(str(tmp_path), mapped_file_size_commit_log=4096, message_index_enable=False)
    store: MessageStore = started(config)
    claims = {"INNER_MULTI_DISPATCH": "%LMQ%a", "INNER_MULTI_QUEUE_OFFSET": "7"}
    store.put_message(Message.create("T", b"body", properties=claims))
    assert store.shutdown()
    assert violations_in(tmp_path) == []
