"""A log with a missing segment: all other messages are served, and no load removes a file."""

import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tornlog.store.broker.broker_config import BrokerConfig
from tornlog.store.broker.serve import ServedBroker, limits_of_process
from tornlog.store.config import StoreConfig
from tornlog.store.errors import CorruptFileError
from tornlog.store.formats.message import TRANSACTION_MASK
from tornlog.store.formats.messages import Message, PutMessageStatus
from tornlog.store.formats.scan import scan_records
from tornlog.store.message_store import MessageStore
from tornlog.store.queues.dispatch import UNDISPATCHED
from tornlog.store.real.world import overlay_world, real_world
from tornlog.store.tools.dump import BodyText, DumpSelection, dump_log
from tornlog.store.tools.geometry import Geometry
from tornlog.store.tools.inspect import inspect_directory
from tornlog.store.tools.verify import verify_directory

WEEK_SECONDS = 7 * 86_400
MISSING, FOLLOWING = "00000000000000049152", "00000000000000065536"
GAP = f"commitlog/{FOLLOWING} @ 0: base offset: expected the next segment, {MISSING}, found {FOLLOWING}"


@pytest.fixture
def restored(golden: Callable[..., Any]) -> Any:
    """A store that 4.9.8 wrote, after a restore: one segment is missing, and all files are a week old."""
    case = golden("08-clean-shutdown")
    for path in sorted(case.before.rglob("*")):
        if path.is_file():
            old = path.stat().st_mtime - WEEK_SECONDS
            os.utime(path, (old, old))
    (case.before / "commitlog" / MISSING).unlink()
    return case


def log_names(root: Path) -> list[str]:
    return sorted(path.name for path in (root / "commitlog").iterdir())


def records_in(root: Path) -> list[tuple[str, int, int]]:
    """Return topic, queue and log offset of every record that belongs in a queue, read from the log files."""
    found = []
    for name in log_names(root):
        raw = memoryview((root / "commitlog" / name).read_bytes())
        try:
            found.extend(
                (record.topic, record.queue_id, record.physical_offset)
                for record in scan_records(raw, 0, len(raw), file=name, base_offset=int(name), check_crc=True)
                if record.sys_flag & TRANSACTION_MASK not in UNDISPATCHED
            )
        except CorruptFileError:
            assert not any(raw[-100:]), "the last segment is not full"
    return found


def pulled_records(store: MessageStore) -> Iterator[tuple[str, int, int]]:
    for queue in store.queues.all_queues():
        at = queue.min_offset
        while True:
            result = store.get_message(queue.topic, queue.queue_id, at, 32)
            yield from ((queue.topic, queue.queue_id, offset) for offset in result.physical_offsets)
            if result.next_begin_offset <= at:
                break
            at = result.next_begin_offset


def test_the_store_with_a_log_gap_has_segments_before_and_after_it(restored: Any) -> None:
    names = log_names(restored.before)
    assert names[0] < MISSING < FOLLOWING < names[-1]
    assert FOLLOWING in names


@pytest.mark.parametrize("queues_are_lost", [False, True])
@pytest.mark.parametrize("clean_exit", [True, False])
def test_messages_before_and_after_a_log_gap_are_served_and_no_file_is_removed(
    restored: Any, started: Callable[..., MessageStore], *, clean_exit: bool, queues_are_lost: bool
) -> None:
    root, config = restored.before, restored.config(restored.before)
    if not clean_exit:
        (root / "abort").touch()
    if queues_are_lost:
        (root / "consumequeue").rename(root.parent / "consumequeue")
        (root / "checkpoint").unlink()
    names, expected = log_names(root), sorted(records_in(root))

    store = started(config)

    assert store.last_recovery is not None
    assert [str(one).removeprefix(f"{root}/") for one in store.last_recovery.findings] == [GAP]
    assert sorted(pulled_records(store)) == expected
    topic, queue_id, _ = expected[0]
    put = store.put_message(Message.create(topic, b"more", queue_id=queue_id))
    assert put.status is PutMessageStatus.PUT_OK
    assert store.shutdown()
    assert set(names) <= set(log_names(root))


def test_keys_before_and_after_a_log_gap_are_found(
    tmp_path: Path, started: Callable[..., MessageStore], loaded: Callable[..., MessageStore]
) -> None:
    config = StoreConfig(
        str(tmp_path / "store"), mapped_file_size_commit_log=4096, max_hash_slot_num=10, max_index_num=12
    )
    store = started(config)
    offsets = []
    for number in range(60):
        append = store.put_message(Message.create("T", bytes(200), keys=f"k{number}")).append
        assert append is not None
        offsets.append(append.wrote_offset)
    assert store.shutdown()
    (tmp_path / "store" / "commitlog" / f"{4096:020}").unlink()

    for _ in range(2):  # the second load uses the index of the first load
        store = loaded(config)
        for number, offset in enumerate(offsets):
            found = store.query_message("T", f"k{number}", 32, 0, 1 << 60).physical_offsets
            assert found == ([] if 4096 <= offset < 8192 else [offset]), number
        store.close()


def test_retention_removes_old_segments_before_and_after_a_log_gap(
    restored: Any, started: Callable[..., MessageStore]
) -> None:
    root = restored.before
    store = started(replace(restored.config(root), file_reserved_time_hours=72))
    names = log_names(root)
    store.flush_queues.flush_thoroughly()  # otherwise no segment would be removed
    store.execute_delete_files_manually()
    store.retention.run_clean_pass()
    assert store.log.min_offset > int(FOLLOWING)
    assert len(store.log.segments) == 1
    assert not {MISSING, FOLLOWING, names[0]} & set(log_names(root))
    assert store.put_message(Message.create("Later", b"more")).status is PutMessageStatus.PUT_OK


def test_offline_tools_report_a_log_gap_once(restored: Any) -> None:
    root, geometry = str(restored.before), Geometry()
    inspection = inspect_directory(overlay_world(), root, geometry, lambda: overlay_world().files)
    verification = verify_directory(overlay_world().files, root, geometry, lambda read_bytes: None)
    dumped = dump_log(lambda: overlay_world().files, restored.config(restored.before), DumpSelection(), BodyText.NONE)
    damage = [one for one in dumped if isinstance(one, CorruptFileError)]

    assert [str(one).removeprefix(f"{root}/") for one in inspection.findings] == [GAP]
    assert [str(one) for one in verification.findings.violations if "base offset" in str(one)] == [f"{GAP} [LOG]"]
    assert [str(one).removeprefix(f"{root}/") for one in damage] == [GAP]


def test_a_broker_logs_a_gap_in_the_log(restored: Any) -> None:
    lines: list[str] = []
    config = replace(restored.config(restored.before), ha_listen_port=0)
    limits, emit = limits_of_process({}), lambda line: lines.append(str(line))
    served = ServedBroker(real_world(), config, BrokerConfig(), limits, emit=emit)
    served.start(["127.0.0.1:0"])

    assert served.shutdown()
    assert [line for line in lines if "damage in the store" in line] == [
        f"damage in the store: {config.store_path_root_dir}/{GAP}"
    ]
