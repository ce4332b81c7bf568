import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from tornlog.reports.pipeline.source import index_entries, queue_entries, records
from tornlog.reports.pipeline.source.columns import RowConditions
from tornlog.reports.pipeline.source.directory import StoreDirectory
from tornlog.reports.pipeline.source.rocketmq import TABLES
from tornlog.reports.pipeline.source.source_options import SourceOptions

LOOKS = 15
WRITER = """
    import sys

    from tornlog.store.real.world import real_world
    from tornlog.store.config import StoreConfig
    from tornlog.store.formats.messages import Message
    from tornlog.store.message_store import MessageStore

    config = StoreConfig(
        sys.argv[1],
        mapped_file_size_commit_log=256 << 10,
        mapped_file_size_consume_queue=20_000,
        max_hash_slot_num=50,
        max_index_num=2_000,
    )
    store = MessageStore(real_world(), config)
    store.load()
    store.start()
    for number in range(20_000):
        store.put_message(Message.create("T", b"x" * (number % 4000), queue_id=number % 2, keys=f"k{number}"))
        if number == 100:
            print("begun", flush=True)
"""


@contextmanager
def while_being_written(root: Path) -> Iterator[None]:
    """During the block, another process writes a store."""
    command = [sys.executable, "-c", dedent(WRITER), str(root)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
        try:
            assert writer.stdout is not None
            assert writer.stdout.readline() == "begun\n"
            yield
        finally:
            writer.kill()


def damage_seen(root: Path, looks: int = LOOKS) -> Counter[str]:
    """Return how many reads of each table show damage."""
    seen: Counter[str] = Counter()
    for _ in range(looks):
        for name in ("messages", "queue_entries", "index_entries"):
            options = SourceOptions.from_spark({"path": str(root), "table": name, "hashslots": "50"})
            table, directory = TABLES[name](options), StoreDirectory(str(root))
            found = [
                row
                for part in table.partitions(directory, RowConditions())
                for batch in table.batches(directory, part, RowConditions())
                for row in batch.filter(batch["damage"].is_valid()).to_pylist()
            ]
            seen[name] += bool(found)
            seen[f"rows of {name}"] += len(found)
    return seen


@pytest.mark.slow
def test_a_store_in_use_shows_no_damage(tmp_path: Path) -> None:
    with while_being_written(tmp_path / "store"):
        assert damage_seen(tmp_path / "store").total() == 0


@pytest.fixture
def rows_of(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[dict[str, Any]]]:
    """Return a function that reads a table, and changes bytes of a file during the first pause."""

    def read(root: Path, name: str, meanwhile: Callable[[], object]) -> list[dict[str, Any]]:
        pauses = []

        def pause() -> None:
            if not pauses:
                meanwhile()
            pauses.append(None)

        for module in (records, queue_entries, index_entries):
            monkeypatch.setattr(module, "pause_for_writes", pause)
        options = SourceOptions.from_spark({"path": str(root), "table": name, "hashslots": "50"})
        table, directory = TABLES[name](options), StoreDirectory(str(root))
        return [
            row
            for part in table.partitions(directory, RowConditions())
            for batch in table.batches(directory, part, RowConditions())
            for row in batch.to_pylist()
        ]

    return read


def change_nothing() -> None:
    """No-op: the file does not change."""


def test_a_partly_written_record_of_a_store_in_use_is_read_again(
    written: Callable[..., Path], rows_of: Callable[..., list[dict[str, Any]]]
) -> None:
    root = written()
    whole = rows_of(root, "messages", change_nothing)
    last = whole[-1]
    path = Path(last["file"])
    raw = path.read_bytes()
    half = last["position"] + last["size"] // 2
    torn = raw[:half] + bytes(last["size"] - last["size"] // 2) + raw[last["position"] + last["size"] :]
    path.write_bytes(torn)

    (odd,) = [row for row in rows_of(root, "messages", change_nothing) if row["damage"]]
    assert last["position"] <= odd["position"] < last["position"] + last["size"]
    assert rows_of(root, "messages", lambda: overwrite_in_place(path, raw)) == whole


def test_an_entry_written_after_its_queue_was_read_is_not_a_gap(
    written: Callable[..., Path], rows_of: Callable[..., list[dict[str, Any]]]
) -> None:
    root = written()
    whole = rows_of(root, "queue_entries", change_nothing)
    path = root / f"consumequeue/T0/1/{0:020}"
    raw = path.read_bytes()
    path.write_bytes(raw[:540] + bytes(20) + raw[560:])

    assert [row["position"] for row in rows_of(root, "queue_entries", change_nothing) if row["damage"]] == [540]
    assert rows_of(root, "queue_entries", lambda: overwrite_in_place(path, raw)) == whole


def test_index_slots_newer_than_the_header_that_was_read_are_not_damage(
    written: Callable[..., Path], rows_of: Callable[..., list[dict[str, Any]]]
) -> None:
    root = written()
    whole = rows_of(root, "index_entries", change_nothing)
    path = sorted((root / "index").iterdir())[-1]
    raw = path.read_bytes()
    count = int.from_bytes(raw[36:40], "big")
    path.write_bytes(raw[:36] + (count - 1).to_bytes(4, "big") + raw[40:])

    assert [row for row in rows_of(root, "index_entries", change_nothing) if row["damage"]]
    assert rows_of(root, "index_entries", lambda: overwrite_in_place(path, raw)) == whole[:-1]


def overwrite_in_place(path: Path, raw: bytes) -> None:
    """Overwrite bytes of a file in place, as through a mapping."""
    with path.open("r+b") as file:
        file.write(raw)
