import errno
import os
from pathlib import Path
from typing import Any, cast

import pytest

from tornlog.store.directories import directory_of, make_directory
from tornlog.store.world import Files


class Calls:
    """Files that record each change of a directory. Some directories exist, and some cannot be synced."""

    def __init__(self, *existing: str, refused: dict[str, int] | None = None) -> None:
        self.done: list[str] = []
        self._existing = {*existing, "/", "."}
        self._refused = refused or {}

    def status(self, path: str) -> Any:
        return path if path in self._existing else None

    def make_directories(self, path: str) -> None:
        self.done.append(f"make {path}")

    def sync_directory(self, path: str) -> None:
        if path in self._refused:
            raise OSError(self._refused[path], os.strerror(self._refused[path]), path)
        self.done.append(f"sync {path}")


def calls_for_directory(path: str, calls: Calls, **how: Any) -> list[str]:
    make_directory(cast(Files, calls), path, **how)
    return calls.done


@pytest.mark.parametrize(
    ("path", "expected"), [("/a/b", "/a"), ("/a", "/"), ("/", "/"), ("mq", "."), ("a/b", "a"), (".", ".")]
)
def test_the_parent_of_a_relative_name_is_the_working_directory(path: str, expected: str) -> None:
    assert directory_of(path) == expected


@pytest.mark.parametrize(
    ("path", "synced"),
    [
        ("mq", ["."]),
        ("data/new/mq", [".", "data", "data/new"]),
        ("/mq", ["/"]),
        ("/data/new/mq", ["/", "/data", "/data/new"]),
    ],
)
def test_creating_directories_syncs_the_name_of_each_level_from_the_top(path: str, synced: list[str]) -> None:
    assert calls_for_directory(path, Calls()) == [f"make {path}", *(f"sync {one}" for one in synced)]


def test_an_existing_directory_level_is_synced_too_because_its_creator_may_have_crashed() -> None:
    assert calls_for_directory("/data/mq", Calls("/data", "/data/mq")) == ["make /data/mq", "sync /", "sync /data"]


def test_a_directory_that_the_caller_syncs_is_not_synced_twice() -> None:
    assert calls_for_directory("/mq/log/a", Calls(), below="/mq") == ["make /mq/log/a", "sync /mq/log"]
    assert calls_for_directory("/mq/log", Calls(), below="/mq") == ["make /mq/log"]


def test_a_directory_outside_the_one_that_the_caller_syncs_is_durable_up_to_the_top() -> None:
    assert calls_for_directory("/disk-1/log", Calls(), below="/mq") == ["make /disk-1/log", "sync /", "sync /disk-1"]


def test_once_made_is_called_between_creation_and_sync() -> None:
    calls = Calls()
    assert calls_for_directory("mq", calls, once_made=lambda: calls.done.append("lock")) == [
        "make mq",
        "lock",
        "sync .",
    ]


@pytest.mark.parametrize("refusal", [errno.EACCES, errno.EINVAL, errno.EROFS])
def test_an_existing_level_that_cannot_be_synced_is_skipped(refusal: int) -> None:
    calls = Calls("/home", "/home/me", refused={"/home": refusal})
    assert calls_for_directory("/home/me/mq", calls) == ["make /home/me/mq", "sync /", "sync /home/me"]


@pytest.mark.parametrize("refused", ["/home", "/home/new"])
def test_a_failed_sync_of_a_new_level_raises(refused: str) -> None:
    calls = Calls("/home", refused={refused: errno.EACCES})
    with pytest.raises(PermissionError):
        calls_for_directory("/home/new/mq", calls)


def test_a_disk_error_during_a_directory_sync_is_raised() -> None:
    calls = Calls("/home", "/home/me", refused={"/home": errno.EIO})
    with pytest.raises(OSError, match="Input/output error"):
        calls_for_directory("/home/me/mq", calls)


def test_only_one_module_of_the_store_creates_directories() -> None:
    store = Path(__file__).parents[2] / "store"
    lines = [
        (str(file.relative_to(store)), line.strip())
        for file in sorted(store.rglob("*.py"))
        for line in file.read_text().splitlines()
        if ".make_directories(" in line or "makedirs(" in line or ".mkdir(" in line
    ]
    # Directories of queues become durable with their first segments, many at a time: `ConsumeQueueTable.make_durable`.
    assert [file for file, _ in lines] == ["directories.py", "log/segment_queue.py", "real/files.py"], lines
