import os
from pathlib import Path

from tornlog.faults.disk.export import export_image, load_image
from tornlog.faults.disk.image import FileImage, Image

IMAGE = Image(
    {
        "/store/commitlog/00000000000000000000": FileImage(b"\1\2\3" + bytes(4093), 1_600_000_000_123),
        "/store/abort": FileImage(b"", 1_600_000_001_000),
        "/elsewhere/file": FileImage(b"not below the root", 0),
    },
    ("/store", "/store/commitlog", "/store/index", "/elsewhere"),
)


def test_a_directory_is_exported_with_its_mtimes(tmp_path: Path) -> None:
    export_image(IMAGE, "/store", tmp_path)

    assert sorted(entry.relative_to(tmp_path).as_posix() for entry in tmp_path.rglob("*")) == [
        "abort",
        "commitlog",
        "commitlog/00000000000000000000",
        "index",
    ]
    log = tmp_path / "commitlog" / "00000000000000000000"
    assert log.read_bytes() == b"\1\2\3" + bytes(4093)
    assert os.stat(log).st_mtime_ns == 1_600_000_000_123 * 10**6


def test_an_exported_directory_is_read_back_as_the_same_image(tmp_path: Path) -> None:
    export_image(IMAGE, "/store", tmp_path)
    loaded = load_image(tmp_path, "/store")
    below = {path: file for path, file in IMAGE.files.items() if path.startswith("/store/")}

    assert loaded.files == below
    assert loaded.digest() == Image(below, ("/store", "/store/commitlog", "/store/index")).digest()


def test_a_directory_can_be_loaded_at_any_path(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x")

    assert load_image(tmp_path, "/").directories == ()
    assert list(load_image(tmp_path, "/").files) == ["/file"]
    deep = load_image(tmp_path, "/a/b/")
    assert deep.directories == ("/a", "/a/b")
    assert list(deep.files) == ["/a/b/file"]
    again = tmp_path / "again"
    again.mkdir()
    export_image(deep, "/", again)
    assert (again / "a" / "b" / "file").read_bytes() == b"x"
