import pytest

from tornlog.scenarios.oracle.invariants import iso
from tornlog.store.formats.messages import Message
from tornlog.store.message_store import MessageStore


def violations_of_second_start(store: MessageStore) -> dict[str, str]:
    store.put_message(Message.create("T0", b"first come"))
    return {violation.field: violation.found for violation in iso.check_second_instance(store)}


def test_a_second_instance_that_is_refused_at_once_is_no_violation(store: MessageStore) -> None:
    assert violations_of_second_start(store) == {}


def test_a_second_instance_that_opens_is_a_violation(store: MessageStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MessageStore, "_lock_directory", lambda store: None)
    found = violations_of_second_start(store)

    assert found["second start"] == "opened"
    assert "unlink /store/commitlog/00000000000000002048" in found["changes"]


def test_a_second_instance_that_writes_before_it_is_refused_is_a_violation(
    store: MessageStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = MessageStore._lock_directory

    def write_then_lock(store: MessageStore) -> None:
        store.world.files.write("/store/lock", b"mine")
        lock(store)

    monkeypatch.setattr(MessageStore, "_lock_directory", write_then_lock)
    assert violations_of_second_start(store) == {"changes": "write /store/lock"}


def test_writes_to_maps_and_new_files_count_as_changes(store: MessageStore) -> None:
    files = iso.RecordingFiles(store.world.files)
    files.map("/store/checkpoint", 4096).view(0, 8)
    files.status("/store/abort")
    assert files.changes == []
    files.map("/store/checkpoint", 4096).store(0, b"x")
    files.map("/store/new", 10)
    assert files.changes == ["store /store/checkpoint", "map /store/new"]
