from typing import Any

import pytest

from tornlog.store.log.segment import Segment
from tornlog.store.log.transient_pool import BufferedSegment, BufferedSegmentQueue, TransientStorePool
from tornlog.store.world import World

BASE = 4096


def queue_of(world: World, *buffered: bool) -> BufferedSegmentQueue:
    """Return a queue that does not begin at 0 and has 100-byte segments with and without a buffer."""
    queue = BufferedSegmentQueue(world, "/queue", 100, "test")
    pool = TransientStorePool(world, 100, len(buffered))
    pool.fill()
    world.files.make_directories("/queue")
    for number, is_buffered in enumerate(buffered):
        base = (BASE // 100 + number) * 100
        file = world.files.map(queue.path(base), 100)
        buffer = pool.borrow_buffer() if is_buffered else None
        if buffer is None:
            queue.add(Segment(world.tasks, file, base, "test"))
        else:
            queue.add(BufferedSegment(world.tasks, file, base, "test", pool=pool, buffer=buffer))
    return queue


def test_an_empty_buffered_queue_has_nothing_to_commit(world: World) -> None:
    queue = queue_of(world)
    assert (queue.commit(), queue.committed_where, queue.max_offset) == (0, 0, 0)


def test_a_commit_covers_every_segment_in_order_from_a_nonzero_base(world: World) -> None:
    queue = queue_of(world, True, True, True)
    assert queue.max_offset == 4000
    for segment in queue.segments[:2]:
        segment.append(0, b"x" * 100)
    queue.segments[2].append(0, b"x" * 7)
    assert queue.max_offset == 4000

    assert queue.commit(0) == 4207
    assert (queue.committed_where, queue.max_offset) == (4207, 4207)
    queue.flush_all()
    assert queue.flushed_where.get() == 4207


def test_readers_stop_at_the_first_partly_committed_segment(world: World) -> None:
    queue = queue_of(world, True, False, False)
    for segment in queue.segments[:2]:
        segment.append(0, b"x" * 100)
    queue.segments[2].append(0, b"x" * 7)
    assert queue.max_offset == 4000
    queue.flush_all()
    assert queue.flushed_where.get() == 4000

    assert queue.commit(0) == 4207
    queue.segments[2].append(7, b"x")
    assert (queue.committed_where, queue.commit(4)) == (4208, 4208)


def test_fewer_than_the_minimum_pages_are_committed_only_if_the_segment_is_full(world: World) -> None:
    queue = queue_of(world, True, True)
    queue.segments[0].append(0, b"x" * 100)
    queue.segments[1].append(0, b"x" * 7)
    assert queue.commit(4) == 4100
    assert queue.commit(0) == 4107


def test_earlier_commits_survive_a_failed_write(world: World, bench: Any) -> None:
    bench.failures.plan("pwrite", "00000000000000004100")
    queue = queue_of(world, True, True)
    queue.segments[0].append(0, b"x" * 100)
    queue.segments[1].append(0, b"x" * 7)
    with pytest.raises(OSError, match="Input/output"):
        queue.commit(0)
    assert queue.committed_where == 4100
    assert queue.commit(0) == 4107


def test_the_committed_end_is_correct_after_first_or_last_segments_were_removed(world: World) -> None:
    queue = queue_of(world, False, False, False, False)
    for segment in queue.segments:
        segment.append(0, b"x" * 100)
    assert queue.committed_where == 4400
    queue.segments = queue.segments[2:]
    assert queue.committed_where == 4400
    queue.truncate(4250)
    assert queue.committed_where == 4250


def test_the_committed_end_is_correct_if_a_segment_is_added_while_it_is_read(world: World) -> None:
    queue = queue_of(world, False, False)
    newest = queue.segments[1]
    queue.segments = queue.segments[:1]

    class Growing(BufferedSegmentQueue):
        @property
        def _open_base(self) -> int:  # type: ignore[override]
            """Add and open a segment, as other tasks may do between two reads of attributes."""
            self.segments = (*self.segments[:1], newest)
            return newest.base_offset

        @_open_base.setter
        def _open_base(self, base: int) -> None:
            assert base <= newest.base_offset

    queue.segments[0].append(0, b"x" * 100)
    queue.__class__ = Growing
    assert queue.committed_where == 4100
