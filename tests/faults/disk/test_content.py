"""Sparse content behaves as bytes, and its cost is the data."""

from hashlib import blake2b
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tornlog.faults.disk.content import PAGE_BYTES, Content, SparseBytes, first_difference, with_pages_replaced
from tornlog.faults.disk.export import write_file
from tornlog.faults.disk.image import FileImage
from tornlog.faults.disk.sparse_inode import SparseInode

GIB = 1 << 30
CHANGES = st.lists(
    st.one_of(
        st.tuples(st.just("write"), st.integers(0, 4 * PAGE_BYTES), st.binary(min_size=1, max_size=2 * PAGE_BYTES)),
        st.tuples(st.just("zero"), st.integers(0, 4 * PAGE_BYTES), st.integers(1, 2 * PAGE_BYTES)),
        st.tuples(st.just("resize"), st.integers(0, 5 * PAGE_BYTES), st.just(0)),
    ),
    max_size=12,
)


def apply_change(sparse: SparseBytes, plain: bytearray, kind: str, at: int, more: bytes | int) -> None:
    if kind == "resize":
        sparse.resize(at)
        plain[:] = plain[:at].ljust(at, b"\0")
        return
    data = more if isinstance(more, bytes) else bytes(more)
    end = at + len(data)
    if end > len(plain):
        sparse.resize(end)
        plain[:] = plain.ljust(end, b"\0")
    sparse[at:end] = data
    plain[at:end] = data


@given(CHANGES, st.integers(0, 5 * PAGE_BYTES), st.integers(0, 5 * PAGE_BYTES))
def test_sparse_content_behaves_like_bytes(changes: list[tuple[str, int, bytes | int]], start: int, end: int) -> None:
    sparse, plain = SparseBytes(), bytearray()
    for kind, at, more in changes:
        apply_change(sparse, plain, kind, at, more)

    assert (len(sparse), bytes(sparse), sparse[start:end]) == (len(plain), bytes(plain), bytes(plain[start:end]))
    assert sparse == SparseBytes.from_content(bytes(plain)) == bytes(plain)
    assert sparse.digest() == blake2b(bytes(plain), digest_size=16).digest()
    again = bytearray(len(plain))
    for at, data in sparse.extents():
        again[at : at + len(data)] = data
    assert again == plain
    assert all(any(sparse[page * PAGE_BYTES : (page + 1) * PAGE_BYTES]) for page in sparse.pages())


@given(CHANGES, CHANGES)
def test_a_patch_with_the_changed_pages_turns_one_content_into_the_other(
    changes: list[tuple[str, int, bytes | int]], more: list[tuple[str, int, bytes | int]]
) -> None:
    contents = SparseBytes(), SparseBytes()
    for content, made in zip(contents, (changes, more), strict=True):
        for change in made:
            apply_change(content, bytearray(bytes(content)), *change)
    one, other = contents

    assert one.patched(len(other), one.changed_pages(other)) == other


def test_a_file_with_more_pages_than_one_call_can_write_is_exported(tmp_path: Path) -> None:
    content = SparseBytes.from_content(b"".join(b"%04096d" % page for page in range(1, 1101)) + b"end")
    write_file(str(tmp_path / "file"), FileImage(content, 0))

    assert (tmp_path / "file").read_bytes() == bytes(content)


@given(CHANGES, CHANGES)
def test_the_digest_of_long_content_follows_its_changes(
    changes: list[tuple[str, int, bytes | int]], more: list[tuple[str, int, bytes | int]]
) -> None:
    followed = SparseBytes(GIB)
    for kind, at, data in changes + more:
        if kind != "resize":
            written = data if isinstance(data, bytes) else bytes(data)
            followed[at : at + len(written)] = written
            followed.digest()

    assert followed.digest() == SparseBytes(GIB, {page: page_of(followed, page) for page in followed.pages()}).digest()
    followed.resize(GIB + 1)
    assert followed.digest() != SparseBytes(GIB).digest()


def page_of(content: SparseBytes, page: int) -> bytes:
    return content[page * PAGE_BYTES : (page + 1) * PAGE_BYTES]


def test_the_memory_of_a_long_sparse_file_is_that_of_its_data() -> None:
    content = SparseBytes(GIB)
    content[GIB - 3 : GIB] = b"end"
    content[5000:5003] = b"mid"

    assert content.data_bytes == 2 * PAGE_BYTES
    assert [(at, len(data)) for at, data in content.extents()] == [(PAGE_BYTES, PAGE_BYTES), (GIB - 4096, 4096)]


@pytest.mark.parametrize("make", [bytes, SparseBytes.from_content])
def test_unchanged_content_remains_the_same_object(make: type[bytes]) -> None:
    content: Content = make(b"a" * 5000)

    assert with_pages_replaced(content, {0: b"aaa", 4096: b"a"}) is content
    changed = with_pages_replaced(content, {4096: b"b"})
    assert bytes(changed) == b"a" * 4096 + b"b" + b"a" * 903
    assert bytes(content) == b"a" * 5000


@given(st.binary(max_size=40), st.binary(max_size=40), st.booleans(), st.sampled_from([0, 1, PAGE_BYTES]))
def test_first_difference_returns_the_lowest_differing_offset(
    one: bytes, other: bytes, is_sparse: bool, before_bytes: int
) -> None:
    left, right = bytes(before_bytes) + one, bytes(before_bytes) + other
    make = SparseBytes.from_content if is_sparse else bytes
    shorter = min(len(left), len(right))
    differing = (at for at in range(shorter) if left[at] != right[at])
    expected = next(differing, shorter if len(left) != len(right) else None)

    assert first_difference(make(left), make(right)) == expected


def test_truncating_a_long_file_keeps_it_sparse() -> None:
    long = SparseInode(1, PAGE_BYTES, 0)
    long.writable_cache(GIB)
    long.write(1, 5, b"data", 0)
    truncated = long.cut(2, GIB - 1, 0)
    assert isinstance(truncated, SparseInode)
    content = truncated.content()
    assert isinstance(content, SparseBytes)
    assert content.data_bytes == PAGE_BYTES
