from typing import Any

import pytest

from tornlog.store.errors import CorruptFileError
from tornlog.store.log.segment import segment_name
from tornlog.store.log.segment_queue import SegmentQueue
from tornlog.store.world import World

SIZE = 100
DIRECTORY = "/log"


def queue_of(world: World) -> SegmentQueue:
    return SegmentQueue(world, DIRECTORY, SIZE, "log")


def filled(world: World, count: int, first: int = 0, last_bytes: int = SIZE) -> SegmentQueue:
    """Make a queue of full segments; the last one has last_bytes."""
    queue = queue_of(world)
    for number in range(first, first + count):
        segment = queue.create(number * SIZE)
        segment.append(segment.wrote.get(), b"x" * (last_bytes if number == first + count - 1 else SIZE))
    return queue


def names(world: World) -> list[int]:
    return [int(name) for name in world.files.list_directory(DIRECTORY)]


def test_an_empty_segment_queue_has_an_end_offset_and_no_first_offset(world: World) -> None:
    queue = queue_of(world)
    queue.load()

    assert (queue.min_offset, queue.max_offset) == (-1, 0)
    assert queue.find(0) is queue.last_segment() is None
    assert not queue.flush()
    assert not queue.truncate(0)


def test_an_offset_is_found_in_the_segment_that_contains_it(world: World) -> None:
    queue = filled(world, 3, first=5, last_bytes=30)

    assert (queue.min_offset, queue.max_offset) == (500, 730)
    assert [getattr(queue.find(at), "base_offset", None) for at in (499, 500, 599, 600, 799, 800)] == [
        None,
        500,
        500,
        600,
        700,
        None,
    ]


def test_each_flush_of_a_segment_queue_covers_one_more_segment(world: World, bench: Any) -> None:
    queue = filled(world, 3, first=5, last_bytes=30)
    moves = []
    while queue.flush():
        moves.append(queue.flushed_where.get())
    assert moves == [600, 700, 730]

    queue = filled(world, 2, first=5)
    bench.failures.plan("msync", segment_name(600))
    with pytest.raises(OSError, match="Input/output error"):
        queue.flush_all()
    assert queue.flushed_where.get() == 600


def test_truncating_removes_segments_from_the_end_and_zeroes_the_rest(world: World, bench: Any) -> None:
    queue = filled(world, 4, last_bytes=30)
    queue.flush_all()
    bench.failures.calls.clear()
    assert queue.truncate(150)
    assert not queue.truncate(150)

    assert names(world) == [0, 100]
    assert (queue.max_offset, queue.flushed_where.get()) == (150, 150)
    assert world.files.read(f"{DIRECTORY}/{segment_name(100)}") == b"x" * 50 + bytes(50)
    removals = [call for call in bench.failures.calls if call[0] in ("unlink", "sync_directory")]
    assert removals[:4] == [
        ("unlink", f"{DIRECTORY}/{segment_name(300)}"),
        ("sync_directory", DIRECTORY),
        ("unlink", f"{DIRECTORY}/{segment_name(200)}"),
        ("sync_directory", DIRECTORY),
    ]


def test_an_empty_segment_queue_can_begin_at_any_offset(world: World) -> None:
    queue = queue_of(world)
    queue.create(0)
    queue.remove_unused()

    assert names(world) == []
    assert (queue.min_offset, queue.max_offset) == (-1, 0)
    queue.create(5 * SIZE)
    assert (queue.min_offset, queue.max_offset) == (5 * SIZE, 5 * SIZE)
    assert queue.flushed_where.get() == 5 * SIZE


@pytest.mark.parametrize("call", ["unlink", "sync_directory"])
def test_an_unused_segment_is_forgotten_even_if_its_removal_fails_and_is_retried(
    world: World, bench: Any, call: str
) -> None:
    queue = queue_of(world)
    queue.create(0)
    bench.failures.plan(call, segment_name(0) if call == "unlink" else DIRECTORY)
    with pytest.raises(OSError, match="Input/output error"):
        queue.remove_unused()
    assert queue.segments == (), "nothing may be put into a file that has lost its name"
    assert names(world) == ([0] if call == "unlink" else [])

    bench.failures.calls.clear()
    queue.remove_unused()
    assert names(world) == []
    assert ("sync_directory", DIRECTORY) in bench.failures.calls, "for good"
    bench.failures.calls.clear()
    queue.remove_unused()
    assert bench.failures.calls == []


def test_closing_the_queue_unmaps_a_segment_whose_removal_failed(world: World, bench: Any) -> None:
    queue = queue_of(world)
    segment = queue.create(0)
    bench.failures.plan("unlink", segment_name(0))
    with pytest.raises(OSError, match="Input/output error"):
        queue.remove_unused()
    segment.file.store(0, b"x")

    queue.close()
    with pytest.raises(ValueError, match="the map is closed"):
        segment.file.store(0, b"x")


@pytest.mark.parametrize(
    ("spoilt", "content", "left"),
    [
        (300, b"", [0, 100, 200]),
        (300, bytes(40), [0, 100, 200]),
        (200, b"", None),
        (300, b"data", None),
        (300, bytes(101), None),
        (300, b"x" * 101, None),
        (0, b"", None),
    ],
)
def test_an_incomplete_last_segment_is_removed_but_damage_before_data_is_refused(
    spoilt: int, content: bytes | None, left: list[int] | None, world: World
) -> None:
    """left: the segments that a load keeps, or None if the load raises an error."""
    filled(world, 4)
    path = f"{DIRECTORY}/{segment_name(spoilt)}"
    world.files.unlink(path)
    if content is not None:
        world.files.write(path, content)
    queue = queue_of(world)
    if left is None:
        before = names(world)
        with pytest.raises(CorruptFileError) as raised:
            queue.load()
        assert raised.value.file.startswith(DIRECTORY)
        assert names(world) == before
    else:
        queue.load()
        assert names(world) == [segment.base_offset for segment in queue.segments] == left
        assert queue.max_offset == len(left) * SIZE


@pytest.mark.parametrize("name", ["x", "0", segment_name(50), "9" * 18 + "00", "0000000000000000010x", "\u0660" * 20])
def test_a_foreign_file_name_among_the_segments_is_damage(name: str, world: World) -> None:
    filled(world, 1)
    world.files.write(f"{DIRECTORY}/{name}", bytes(SIZE))
    with pytest.raises(CorruptFileError, match="file name"):
        queue_of(world).load()


def test_a_directory_among_the_segments_is_damage(world: World) -> None:
    filled(world, 1)
    world.files.make_directories(f"{DIRECTORY}/{segment_name(SIZE)}")
    with pytest.raises(CorruptFileError, match="a directory"):
        queue_of(world).load()


def test_making_a_segment_queue_durable_syncs_data_sizes_and_names(world: World, bench: Any) -> None:
    queue = filled(world, 3)
    bench.failures.calls.clear()
    queue.make_durable(1)

    assert queue.flushed_where.get() == 300
    assert bench.failures.calls[-3:] == [
        ("sync", f"{DIRECTORY}/{segment_name(100)}"),
        ("sync", f"{DIRECTORY}/{segment_name(200)}"),
        ("sync_directory", DIRECTORY),
    ]


def test_the_removal_of_the_first_segment_is_durable_before_the_min_offset_advances(world: World, bench: Any) -> None:
    queue = filled(world, 3, first=5, last_bytes=30)
    assert not queue.remove_first()  # the segment is not durable, and a flush needs it
    queue.flush_all()
    kept = queue.segments[0].file.view(0, SIZE)
    assert queue.remove_first()
    assert (queue.min_offset, queue.max_offset, queue.flushed_where.get()) == (600, 730, 730)
    assert names(world) == [600, 700]
    assert bytes(kept) == b"x" * SIZE

    assert queue.remove_first()
    assert not queue.remove_first()  # the last segment is never removed
    assert names(world) == [700]
    calls = [call for call in bench.failures.calls if call[0] in ("unlink", "sync_directory")]
    assert calls[:2] == [("unlink", "/log/" + segment_name(500)), ("sync_directory", "/log")]


@pytest.mark.parametrize("method", ["unlink", "sync_directory"])
def test_a_failed_removal_of_the_first_segment_changes_nothing_and_can_be_repeated(
    world: World, bench: Any, method: str
) -> None:
    queue = filled(world, 3)
    queue.flush_all()
    bench.failures.plan(method, "/log")
    with pytest.raises(OSError, match="Input/output error"):
        queue.remove_first()
    assert (queue.min_offset, len(queue.segments)) == (0, 3)
    assert bytes(queue.segments[0].file.view(0, 3)) == b"xxx"

    assert queue.remove_first()
    assert names(world) == [100, 200]


def test_loading_a_segment_queue_reports_each_gap_and_keeps_the_files_around_it(world: World) -> None:
    filled(world, 9)
    for number in (1, 4):
        world.files.unlink(f"{DIRECTORY}/{segment_name(number * SIZE)}")
    kept = names(world)
    for base in kept:
        world.files.set_mtime_ms(f"{DIRECTORY}/{segment_name(base)}", 0)

    queue = queue_of(world)
    queue.load()

    assert [segment.base_offset for segment in queue.segments] == names(world) == kept
    assert [str(gap) for gap in queue.gaps] == [
        f"{DIRECTORY}/{segment_name(after)} @ 0: base offset: "
        f"expected the next segment, {segment_name(missing)}, found {segment_name(after)}"
        for missing, after in ((100, 200), (400, 500))
    ]
    queue.load()
    assert len(queue.gaps) == 2


def test_an_offset_in_a_gap_is_in_no_segment(world: World) -> None:
    filled(world, 6)
    for number in (1, 3, 4):
        world.files.unlink(f"{DIRECTORY}/{segment_name(number * SIZE)}")
    queue = queue_of(world)
    queue.load()

    found = [queue.find(offset) for offset in (-1, 0, 99, 100, 199, 200, 299, 300, 499, 500, 599, 600)]
    bases = [None if one is None else one.base_offset for one in found]
    assert bases == [None, 0, 0, None, None, 200, 200, None, None, 500, 500, None]
    numbers = [queue.segment_index_of(offset) for offset in (-1, 0, 100, 200, 499, 500, 600)]
    assert numbers == [0, 0, 0, 1, 1, 2, 2]


def test_a_flush_continues_after_a_gap(world: World) -> None:
    filled(world, 5)
    world.files.unlink(f"{DIRECTORY}/{segment_name(2 * SIZE)}")
    queue = queue_of(world)
    queue.load()
    for segment in queue.segments:
        segment.set_positions(SIZE, 0)
    queue.flushed_where.set(0)

    queue.flush_all()

    assert queue.flushed_where.get() == queue.max_offset == 500
    assert [queue.remove_first() for _ in range(5)] == [True, True, True, False, False]
    assert names(world) == [400]


def test_an_empty_last_file_after_a_gap_is_removed(world: World) -> None:
    filled(world, 2)
    world.files.map(f"{DIRECTORY}/{segment_name(5 * SIZE)}", SIZE)
    queue = queue_of(world)
    queue.load()
    assert (queue.min_offset, names(world), queue.gaps) == (0, [0, 100], [])
