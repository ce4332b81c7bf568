"""Real processes and real kills: acknowledged puts survive."""

import subprocess
import sys
import time
from dataclasses import dataclass, field
from hashlib import blake2b
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from random import Random
from types import ModuleType
from typing import NamedTuple

import pytest

from tornlog.store.config import FlushDiskType
from tornlog.store.formats.message import MessageRecord, decode_record
from tornlog.store.formats.messages import GetMessageStatus, PutMessageStatus
from tornlog.store.formats.properties import PROPERTY_KEYS, decode_properties
from tornlog.store.message_store import MessageStore
from tornlog.store.real.world import real_world

pytestmark = pytest.mark.ci

WRITER = Path(__file__).with_name("writer.py")
KILLS = 12


class Told(NamedTuple):
    """The answer to a put: the record's offsets, -1 for a refused put."""

    status: PutMessageStatus
    physical_offset: int
    queue_offset: int


@dataclass
class Ledger:
    """The puts and answers of all writers so far."""

    asked: set[str] = field(default_factory=set)
    told: dict[str, Told] = field(default_factory=dict)

    def note(self, line: str) -> None:
        what, *rest = line.split()
        if what == "ask":
            self.asked.add(rest[0])
        elif what == "told":
            name, status, physical_offset, queue_offset = rest
            assert physical_offset != "-", line
            self.told[name] = Told(PutMessageStatus[status], int(physical_offset), int(queue_offset))
        else:
            assert line == "ready"


@pytest.fixture(scope="module")
def writer() -> ModuleType:
    """The writer's module, for names, messages and sizes shared by both sides."""
    spec = spec_from_file_location("writer", WRITER)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def kill_in_traffic(directory: Path, life: int, flush: FlushDiskType, lines: int, ledger: Ledger) -> None:
    """Kill a writer after at least so many lines of output, and record the output."""
    command = [sys.executable, str(WRITER), str(directory), str(life), str(2 + life % 2), flush.name]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for _ in range(lines):
            ledger.note(process.stdout.readline().rstrip("\n"))
        process.kill()
        rest = process.stdout.read()
    assert process.returncode == -9
    assert not rest or rest.endswith("\n")
    for line in rest.splitlines():
        ledger.note(line)


def kill_in_start(directory: Path, life: int, flush: FlushDiskType, after_s: float, ledger: Ledger) -> None:
    """Kill a writer during its recovery or shortly before or after it."""
    command = [sys.executable, str(WRITER), str(directory), str(life), "1", flush.name]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        time.sleep(after_s)
        process.kill()
        for line in process.stdout.read().splitlines():
            ledger.note(line)
    assert process.returncode == -9


Contents = dict[tuple[str, int], list[MessageRecord]]


def contents(store: MessageStore, writer: ModuleType) -> Contents:
    """Return the records of every queue, as a consumer pulls them."""
    found: Contents = {}
    for topic in writer.TOPICS:
        for queue_id in range(writer.QUEUES):
            records = found[topic, queue_id] = []
            assert store.get_min_offset_in_queue(topic, queue_id) in (-1, 0)
            while True:
                pulled = store.get_message(topic, queue_id, len(records))
                if pulled.status is not GetMessageStatus.FOUND:
                    break
                records += [decode_record(raw, 0, file="pulled") for raw in pulled.records]
                assert pulled.queue_offsets[-1] == len(records) - 1
            assert len(records) == store.get_max_offset_in_queue(topic, queue_id)
    return found


def recover(directory: Path, flush: FlushDiskType, writer: ModuleType) -> tuple[Contents, int, dict[str, str]]:
    """Return a store's content after its recovery, its log's end, and a digest of each of its files."""
    store = MessageStore(real_world(), writer.config_of(str(directory), flush))
    store.load()
    found, end = contents(store, writer), store.max_phy_offset
    for records in found.values():
        for record in records:
            assert store.look_message_by_offset(record.physical_offset) == record
    store.close()
    index = {path: f"index/{number}" for number, path in enumerate(sorted(directory.glob("index/*")))}
    files = {  # index files by number, because a rebuilt one is named by its creation time
        index.get(path, str(path.relative_to(directory))): blake2b(path.read_bytes()).hexdigest()
        for path in sorted(directory.rglob("*"))
        if path.is_file()
    }
    return found, end, files


def check(found: Contents, ledger: Ledger, writer: ModuleType) -> None:
    """Check that every answered put is at its offsets, no unknown record exists, and no queue has a hole."""
    by_name: dict[str, MessageRecord] = {}
    for (topic, queue_id), records in found.items():
        for index, record in enumerate(records):
            name = decode_properties(record.properties)[PROPERTY_KEYS]
            message = writer.message_of(name)
            assert name in ledger.asked
            assert name not in by_name
            assert (record.topic, record.queue_id, record.queue_offset) == (topic, queue_id, index)
            assert (message.topic, message.queue_id, message.body) == (topic, queue_id, record.body)
            assert record.properties == message.properties
            by_name[name] = record
    for name, told in ledger.told.items():
        assert told.status is PutMessageStatus.PUT_OK, (name, told)
        record = by_name[name]
        assert (record.physical_offset, record.queue_offset) == told[1:]


@pytest.mark.parametrize("flush", FlushDiskType)
def test_acknowledged_puts_survive_every_kill_of_their_process(
    flush: FlushDiskType, writer: ModuleType, tmp_path: Path
) -> None:
    random, ledger = Random(f"kill/{flush.name}"), Ledger()
    for life in range(KILLS):
        if life % 4 == 3:
            kill_in_start(tmp_path, life, flush, random.uniform(0.05, 0.3), ledger)
            continue  # the next recovery starts from the state of this one
        kill_in_traffic(tmp_path, life, flush, random.choice((1, 20, 200, 1_000)), ledger)
        found, end, files = recover(tmp_path, flush, writer)
        check(found, ledger, writer)

        assert recover(tmp_path, flush, writer) == (found, end, files)
    assert len(ledger.asked) > len(ledger.told)  # some writers were killed during a put
    assert len(list((tmp_path / "commitlog").iterdir())) > 5
    assert len(ledger.told) > 500
