from collections.abc import Callable
from typing import Any

import pytest

from tornlog.faults.disk.disk import Disk
from tornlog.scenarios.oracle.invariants import iso
from tornlog.store.formats.messages import Message
from tornlog.store.message_store import MessageStore

OnAStore = Callable[..., Any]


def second_start(store: MessageStore, disk: Disk) -> dict[str, str]:
    store.put_message(Message.of("T0", b"first come"))
    return {violation.field: violation.found for violation in iso.check(store)}


def test_a_second_instance_that_is_refused_at_the_door_holds(on_a_store: OnAStore) -> None:
    assert on_a_store(second_start) == {}


def test_a_second_instance_that_is_let_in_is_found(on_a_store: OnAStore, monkeypatch: pytest.MonkeyPatch) -> None:
    def body(store: MessageStore, disk: Disk) -> dict[str, str]:
        monkeypatch.setattr(MessageStore, "_lock_directory", lambda store: None)
        return second_start(store, disk)

    found = on_a_store(body)

    assert found["second start"] == "opened"
    assert "unlink /store/commitlog/00000000000000002048" in found["changes"]


def test_a_second_instance_that_writes_before_it_is_refused_is_found(
    on_a_store: OnAStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = MessageStore._lock_directory

    def write_then_lock(store: MessageStore) -> None:
        store.world.files.write("/store/lock", b"mine")
        lock(store)

    def body(store: MessageStore, disk: Disk) -> dict[str, str]:
        monkeypatch.setattr(MessageStore, "_lock_directory", write_then_lock)
        return second_start(store, disk)

    assert on_a_store(body) == {"changes": "write /store/lock"}


def test_stores_through_a_map_and_new_files_are_changes_too(on_a_store: OnAStore) -> None:
    def body(store: MessageStore, disk: Disk) -> list[str]:
        files = iso.NotingFiles(store.world.files)
        files.map("/store/checkpoint", 4096).view(0, 8)
        files.status("/store/abort")
        assert files.changes == []
        files.map("/store/checkpoint", 4096).store(0, b"x")
        files.map("/store/new", 10)
        return files.changes

    assert on_a_store(body) == ["store /store/checkpoint", "map /store/new"]
