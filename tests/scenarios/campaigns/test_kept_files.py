"""Kept files: complete or absent, and durable."""

import errno
import os
from pathlib import Path

import pytest

from tornlog.scenarios.campaigns.kept_files import keep_file, make_kept_directory, whole_file
from tornlog.store.real.files import RealFiles


def test_a_result_file_replaces_the_earlier_one_and_leaves_no_temporary_file(tmp_path: Path) -> None:
    path = tmp_path / "new" / "place" / "one.json"
    for text in ("first", "second"):
        keep_file(path, text)
        assert path.read_text() == text
    assert os.listdir(path.parent) == ["one.json"]


def test_an_error_while_writing_keeps_the_earlier_file(tmp_path: Path) -> None:
    path = tmp_path / "one.json"
    path.write_text("first")
    with pytest.raises(KeyboardInterrupt), whole_file(str(path)) as stream:  # noqa: PT012
        stream.write(b"half")
        raise KeyboardInterrupt
    assert path.read_text() == "first"
    assert os.listdir(tmp_path) == ["one.json"]


def test_a_relative_path_starts_at_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with whole_file("one.json") as stream:
        stream.write(b"text")
    assert (tmp_path / "one.json").read_text() == "text"


def test_a_symbolic_link_is_kept_and_its_target_replaced(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "file")
    for text in ("first", "second"):
        keep_file(tmp_path / "link", text)
        assert (tmp_path / "file").read_text() == text
    assert (tmp_path / "link").is_symlink()


def test_text_for_a_named_pipe_is_written_directly(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    try:
        keep_file(tmp_path / "pipe", "text")
        assert os.read(reader, 100) == b"text"
    finally:
        os.close(reader)


@pytest.mark.parametrize("refusal", [errno.EINVAL, errno.EIO])
def test_results_are_written_on_a_file_system_that_cannot_sync_directories(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refusal: int
) -> None:
    def refuse(self: RealFiles, path: str) -> None:
        raise OSError(refusal, os.strerror(refusal), path)

    monkeypatch.setattr(RealFiles, "sync_directory", refuse)
    if refusal == errno.EINVAL:
        keep_file(tmp_path / "new" / "one.json", "text")
        assert (tmp_path / "new" / "one.json").read_text() == "text"
    else:
        with pytest.raises(OSError, match="Input/output error"):
            keep_file(tmp_path / "new" / "one.json", "text")


def test_new_directories_below_a_durable_one_are_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[str] = []
    monkeypatch.setattr(RealFiles, "sync_directory", lambda files, path: synced.append(path))
    make_kept_directory(f"{tmp_path}/a/b", below=str(tmp_path))
    assert synced == [f"{tmp_path}/a", str(tmp_path)]
