"""The page cache of a file that grows write by write: in place while nobody looks, and under nobody's eyes."""

from tornlog.faults.disk.page_cache import Inode


def grown(*sizes: int) -> Inode:
    inode = Inode(1, 4096, 0)
    for number, size_bytes in enumerate(sizes):
        inode.thaw(size_bytes)[size_bytes - 1] = number + 1
    return inode


def test_what_a_file_grows_by_is_zeros() -> None:
    inode = grown(10, 5_000, 5_001)

    assert inode.content() == b"\0" * 9 + b"\1" + b"\0" * 4_989 + b"\2\3"
    assert bytes(inode.readable) == inode.content()


def test_a_file_that_nobody_looks_at_grows_in_place() -> None:
    inode = grown(10)
    before = inode.cache
    inode.thaw(1_000)

    assert inode.cache is before


def test_a_view_stays_what_it_was_when_the_file_grows() -> None:
    inode = grown(10)
    view = inode.readable[5:10]
    inode.write(1, 8, b"new and longer", 0)

    assert bytes(view) == b"\0\0\0\0\1"
    assert inode.content() == b"\0" * 8 + b"new and longer"
    inode.write(2, 5, b"changed", 0)
    assert bytes(view) == b"\0\0\0\0\1"


def test_two_files_never_share_their_emptiness() -> None:
    one, other = Inode(1, 4096, 0), Inode(2, 4096, 0)
    one.thaw(3)[0] = 7

    assert other.content() == b""
    assert other.thaw(3) == b"\0\0\0"
