"""A crash anywhere in a pass leaves a log without gaps and with all unexpired messages (I-14, CLEAN)."""

from typing import Any

import pytest

from tests.store.rigs import Make
from tornlog.faults.crashes.profiles import PROFILES
from tornlog.faults.disk.image import FileImage, Image
from tornlog.store.formats.messages import Message
from tornlog.store.log.segment import segment_name
from tornlog.store.world import World

from .conftest import SEGMENT_BYTES

EXPIRED = 6
PUTS = 24


def store_with_expired_segments(shop: Make, world: World) -> Any:
    """Make a store with expired segments at the front. All messages of topic Old have expired."""
    found = shop(world, delete_commit_log_files_interval_ms=10).start()
    for number in range(0, PUTS, 2):
        found.put(range(number, number + 1), "Old" if number < EXPIRED * 2 else "T")
        found.put(range(number + 1, number + 2))
    return found.settle().age(2, EXPIRED)


# -- files that come back ------------------------------------------------------------------------------------


@pytest.fixture
def cleaned(lab: Make, shop: Make) -> tuple[dict[str, FileImage], Image]:
    """Return the files of the log before a pass, and the disk after it."""
    bench = lab()
    before: dict[str, FileImage] = {}

    def body(world: World) -> None:
        found = store_with_expired_segments(shop, world)
        for segment in found.store.log.segments:
            status = world.files.status(segment.file.path)
            before[segment.file.path] = FileImage(world.files.read(segment.file.path), status.mtime_ms)
        found.clean()
        assert found.store.shutdown()

    bench.run(body)
    return before, bench.switch_off()


def with_reappeared_segments(cleaned: tuple[dict[str, FileImage], Image], *numbers: int) -> Image:
    """Return the disk after the pass, with some of the removed segments restored."""
    before, image = cleaned
    paths = ["/store/commitlog/" + segment_name(number * SEGMENT_BYTES) for number in numbers]
    return Image({**image.files, **{path: before[path] for path in paths}}, image.directories)


def test_a_reappeared_segment_directly_before_the_log_belongs_to_it(lab: Make, shop: Make, cleaned: Any) -> None:
    def body(world: World) -> None:
        found = shop(world)
        assert found.store.min_phy_offset == (EXPIRED - 2) * SEGMENT_BYTES
        first = found.store.get_min_offset_in_queue("T", 0)
        assert first == EXPIRED - 2
        assert found.bodies(first) == [9, 11, *range(12, PUTS)]
        found.start().clean(ms=15_000)
        assert found.store.min_phy_offset == EXPIRED * SEGMENT_BYTES

    lab(with_reappeared_segments(cleaned, EXPIRED - 2, EXPIRED - 1)).run(body)


@pytest.mark.parametrize("back", [(0,), (0, 1), (1, 3), (0, 2, 4)])
def test_reappeared_segments_before_a_gap_are_kept_until_retention_removes_them(
    lab: Make, shop: Make, cleaned: Any, back: tuple[int, ...]
) -> None:
    def body(world: World) -> None:
        found = shop(world)
        assert found.log_bases() == [*back, *range(EXPIRED, PUTS // 2)]
        assert [one.field for one in found.store.last_recovery.findings].count("base offset") == gaps
        found.start().clean(ms=15_000)
        assert found.log_bases()[0] == EXPIRED
        assert found.bodies(EXPIRED) == list(range(12, PUTS))

    gaps = sum(after - number > 1 for number, after in zip(back, (*back[1:], EXPIRED), strict=True))
    lab(with_reappeared_segments(cleaned, *back)).run(body)


def test_a_queue_keeps_its_next_offset_after_expiry_and_a_crash(lab: Make, shop: Make) -> None:
    """If its only file did not count as a queue, new messages would get offsets that consumers already know."""
    bench = lab()

    def body(world: World) -> None:
        found = shop(world).start().put(range(10), "Old").settle()
        found.put(range(10, 11), "Old").settle().age(2, 5).clean()
        assert found.log_bases() == [5, 6], "one is made ahead"
        assert found.queue_bases("Old") == [10]

    bench.run(body)
    image = bench.switch_off(abruptly=True)
    lost = [path for path in image.files if path.startswith(("/store/commitlog/", "/store/consumequeue/Old/"))]
    assert len(lost) == 3
    zeroed = {path: FileImage(bytes(len(image.files[path].content)), 0) for path in lost}

    def again(world: World) -> None:
        found = shop(world).start()
        assert found.store.get_min_offset_in_queue("Old", 0) == 10
        assert found.store.get_max_offset_in_queue("Old", 0) == 10
        assert found.put(range(11, 13), "Old").settle().bodies(10, "Old") == [11, 12]
        assert found.store.shutdown()
        assert shop(world).bodies(10, "Old") == [11, 12]

    lab(Image({**image.files, **zeroed}, image.directories)).run(again)


def test_queue_offsets_continue_after_almost_all_messages_expired(lab: Make, shop: Make) -> None:
    """If the log were removed before queue entries are durable, offsets would restart at 0 after a power cut."""
    bench = lab()

    def body(world: World) -> None:
        found = shop(world, file_reserved_time_hours=0).start().put(range(5), "Old").put(range(15))
        world.tasks.sleep(100)
        found.store.flush.flush_to(found.store.max_phy_offset)
        found.clean(ms=30_000)
        assert found.store.min_phy_offset > 5 * SEGMENT_BYTES

    bench.run(body)
    bench.kernel.kill(bench.machine)
    image = bench.disk.crash(PROFILES["strict-posix"])

    def again(world: World) -> None:
        found = shop(world).start()
        result = found.store.put_message(Message.create("Old", b"x"))
        assert result.append is not None
        assert result.append.queue_offset == 5

    lab(image).run(again)
