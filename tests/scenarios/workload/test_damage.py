from collections.abc import Callable
from typing import Any

import pytest

from tests.fixtures import QUIET_PLAN, execute
from tornlog.faults.disk.disk import Disk
from tornlog.faults.disk.image import Image
from tornlog.scenarios.claims.machine import ROOT, world_of
from tornlog.scenarios.claims.plan import Life, LifeEnding
from tornlog.scenarios.oracle import guarantees
from tornlog.scenarios.oracle.ledger import ConsumedMessage, Ledger
from tornlog.scenarios.oracle.put_entry import PutEntry
from tornlog.scenarios.workload.damage import (
    DamagedImage,
    add_refused_file,
    add_segments_made_ahead,
    expose_old_blocks,
    foreign_paths,
    image_with_content,
    zero_late_sector,
)
from tornlog.sim.choices import Choices, Stream
from tornlog.sim.kernel import Kernel
from tornlog.sim.policies.random_walk import RandomWalk
from tornlog.store.config import StoreConfig
from tornlog.store.errors import CorruptFileError
from tornlog.store.formats.messages import Message
from tornlog.store.log.segment_queue import SegmentQueue
from tornlog.store.message_store import MessageStore

LOG = f"{ROOT}/commitlog/{0:020d}"


def damage_stopped_store(
    traffic: Callable[[MessageStore], Any], sectors_after: int = 0
) -> tuple[Image, DamagedImage | None]:
    """Return a store's image after some traffic and a clean stop, and the damaged image."""
    choices = Choices("damage")
    kernel = Kernel(RandomWalk(choices.stream("schedule"), 16))
    machine = kernel.create_machine("one")
    disk = Disk(kernel, choices.stream("disk"), image=Image({}, ()))

    def main() -> MessageStore:
        config = StoreConfig(ROOT, mapped_file_size_commit_log=4096, mapped_file_size_consume_queue=200)
        store = MessageStore(world_of(machine, disk), config)
        store.load()
        store.start()
        traffic(store)
        assert store.shutdown()
        return store

    store = kernel.run(machine, main, time_limit_ns=60 * 10**9)
    image = disk.image_after_power_off()
    return image, zero_late_sector(image, store, sectors_after)


def test_only_the_sector_with_the_last_byte_of_the_log_is_damaged() -> None:
    image, damage = damage_stopped_store(lambda store: store.put_message(Message.create("T", b"b" * 1000)))

    assert damage is not None
    assert damage.log_offset == 1024
    before, after = image.files[LOG].content, damage.image.files[LOG].content
    assert after == before[:1024] + bytes(512) + before[1536:]
    assert before != after
    others = {path: file for path, file in image.files.items() if path != LOG}
    assert {path: file for path, file in damage.image.files.items() if path != LOG} == others


@pytest.mark.parametrize(("sectors_after", "lost"), [(0, 1024), (1, 512), (2, 0), (3, 0)])
def test_damage_spares_the_requested_number_of_later_sectors(sectors_after: int, lost: int) -> None:
    image, damage = damage_stopped_store(
        lambda store: store.put_message(Message.create("T", b"b" * 1000)), sectors_after
    )

    assert damage is not None
    assert damage.log_offset == lost
    before, after = image.files[LOG].content, damage.image.files[LOG].content
    assert after == before[:lost] + bytes(512) + before[lost + 512 :]
    assert before != after


def test_damage_stays_in_the_last_segment_for_any_number_of_spared_sectors() -> None:
    image, store = stopped_store(4, 500)
    last = store.log.segments[-1]
    damage = zero_late_sector(image, store, sectors_after=9)

    assert damage is not None
    assert damage.log_offset == last.base_offset == 2048
    changed = [path for path, file in image.files.items() if damage.image.files[path] != file]
    assert changed == [last.file.path]


@pytest.mark.parametrize("sectors_after", [0, 5])
def test_no_sector_of_an_empty_log_is_damaged(sectors_after: int) -> None:
    _, damage = damage_stopped_store(lambda store: None, sectors_after)

    assert damage is None


def test_a_sector_of_zeros_is_not_damaged() -> None:
    image, damage = damage_stopped_store(lambda store: store.put_message(Message.create("T", bytes(1200))), 1)

    assert not any(image.files[LOG].content[512:1024])
    assert damage is None


def put_at(ledger: Ledger, name: str, physical_offset: int) -> PutEntry:
    put = PutEntry(name, "T", 0, "", b"", name.encode(), True, 0, physical_offset=physical_offset)
    ledger.record_request(put)
    ledger.promise(put)
    ledger.kept_messages.append(ConsumedMessage("T", 0, 0, put))
    return put


def test_damage_ends_the_promises_for_its_record_and_all_later_ones() -> None:
    ledger = Ledger()
    before = put_at(ledger, "before", 0)
    put_at(ledger, "across", before.record_bytes)
    put_at(ledger, "behind", 1000)
    guarantees.note_damage(ledger, before.record_bytes + 10)

    assert list(ledger.promised) == ["before"]
    assert [seen.put.name for seen in ledger.kept_messages] == ["before"]


def test_damage_directly_after_a_record_does_not_affect_it() -> None:
    ledger = Ledger()
    put = put_at(ledger, "spared", 0)
    guarantees.note_damage(ledger, put.record_bytes)

    assert list(ledger.promised) == ["spared"]


# -- segments --------------------------------------------------------------------------------------


def stopped_store(messages: int, body_bytes: int) -> tuple[Image, MessageStore]:
    """Return the image of a store with small segments after a clean stop, and the store."""
    choices = Choices("segments")
    kernel = Kernel(RandomWalk(choices.stream("schedule"), 16))
    machine = kernel.create_machine("one")
    disk = Disk(kernel, choices.stream("disk"), image=Image({}, ()))

    def main() -> MessageStore:
        store = MessageStore(world_of(machine, disk), StoreConfig(ROOT, mapped_file_size_commit_log=2048))
        store.load()
        store.start()
        for _ in range(messages):
            store.put_message(Message.create("T", b"b" * body_bytes))
        assert store.shutdown()
        return store

    store = kernel.run(machine, main, time_limit_ns=60 * 10**9)
    return disk.image_after_power_off(), store


def paths_of(store: MessageStore) -> list[str]:
    return [segment.file.path for segment in store.log.segments]


def test_exposed_old_blocks_have_the_bytes_of_an_older_segment_from_the_first_unwritten_sector() -> None:
    image, store = stopped_store(4, 500)
    exposed = expose_old_blocks(image, store)

    assert exposed is not None
    first, last = paths_of(store)
    wrote = store.log.segments[-1].wrote.get()
    start = -(-wrote // 512) * 512
    content = exposed.files[last].content
    assert content[:start] == image.files[last].content[:start]
    assert content[start:] == image.files[first].content[start:]
    assert any(content[start:])
    assert {**exposed.files, last: image.files[last]} == image.files


@pytest.mark.parametrize(("messages", "body_bytes"), [(0, 0), (2, 500), (2, 1900)])
def test_exposing_old_blocks_requires_an_older_segment_and_space_after_the_end(messages: int, body_bytes: int) -> None:
    image, store = stopped_store(messages, body_bytes)
    assert expose_old_blocks(image, store) is None


def test_a_file_of_log_or_queues_gets_a_wrong_size_kind_or_name() -> None:
    image, store = stopped_store(4, 500)
    first, _ = paths_of(store)
    changed = set()
    for seed in range(60):
        stream = Choices(str(seed)).stream("refused file")
        odd = add_refused_file(image, store, stream)
        assert odd is not None
        paths = odd.files.keys() ^ image.files.keys()
        sizes = {path for path in odd.files.keys() & image.files if odd.files[path] != image.files[path]}
        changed |= {path.removeprefix(ROOT) for path in paths | sizes}
        assert bool(paths) != bool(sizes)
    queue = "/consumequeue/T/0"
    log, queue_file = first.removeprefix(ROOT), f"{queue}/{0:020d}"
    end = 2 * store.log.segment_bytes
    names = {f"/commitlog/{name}" for name in (f"{end:020d}", f"{end + 1:020d}", f"{end:019d}")}
    assert changed == {log, f"{log}/copy", queue, queue_file, f"{queue_file}/copy", *names}
    assert add_refused_file(*stopped_store(2, 500), stream) is None


def test_segments_made_ahead_are_empty_and_leave_a_gap_or_follow_an_unfinished_one() -> None:
    image, store = stopped_store(4, 500)
    size_bytes, end = store.log.segment_bytes, store.log.segments[-1].end_offset
    next_path, last_path = (f"{ROOT}/commitlog/{base:020d}" for base in (end, end + size_bytes))
    unfinished = set()
    for seed in range(20):
        ahead = add_segments_made_ahead(image, store, Choices(str(seed)).stream("ahead"))
        added = {path: file.content for path, file in ahead.files.items() if path not in image.files}
        assert added.pop(last_path) == bytes(size_bytes)
        unfinished.add(added.pop(next_path, None))
        assert added == {}
    assert unfinished == {None, b"", bytes(size_bytes // 2)}


def test_some_foreign_files_have_names_like_those_of_queues_and_index_files() -> None:
    image, store = stopped_store(4, 500)
    streams = [Choices(str(seed)).stream("strays") for seed in range(20)]
    names = {path.removeprefix(ROOT) for stream in streams for path in foreign_paths(image, store, stream)}
    assert f"/consumequeue/T/00/{0:020d}" in names
    assert any(path.startswith("/index/2020") for path in names) == (store.index is not None)


def test_a_start_that_accepts_a_wrong_segment_size_or_changes_the_log_is_a_violation(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    life = Life(LifeEnding.STOP_AND_ODD_FILE, "nothing-lost", -1, "after", 6)
    plan = QUIET_PLAN.replace(lives=(life,), commit_log_bytes=1024, messages={"body_bytes_max": 300})
    outcome = execute(plan)
    assert outcome.violations == []
    assert outcome.injected["wrong file size"] == 1

    def shorten(image: Image, store: MessageStore, _: Stream) -> Image:
        path, _ = paths_of(store)[:2]
        return image_with_content(image, path, image.files[path].content[:512])

    monkeypatch.setattr("tornlog.scenarios.workload.damage.add_refused_file", shorten)

    load = SegmentQueue.load

    def pad(queue: SegmentQueue, **_: Any) -> None:
        for base_offset in queue._find_base_offsets():
            queue._world.files.map(queue.path(base_offset), queue.segment_bytes)
        load(queue)

    def change(queue: SegmentQueue, **_: Any) -> None:
        for base_offset in queue._find_base_offsets():
            status = queue._world.files.status(queue.path(base_offset))
            if status is not None and status.size_bytes == 512:
                queue._world.files.unlink(queue.path(base_offset))
                raise CorruptFileError(queue.path(base_offset), 0, "file size", 1024, 512)
        load(queue)

    for wrong, summary in (
        (pad, "a file of a wrong size, kind or name was accepted"),
        (change, "a refused start changed the log"),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(SegmentQueue, "load", wrong)
            if wrong is pad:
                assert {violation.invariant for violation in execute(plan).violations} == {"DUR"}
                patch.setattr("tornlog.scenarios.oracle.judge.CHECKERS", {})  # no check for lost records
            (violation,) = execute(plan).violations
            assert (violation.invariant, violation.summary) == ("START", summary)
