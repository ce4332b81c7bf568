from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tornlog.store.config import StoreConfig
from tornlog.store.formats.index import ENTRY, HEADER, SLOT, entries_position, index_file_bytes
from tornlog.store.real.overlay import OverlayFiles
from tornlog.store.tools.geometry import index_geometry

NAME = "20261120101841759"


class Status(NamedTuple):
    size_bytes: int
    mtime_ms: int
    is_directory: bool


def index_file(slots: int, entries: int, hashes: list[int]) -> bytes:
    """Return an index file with an entry for each hash."""
    content = bytearray(index_file_bytes(slots, entries))
    HEADER.pack_into(content, 0, 1, 2, 0, 99, len({key_hash % slots for key_hash in hashes}), len(hashes) + 1)
    for number, key_hash in enumerate(hashes, start=1):
        slot_at = entries_position(0) + 4 * (key_hash % slots)
        (previous,) = SLOT.unpack_from(content, slot_at)
        ENTRY.pack_into(content, index_file_bytes(slots, number), key_hash, number, 0, previous)
        SLOT.pack_into(content, slot_at, number)
    return bytes(content)


class OneFile:
    """Files of which one is an index file."""

    def __init__(self, content: bytes, name: str = NAME) -> None:
        self.content = content
        self.name = name

    def status(self, path: str) -> Status:
        return Status(len(self.content), 0, path.endswith("/index"))

    def list_directory(self, path: str) -> list[str]:
        return [self.name]

    def map(self, path: str, size_bytes: int) -> "OneFile":
        return self

    def view(self, start: int, end: int) -> memoryview:
        return memoryview(self.content)[start:end]


def geometry(content: bytes, slots: int | None = None, entries: int | None = None, name: str = NAME) -> Any:
    files: Any = OneFile(content, name)
    return index_geometry(files, StoreConfig("/store"), slots, entries)


DEFAULTS = (5_000_000, 20_000_000)
ONE_KEY = index_file(20, 150, [7])


@given(st.data())
def test_slots_and_entries_are_derived_from_an_index_file_with_a_key(data: st.DataObject) -> None:
    slots = data.draw(st.integers(1, 200))
    entries = data.draw(st.integers(2, 60))
    hashes = data.draw(st.lists(st.integers(0, 2**31 - 1), min_size=1, max_size=entries - 1))
    assert geometry(index_file(slots, entries, hashes)) == (slots, entries)


def test_slots_or_entries_follow_from_the_other_and_the_file_length() -> None:
    content = index_file(20, 150, [])
    assert geometry(content, slots=20) == (20, 150)
    assert geometry(content, entries=150) == (20, 150)


def test_given_slots_and_entries_override_those_of_the_files() -> None:
    content = index_file(20, 150, [7])
    assert geometry(content, slots=21) == (21, DEFAULTS[1])
    assert geometry(content, entries=300) == (DEFAULTS[0], 300)
    assert geometry(content, slots=1, entries=2) == (1, 2)


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(index_file(20, 150, []), id="no key"),
        pytest.param(b"", id="empty"),
        pytest.param(bytes(200), id="zeros"),
        pytest.param(ONE_KEY[:-1], id="no whole number of slots"),
        pytest.param(ONE_KEY[: index_file_bytes(20, 1)], id="cut within its last entry"),
        pytest.param(ONE_KEY[: index_file_bytes(20, 1)] + bytes(20 * 149), id="last entry lost"),
        pytest.param(ONE_KEY[:68] + SLOT.pack(2) + ONE_KEY[72:], id="another entry in its slot"),
        pytest.param(b"\xff" * 36 + b"\x7f\xff\xff\xff" + bytes(400), id="a header that is none"),
    ],
)
def test_defaults_are_used_if_no_index_file_determines_the_geometry(content: bytes) -> None:
    assert geometry(content) == DEFAULTS


def test_a_file_whose_name_is_not_a_time_does_not_determine_the_geometry() -> None:
    assert geometry(index_file(20, 150, [7]), name="20261320101841759") == DEFAULTS


class DefaultFile(OneFile):
    """An index file of the default length; a read of its content is an error."""

    def __init__(self) -> None:
        super().__init__(b"")

    def status(self, path: str) -> Status:
        return Status(index_file_bytes(*DEFAULTS), 0, path.endswith("/index"))

    def map(self, path: str, size_bytes: int) -> OneFile:
        raise AssertionError(path)


def test_an_index_file_of_the_default_length_is_not_read() -> None:
    files: Any = DefaultFile()
    assert index_geometry(files, StoreConfig("/store"), None, None) == DEFAULTS


def test_a_store_without_an_index_has_the_default_geometry(tmp_path: Path) -> None:
    assert index_geometry(OverlayFiles(), StoreConfig(str(tmp_path)), None, None) == DEFAULTS


@pytest.mark.parametrize(
    "case", ["08-clean-shutdown", "09-kill9-async", "12-index-roll", "14-abn-index-header-garbage"]
)
def test_geometry_is_derived_from_rocketmqs_index_files(golden: Callable[[str], Any], case: str) -> None:
    store = golden(case)
    made_with = store.manifest["config"]
    found = index_geometry(OverlayFiles(), StoreConfig(str(store.before)), None, None)
    assert found == (made_with["maxHashSlotNum"], made_with["maxIndexNum"])
