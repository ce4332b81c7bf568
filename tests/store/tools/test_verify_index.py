"""Every possible violation of the index is found at its offset."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.store.rigs import verified
from tornlog.store.formats.checkpoint import CheckpointValues, encode_checkpoint
from tornlog.store.tools.geometry import Geometry
from tornlog.store.tools.violation import DirectoryPromise

SLOTS, ENTRIES_MAX, LAST = 20, 150, 107
ENTRY_0 = 40 + 4 * SLOTS


def entry_at(number: int) -> int:
    return ENTRY_0 + 20 * number


@pytest.fixture
def root(golden: Callable[[str], Any]) -> Path:
    """A store with eight index files, seven of them full, without damage."""
    before: Path = golden("12-index-roll").before
    return before


@pytest.fixture
def files(root: Path) -> list[Path]:
    return sorted((root / "index").iterdir())


def patch(path: Path, at: int, data: bytes) -> None:
    content = bytearray(path.read_bytes())
    content[at : at + len(data)] = data
    path.write_bytes(content)


def index_violations(root: Path) -> list[tuple[str, int, str]]:
    found = verified(root).findings
    assert {violation.promise for violation in found.violations} <= {DirectoryPromise.IDX}
    return [(violation.file, violation.offset, violation.field) for violation in found.violations]


def test_the_files_and_entries_of_an_undamaged_index_are_counted(root: Path) -> None:
    found = verified(root)
    assert found.findings.violations == []
    assert found.counts["indexFiles"] == 8
    assert found.counts["indexEntries"] == 7 * 149 + LAST


@pytest.mark.parametrize(
    ("at", "data", "field"),
    [
        (0, b"\xff", "beginTimestamp"),
        (8, b"\xff", "endTimestamp"),
        (16, b"\xff", "beginPhyOffset"),
        (24, b"\0" * 8, "endPhyOffset"),
        (32, b"\0\0\1\0", "hashSlotCount"),
        (36, b"\0\1\0\0", "indexCount"),
        (40, b"\0\0\0\0", "slot"),
        (40, b"\x7f\0\0\0", "slot"),
        (entry_at(5), b"\xff", "keyHash"),
        (entry_at(5), b"\0\0\0\7", "keyHash"),
        (entry_at(5) + 4, b"\0" * 8, "phyOffset"),
        (entry_at(5) + 11, b"\1", "phyOffset"),
        (entry_at(5) + 12, b"\0\0\7\0", "timeDiff"),
        (entry_at(5) + 12, b"\xff\0\7\0", "timeDiff"),
        (entry_at(5) + 16, b"\0\0\0\5", "previous"),
        (entry_at(5) + 16, b"\0\0\0\xff", "previous"),
    ],
)
def test_each_wrong_index_field_is_reported_at_its_offset(
    root: Path, files: list[Path], at: int, data: bytes, field: str
) -> None:
    patch(files[3], at, data)
    found = index_violations(root)
    name = f"index/{files[3].name}"
    assert field in {violation[2] for violation in found if violation[0] == name}
    if at >= 40:
        assert any(file == name and at - 11 <= offset <= at for file, offset, _ in found)
    else:
        assert (name, at, field) in found


def test_unknown_names_in_the_index_directory_are_reported(root: Path, files: list[Path]) -> None:
    (root / "index" / "notes.txt").write_bytes(b"mine")
    (root / "index" / "20200101000000000").write_bytes(bytes(77))
    (root / "index" / "20200202000000000").mkdir()
    assert index_violations(root) == [
        ("index/20200101000000000", 0, "file size"),
        ("index/20200202000000000", 0, "file name"),
        ("index/notes.txt", 0, "file name"),
    ]


def test_keys_of_a_missing_index_file_are_reported(root: Path, files: list[Path]) -> None:
    files[2].unlink()
    found = index_violations(root)
    assert {violation[2] for violation in found} == {"index entry"}
    assert len(found) == 149
    assert all(violation[0].startswith("commitlog/") for violation in found)


def test_an_index_file_copied_under_a_later_name_is_a_violation(root: Path, files: list[Path]) -> None:
    shutil.copy(files[-1], root / "index" / "20991231235959999")
    found = verified(root).findings.violations
    assert {(violation.file, violation.field) for violation in found} == {
        ("index/20991231235959999", "phyOffset"),  # its first entry is before the other file's last
        ("index/20991231235959999", "keyHash"),  # its last ones are of the same record again
    }


def test_an_index_entry_without_a_key_and_a_duplicate_entry_are_reported(root: Path, files: list[Path]) -> None:
    content = files[7].read_bytes()
    places = [content[entry_at(number) + 4 : entry_at(number) + 12] for number in range(LAST)]
    number = next(number for number in range(2, LAST) if places[number] == places[number - 1])
    patch(files[7], entry_at(number), content[entry_at(number - 1) : entry_at(number - 1) + 4])
    found = {(violation.field, violation.found) for violation in verified(root).findings.violations}
    assert ("keyHash", "a duplicate") in found
    assert "index entry" in {field for field, _ in found}


def test_an_index_entry_beyond_the_end_of_the_log_is_reported(root: Path, files: list[Path]) -> None:
    last = files[7].read_bytes()[entry_at(LAST) + 4 : entry_at(LAST) + 12]
    beyond = (int.from_bytes(last, "big") + 1000).to_bytes(8, "big")
    patch(files[7], 24, beyond)
    patch(files[7], entry_at(LAST) + 4, beyond)
    assert ("index/" + files[7].name, entry_at(LAST) + 4, "phyOffset") in index_violations(root)


def test_index_entries_of_expired_records_are_no_violation(golden: Callable[[str], Any]) -> None:
    assert verified(golden("13-head-deleted").before).findings.violations == []


def test_after_an_unclean_exit_index_files_that_recovery_rebuilds_are_one_note(root: Path, files: list[Path]) -> None:
    (root / "abort").touch()
    patch(files[7], entry_at(5), b"\0\0\0\7")
    patch(files[7], 40, b"\x7f")
    found = verified(root).findings
    assert found.violations == []
    assert len(found.notes) == 1
    assert "rebuild the index from there, which also repairs " in found.notes[0]


def test_after_an_unclean_exit_an_index_file_covered_by_the_checkpoint_must_be_complete(
    root: Path, files: list[Path]
) -> None:
    (root / "abort").touch()
    patch(files[2], entry_at(5) + 12, b"\0\0\7\0")
    assert index_violations(root) == [(f"index/{files[2].name}", entry_at(5) + 12, "timeDiff")]


def test_a_missing_index_is_a_violation_if_the_checkpoint_has_an_index_time(root: Path) -> None:
    shutil.rmtree(root / "index")
    told = Geometry(hash_slots=SLOTS, index_entries=ENTRIES_MAX)
    missed = verified(root, told).findings.violations
    values = CheckpointValues(1, 1, 0)
    patch(root / "checkpoint", 0, encode_checkpoint(values))
    assert [(violation.file, violation.field) for violation in missed] == [("index", "index")]
    assert verified(root, told).findings.violations == []


def test_a_file_in_place_of_the_index_directory_is_reported(root: Path) -> None:
    shutil.rmtree(root / "index")
    (root / "index").write_bytes(b"a file")
    found = verified(root, Geometry(hash_slots=SLOTS, index_entries=ENTRIES_MAX)).findings.violations
    assert [(violation.promise, violation.file, violation.field) for violation in found] == [
        (DirectoryPromise.IDX, "index", "file")
    ]


def test_keys_after_damage_in_the_log_are_still_compared(root: Path, files: list[Path]) -> None:
    log = next((root / "commitlog").iterdir())
    size_bytes = int.from_bytes(log.read_bytes()[:4], "big")
    patch(log, size_bytes + 4, b"\0")
    found = verified(root).findings.violations
    assert {violation.promise for violation in found} >= {DirectoryPromise.LOG, DirectoryPromise.IDX}
    in_index = [violation for violation in found if violation.promise is DirectoryPromise.IDX]
    assert all(violation.expected == "the start of a record with a key" for violation in in_index)
    assert {violation.found for violation in in_index} == {str(size_bytes)}
