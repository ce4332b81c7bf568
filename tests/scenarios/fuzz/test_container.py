import pytest
from hypothesis import given
from hypothesis import strategies as st

from tornlog.scenarios.fuzz.container import (
    DirectoryContent,
    directory_of_image,
    entry_parts,
    pack_directory,
    unpack_directory,
)

NAMES = st.text(st.characters(codec="utf-8", exclude_characters="/\0"), min_size=1, max_size=8).filter(
    lambda name: name not in (".", "..")
)
ENTRIES = st.dictionaries(NAMES, st.none() | st.binary(max_size=30), max_size=5)


@given(ENTRIES, st.integers(0, 255))
def test_an_unpacked_fuzz_input_equals_the_packed_directory(entries: dict[str, bytes | None], settings: int) -> None:
    directory = DirectoryContent(settings, entries)
    raw = pack_directory(directory)

    assert unpack_directory(raw) == directory
    assert len(list(entry_parts(raw))) == len(entries)
    for part in entry_parts(raw):
        left = unpack_directory(raw[: part.start] + raw[part.end :])
        assert left is not None
        assert len(left.entries) == len(entries) - 1


@given(st.binary(max_size=60), st.integers(0, 60))
def test_any_bytes_are_unpacked_or_refused(noise: bytes, at: int) -> None:
    raw = pack_directory(DirectoryContent(0, {"a": b"1234", "b": None, "b/c": b""}))
    broken = raw[:at] + noise + raw[at + len(noise) :]
    for candidate in (noise, b"TLD1\0" + noise, broken):
        directory = unpack_directory(candidate)
        if directory is not None:
            assert pack_directory(directory) == candidate


@pytest.mark.parametrize("path", ["", "a//b", "/a", "a/", ".", "a/../b", "a\0b", "x" * 256])
def test_impossible_paths_in_a_fuzz_input_are_refused(path: str) -> None:
    assert unpack_directory(pack_directory(DirectoryContent(0, {path: b""}))) is None


def test_paths_below_a_file_and_repeated_paths_are_refused() -> None:
    assert unpack_directory(pack_directory(DirectoryContent(0, {"a": b"", "a/b/c": b""}))) is None
    once = pack_directory(DirectoryContent(0, {"a": b""}))
    assert unpack_directory(once + once[5:]) is None


def test_an_image_of_a_directory_has_parent_directories_and_converts_back() -> None:
    directory = DirectoryContent(1, {"a": None, "b/c/d": b"x"})
    image = directory.image("/store", 7)

    assert image.directories == ("/store", "/store/a", "/store/b", "/store/b/c")
    assert image.files["/store/b/c/d"].mtime_ms == 7
    assert directory_of_image(image, "/store", 1) == DirectoryContent(
        1, {"a": None, "b": None, "b/c": None, "b/c/d": b"x"}
    )
