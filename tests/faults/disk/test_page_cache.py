import pytest
from hypothesis import given
from hypothesis import strategies as st

from tornlog.faults.disk.image import FileImage
from tornlog.faults.disk.page_cache import Inode

PAGE = 16
SIZE = 64


def make_inode() -> Inode:
    inode = Inode(0, PAGE, 0)
    inode.writable_cache(SIZE)
    return inode


def test_a_page_beyond_the_surviving_size_is_not_dirty() -> None:
    inode = make_inode()
    inode.write(1, 14, b"a" * 30, 0)

    assert [page for page, _ in inode.dirty_pages(SIZE)] == [0, 1, 2]
    assert [page for page, _ in inode.dirty_pages(17)] == [0, 1]
    assert inode.dirty_pages(0) == []


def test_a_page_dropped_by_a_failed_sync_is_clean_but_not_durable() -> None:
    inode = make_inode()
    inode.write(1, 0, b"lost", 0)
    inode.fail_write_back(2, 0, SIZE)
    inode.make_durable(3, 0, SIZE)

    assert inode.content()[:4] == b"lost"
    assert inode.durable_bytes(SIZE) == bytes(SIZE)
    assert not inode.is_clean


def test_a_failed_sync_drops_only_pages_in_its_range() -> None:
    inode = make_inode()
    inode.write(1, 10, b"a" * 12, 0)
    inode.fail_write_back(2, 16, 32)
    inode.make_durable(3, 0, SIZE)

    assert inode.durable_bytes(SIZE) == bytes(10) + b"a" * 6 + bytes(48)


def test_a_page_written_during_a_failing_sync_stays_dirty_with_all_writes() -> None:
    inode = make_inode()
    inode.write(1, 0, b"first", 0)
    inode.write(3, 5, b"second", 0)
    inode.fail_write_back(2, 0, SIZE)
    inode.make_durable(4, 0, SIZE)

    assert inode.durable_bytes(SIZE)[:11] == b"firstsecond"


def test_writing_any_byte_of_a_dropped_page_makes_the_whole_page_dirty() -> None:
    inode = make_inode()
    inode.write(1, 0, b"lost", 0)
    inode.fail_write_back(2, 0, SIZE)
    inode.write(3, 9, b"x", 0)

    assert inode.durable_bytes(SIZE) == bytes(SIZE)

    inode.make_durable(4, 0, SIZE)

    assert inode.durable_bytes(SIZE) == inode.content()
    assert inode.is_clean


def test_views_of_a_smaller_map_stay_readable_when_the_file_grows() -> None:
    inode = make_inode()
    inode.write(1, 0, b"old", 0)
    view = inode.readable[0:3]
    inode.writable_cache(SIZE * 2)
    inode.write(2, 0, b"new", 0)

    assert bytes(view) == b"old"
    assert inode.content() == b"new" + bytes(SIZE * 2 - 3)


def test_an_untouched_file_of_an_image_is_never_copied() -> None:
    loaded = FileImage(b"x" * SIZE, 7)
    inode = Inode(0, PAGE, 0, loaded)

    assert inode.content() is loaded.content
    assert inode.durable_bytes(SIZE) is loaded.content

    inode.writable_cache(SIZE)

    assert inode.content() is loaded.content

    inode.write(1, 0, b"y", 0)

    assert inode.content() == b"y" + b"x" * (SIZE - 1)
    assert inode.durable_bytes(SIZE) is loaded.content


@st.composite
def byte_ranges(draw: st.DrawFn) -> tuple[int, int]:
    start = draw(st.integers(0, SIZE - 1))
    return start, draw(st.integers(start + 1, SIZE))


WRITE = st.tuples(st.just("write"), byte_ranges(), st.integers(1, 255))
SYNC = st.tuples(st.just("sync"), byte_ranges(), st.integers(0, 5))
DROP = st.tuples(st.just("drop"), byte_ranges(), st.just(0))


@given(st.lists(st.one_of(WRITE, WRITE, SYNC), max_size=30))
def test_visible_content_equals_durable_pages_plus_pending_writes(
    steps: list[tuple[str, tuple[int, int], int]],
) -> None:
    inode = make_inode()
    history = [(0, bytes(SIZE))]  # (number, whole state), oldest first
    synced = [bytes(PAGE)] * (SIZE // PAGE)
    synced_upto = [0] * (SIZE // PAGE)
    for number, (kind, (start, end), value) in enumerate(steps, 1):
        if kind == "write":
            data = bytes([value]) * (end - start)
            inode.write(number, start, data, 0)
            state = history[-1][1]
            history.append((number, state[:start] + data + state[end:]))
        else:
            upto = number - value  # the sync was submitted before the last operations
            inode.make_durable(upto, start, end)
            for page in range(start // PAGE, (end - 1) // PAGE + 1):
                if upto >= synced_upto[page]:
                    state = max(entry for entry in history if entry[0] <= max(upto, 0))[1]
                    synced[page], synced_upto[page] = state[page * PAGE : (page + 1) * PAGE], upto

    durable = bytearray(inode.durable_bytes(SIZE))
    assert durable == b"".join(synced)
    for _, at, data in inode.pending:
        durable[at : at + len(data)] = data
    assert durable == inode.content() == history[-1][1]


@given(st.lists(st.one_of(WRITE, WRITE, SYNC, DROP), max_size=30))
def test_after_failed_syncs_visible_and_durable_content_differ_only_in_stale_pages(
    steps: list[tuple[str, tuple[int, int], int]],
) -> None:
    inode = make_inode()
    for number, (kind, (start, end), value) in enumerate(steps, 1):
        if kind == "write":
            inode.write(number, start, bytes([value]) * (end - start), 0)
        elif kind == "sync":
            inode.make_durable(number - value, start, end)
        else:
            inode.fail_write_back(number, start, end)

    durable = bytearray(inode.durable_bytes(SIZE))
    for _, at, data in inode.pending:
        durable[at : at + len(data)] = data
    for page in range(SIZE // PAGE):
        if page not in inode.stale:
            assert durable[page * PAGE :][:PAGE] == inode.content()[page * PAGE :][:PAGE]


def test_visible_bytes_of_clean_pages_are_durable() -> None:
    inode = make_inode()
    inode.write(1, 0, b"dropped", 0)
    inode.fail_write_back(2, 0, SIZE)
    inode.write(3, 20, b"pending", 0)

    assert not inode.has_durable(0, 1)
    assert inode.has_durable(7, 17), "dropped with the page, but the disk had these bytes before"
    assert inode.has_durable(16, 20)
    assert not inode.has_durable(16, 21)
    assert inode.has_durable(27, SIZE)

    inode.make_durable(4, 0, SIZE)
    assert inode.has_durable(16, SIZE)


def test_rewriting_equal_bytes_once_keeps_them_durable() -> None:
    inode = make_inode()
    inode.write(1, 0, b"synced", 0)
    inode.make_durable(2, 0, SIZE)
    inode.write(3, 0, b"synced", 0)
    assert inode.has_durable(0, 6)

    inode.write(4, 0, b"S", 0)
    inode.write(5, 0, b"s", 0)
    assert not inode.has_durable(0, 6)
    assert inode.has_durable(1, 6)


def test_a_sync_covers_the_pages_in_its_range_that_were_written_before_it() -> None:
    inode = Inode(0, 8, 0)
    inode.write(1, 6, b"abcd", 0)
    inode.write(2, 24, b"e", 0)
    inode.write(5, 32, b"late", 0)

    assert inode.covered_pages(4, 0, 40) == [0, 1, 3]
    assert inode.covered_pages(4, 9, 10) == [1]
    assert inode.covered_pages(0, 0, 40) == []


def grown_inode(*sizes: int) -> Inode:
    inode = Inode(1, 4096, 0)
    for number, size_bytes in enumerate(sizes):
        inode.writable_cache(size_bytes)[size_bytes - 1] = number + 1
    return inode


def test_a_growing_file_is_filled_with_zeros() -> None:
    inode = grown_inode(10, 5_000, 5_001)

    assert inode.content() == b"\0" * 9 + b"\1" + b"\0" * 4_989 + b"\2\3"
    assert bytes(inode.readable) == inode.content()


def test_a_file_without_views_grows_in_place() -> None:
    inode = grown_inode(10)
    before = inode.cache
    inode.writable_cache(1_000)

    assert inode.cache is before


def test_a_view_keeps_its_bytes_when_the_file_grows() -> None:
    inode = grown_inode(10)
    view = inode.readable[5:10]
    inode.write(1, 8, b"new and longer", 0)

    assert bytes(view) == b"\0\0\0\0\1"
    assert inode.content() == b"\0" * 8 + b"new and longer"
    inode.write(2, 5, b"changed", 0)
    assert bytes(view) == b"\0\0\0\0\1"


def test_empty_files_do_not_share_a_buffer() -> None:
    one, other = Inode(1, 4096, 0), Inode(2, 4096, 0)
    one.writable_cache(3)[0] = 7

    assert other.content() == b""
    assert other.writable_cache(3) == b"\0\0\0"


def test_writes_with_a_lower_operation_number_are_refused() -> None:
    inode = make_inode()
    inode.write(2, 0, b"late", 0)

    with pytest.raises(AssertionError):
        inode.write(1, 8, b"early", 0)


def test_only_a_stale_page_can_be_reverted() -> None:
    inode = make_inode()
    inode.write(1, 0, b"dirty", 0)

    with pytest.raises(AssertionError):
        inode.revert_stale_page(0)
