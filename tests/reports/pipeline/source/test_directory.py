from pathlib import Path

import pytest

from tornlog.reports.pipeline.source.directory import StoreDirectory


def create_files(root: Path, *names: str) -> None:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(b"x")


def test_files_are_found_by_directory_and_name(tmp_path: Path) -> None:
    create_files(
        tmp_path,
        f"commitlog/{7:020}",
        f"commitlog/{0:020}",
        "commitlog/lost+found",
        "commitlog/99999999999999999999",
        f"consumequeue/%RETRY%group/3/{20:020}",
        f"consumequeue/%RETRY%group/3/{0:020}",
        f"consumequeue/A/4000000000/{0:020}",
        f"consumequeue/A/old/{0:020}",
        "consumequeue/A/note",
        "index/20200913122640123",
        "index/notes",
        "checkpoint",
    )
    store = StoreDirectory(f"{tmp_path}/")
    assert [segment.base_offset for segment in store.segments()] == [0, 7]
    assert [(one.topic, one.queue_id, one.file.base_offset) for one in store.queue_files()] == [
        ("%RETRY%group", 3, 0),
        ("%RETRY%group", 3, 20),
    ]
    assert [Path(file.path).name for file in store.index_files()] == ["20200913122640123"]
    assert store.file("checkpoint") is not None
    assert store.file("abort") is None
    assert store.file("index") is None


def test_the_log_can_be_in_several_separate_directories(tmp_path: Path) -> None:
    create_files(tmp_path, f"one/{0:020}", f"two/{9:020}", f"commitlog/{5:020}")
    store = StoreDirectory(str(tmp_path), f"{tmp_path}/one, {tmp_path}/two")
    assert [segment.base_offset for segment in store.segments()] == [0, 9]


@pytest.mark.parametrize("place", ["/", "file:///"])
def test_a_place_can_be_a_path_or_a_uri(tmp_path: Path, place: str) -> None:
    create_files(tmp_path, f"commitlog/{0:020}")
    store = StoreDirectory(f"{place}{str(tmp_path).lstrip('/')}")
    (segment,) = store.segments()
    assert bytes(store.content(segment)) == b"x"


def test_an_empty_file_is_read_as_no_bytes(tmp_path: Path) -> None:
    create_files(tmp_path, "checkpoint")
    (tmp_path / "checkpoint").write_bytes(b"")
    file = StoreDirectory(str(tmp_path)).file("checkpoint")
    assert file is not None
    assert bytes(StoreDirectory(str(tmp_path)).content(file)) == b""
