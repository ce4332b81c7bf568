"""Recovery does not change the mtime of any file."""

from collections.abc import Iterable
from contextlib import suppress

import pytest

from tests.store.rigs import Make, started
from tornlog.faults.disk.image import FileImage, Image
from tornlog.store.errors import CorruptFileError
from tornlog.store.formats.messages import Message
from tornlog.store.formats.scan import scan_records
from tornlog.store.message_store import MessageStore
from tornlog.store.recovery.segment_times import SegmentTimes
from tornlog.store.world import World


@pytest.fixture
def killed(lab: Make, small: Make) -> Image:
    """Return the disk of a killed store with 25 messages, ten seconds apart, and no usable checkpoint."""
    bench = lab()

    def body(world: World) -> None:
        store = started(world, small())
        for number in range(25):
            store.put_message(Message.create("T", b"%4d" % number * 70))
            world.tasks.sleep(10_000)

    bench.run(body)
    return bench.switch_off(abruptly=True)


def segments(image: Image) -> dict[str, int]:
    return {
        path: file.mtime_ms for path, file in image.files.items() if "/commitlog/" in path or "/consumequeue/" in path
    }


def load_and_search(
    lab: Make, small: Make, image: Image, numbers: Iterable[int] = range(25)
) -> tuple[Image, list[int | None]]:
    """Load a store. Return its disk, and for each message the result of a search for its store time."""
    bench = lab(image)

    def body(world: World) -> list[int | None]:
        world.tasks.sleep(1_000_000)
        store = MessageStore(world, small())
        store.load()
        times = []
        for offset in numbers:
            raw = store.get_message("T", 0, offset, 1).records[0]
            stored_ms = int.from_bytes(raw[56:64], "big")
            times.append(store.get_offset_in_queue_by_time("T", 0, stored_ms))
        store.close()
        return times

    found = bench.run(body)
    return bench.switch_off(), found


def test_files_rewritten_by_recovery_keep_their_mtime(lab: Make, small: Make, killed: Image) -> None:
    left, found = load_and_search(lab, small, killed)

    times = segments(left)
    assert len(times) > 5
    assert times == {path: segments(killed)[path] for path in times}
    assert found == list(range(25))


def test_queue_files_created_by_recovery_have_the_mtime_of_their_last_message(
    lab: Make, small: Make, killed: Image
) -> None:
    files = {path: file for path, file in killed.files.items() if "/consumequeue/" not in path}
    left, found = load_and_search(lab, small, Image(files, killed.directories))

    before = {path: ms for path, ms in segments(killed).items() if "/consumequeue/" in path}
    after = {path: ms for path, ms in segments(left).items() if "/consumequeue/" in path}
    assert before.keys() == after.keys()
    assert all(abs(after[path] - before[path]) < 1_000 for path in before)
    assert found == list(range(25))


def without_messages_in_gap(path: str, segment: bytes) -> bytes:
    """Return a log segment without messages 8 to 21: the second queue file and some entries before and after it."""
    raw, base_offset = bytearray(segment), int(path[-20:])
    records = scan_records(memoryview(segment), 0, len(segment), file=path, base_offset=base_offset, check_crc=True)
    with suppress(CorruptFileError):  # the last record is followed by zeros
        for record in records:
            if record.queue_offset > 7:
                at = record.physical_offset - base_offset + 20
                raw[at : at + 8] = (record.queue_offset + 14).to_bytes(8, "big")
    return bytes(raw)


def test_a_rebuilt_queue_file_that_ends_in_a_gap_has_the_mtime_of_the_message_before_it(
    lab: Make, small: Make, killed: Image
) -> None:
    files = {path: file for path, file in killed.files.items() if "/consumequeue/" not in path}
    for path, file in files.items():
        if "/commitlog/" in path:
            files[path] = FileImage(without_messages_in_gap(path, file.content), file.mtime_ms)
    numbers = [*range(8), *range(22, 39)]
    left, found = load_and_search(lab, small, Image(files, killed.directories), numbers)

    times = {path.rpartition("/")[2]: ms for path, ms in segments(left).items() if "/consumequeue/" in path}
    first, blank, *others = (times[name] for name in sorted(times))
    assert first == blank
    assert [(behind - first) // 10_000 for behind in others] == [8, 17]
    assert found == numbers


def test_a_queue_file_without_records_keeps_its_mtime(lab: Make, small: Make, killed: Image) -> None:
    path = "/store/consumequeue/U/0/" + "0" * 20
    files = {**killed.files, path: FileImage(bytes(200), 77)}
    left, _ = load_and_search(
        lab, small, Image(files, (*killed.directories, "/store/consumequeue/U", "/store/consumequeue/U/0"))
    )

    assert path not in left.files or left.files[path].mtime_ms == 77


def test_a_new_queue_file_without_an_entry_keeps_its_mtime(world: World, small: Make) -> None:
    store = MessageStore(world, small())
    store.load()
    times = SegmentTimes(world.files, [store.log])
    queue = store.queues.find_or_create("T", 0)
    segment = queue.queue.create(0)
    world.files.set_mtime_ms(segment.file.path, 77)
    times.restore_mtimes(store.commit_log, [queue])
    status = world.files.status(segment.file.path)
    assert status is not None
    assert status.mtime_ms == 77
