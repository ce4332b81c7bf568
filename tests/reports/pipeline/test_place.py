import os
from pathlib import Path
from typing import Any

import pytest
from pyarrow import fs

from tornlog.reports.pipeline.place import make_directory, open_place, whole_file


class LikeHdfs(fs.FileSystemHandler):  # type: ignore[misc]
    """A local directory that behaves like HDFS in Arrow; `test_other_places` uses a real HDFS."""

    def __init__(self) -> None:
        self._under = fs.LocalFileSystem()

    def get_type_name(self) -> str:
        return "hdfs-like"

    def move(self, src: str, dest: str) -> None:
        self._under.move(src, dest)

    def open_output_stream(self, path: str, metadata: Any) -> Any:
        return self._under.open_output_stream(path, metadata=metadata)

    def get_file_info(self, paths: list[str]) -> Any:
        return self._under.get_file_info(paths)

    def get_file_info_selector(self, selector: Any) -> Any:
        return self._under.get_file_info(selector)

    def delete_file(self, path: str) -> None:
        self._under.delete_file(path)

    def create_dir(self, path: str, recursive: bool) -> None:
        self._under.create_dir(path, recursive=recursive)

    def _not_called(self, *_: Any) -> Any:
        raise NotImplementedError

    delete_dir = delete_dir_contents = delete_root_dir_contents = copy_file = normalize_path = _not_called
    open_input_stream = open_input_file = open_append_stream = _not_called


class LikeAnObjectStore(LikeHdfs):
    """A local directory in which a file appears when its stream is closed, even after an error."""

    def get_type_name(self) -> str:
        return "s3"

    def move(self, src: str, dest: str) -> None:
        raise AssertionError("a move copies every byte")


@pytest.fixture(params=["local", "hdfs", "object store"])
def system(request: pytest.FixtureRequest) -> fs.FileSystem:
    kinds = {"hdfs": LikeHdfs, "object store": LikeAnObjectStore}
    kind = kinds.get(request.param)
    return fs.LocalFileSystem() if kind is None else fs.PyFileSystem(kind())


def test_writing_a_file_again_replaces_it(system: fs.FileSystem, tmp_path: Path) -> None:
    directory = str(tmp_path / "deep" / "down")
    make_directory(system, directory)
    for text in (b"first", b"second"):
        with whole_file(system, f"{directory}/name") as stream:
            stream.write(text)
        assert Path(directory, "name").read_bytes() == text
        assert os.listdir(directory) == ["name"]


def test_an_error_during_a_write_keeps_the_old_file(system: fs.FileSystem, tmp_path: Path) -> None:
    path = tmp_path / "name"
    for before in (None, b"whole"):
        if before is not None:
            path.write_bytes(before)
        with pytest.raises(KeyboardInterrupt), whole_file(system, str(path)) as stream:  # noqa: PT012
            stream.write(b"half")
            raise KeyboardInterrupt
        assert [one.read_bytes() for one in tmp_path.iterdir()] == ([] if before is None else [before])


@pytest.mark.parametrize("scheme", ["s3a", "s3n"])
def test_a_scheme_of_hadoops_client_is_refused_with_the_expected_scheme(scheme: str) -> None:
    with pytest.raises(ValueError, match=f"{scheme}://bucket/store: expected s3://bucket/store, found {scheme}://"):
        open_place(f"{scheme}://bucket/store")
