import errno
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from tests.store.rigs import Make, StandingClock, started
from tornlog.faults.disk.image import FileImage, Image
from tornlog.store.config import BrokerRole, StoreConfig
from tornlog.store.delivery.schedule import RETRY_AFTER_ERROR_MS, encoded_offsets
from tornlog.store.errors import CorruptFileError
from tornlog.store.formats.consume_queue import BLANK_ENTRY_BYTES, ENTRY_BYTES, QueueEntry, encode_entry
from tornlog.store.formats.delay_level import SCHEDULE_TOPIC
from tornlog.store.formats.half_message import HALF_TOPIC
from tornlog.store.formats.message import MessageRecord
from tornlog.store.formats.messages import Message, PutMessageResult, PutMessageStatus
from tornlog.store.formats.properties import decode_properties
from tornlog.store.message_store import MessageStore
from tornlog.store.real.files import RealFiles
from tornlog.store.real.world import ThreadTasks, overlay_world
from tornlog.store.running_flags import RefusalReason
from tornlog.store.tools.geometry import Geometry
from tornlog.store.tools.inspect import inspect_directory
from tornlog.store.tools.observed import records_of
from tornlog.store.world import World

OK = PutMessageStatus.PUT_OK
PATH = "/store/config/delayOffset.json"


@pytest.fixture
def config(small: Make) -> StoreConfig:
    made: StoreConfig = small(
        message_delay_level="1s 2s 5s", mapped_file_size_commit_log=1 << 16, mapped_file_size_consume_queue=200
    )
    return made


def delayed_message(level: int, body: bytes = b"x", topic: str = "T", queue_id: int = 0) -> Message:
    return Message.create(topic, body, queue_id=queue_id, tags="A", properties={"DELAY": str(level)})


def log_records(store: MessageStore) -> list[MessageRecord]:
    found = [store.look_message_by_offset(fields["offset"]) for fields in records_of(store)]
    return [record for record in found if record is not None]


def log_bodies(store: MessageStore, topic: str = "T") -> list[bytes]:
    return [record.body for record in log_records(store) if record.topic == topic]


def test_a_delayed_message_becomes_visible_after_its_delay(world: World, config: StoreConfig) -> None:
    store = started(world, config)
    put = store.put_message(delayed_message(2, b"late", queue_id=3))
    assert put.append is not None
    world.tasks.sleep(1_990)
    assert store.get_max_offset_in_queue("T", 3) == 0
    assert store.schedule.offsets == {}

    world.tasks.sleep(20)
    (copy,) = [record for record in log_records(store) if record.topic == "T"]
    assert store.get_max_offset_in_queue("T", 3) == 1
    assert copy.store_timestamp_ms >= put.append.store_timestamp_ms + 2_000
    assert (copy.body, copy.queue_id) == (b"late", 3)
    assert decode_properties(copy.properties) == {"REAL_TOPIC": "T", "REAL_QID": "3", "DELAY": "2", "TAGS": "A"}
    assert len(store.get_message("T", 3, 0, tags="A").records) == 1
    assert store.schedule.offsets == {2: 1}
    assert store.shutdown()


def test_progress_is_persisted_every_interval_and_at_a_clean_stop(
    world: World, bench: Any, config: StoreConfig
) -> None:
    store = started(world, config)
    store.put_message(delayed_message(1))
    world.tasks.sleep(2_000)
    assert world.files.status(PATH) is None
    world.tasks.sleep(20_000)
    assert world.files.read(PATH) == b'{\n\t"offsetTable":{1:1\n\t}\n}'
    operations, written = bench.disk.operations, bench.failures.calls.count(("write", f"{PATH}.tmp"))
    world.tasks.sleep(60_000)
    assert bench.failures.calls.count(("write", f"{PATH}.tmp")) == written
    assert bench.disk.operations > operations  # other services continue
    store.put_message(delayed_message(2))
    world.tasks.sleep(3_000)
    assert store.shutdown()
    assert world.files.read(PATH) == encoded_offsets({1: 1, 2: 1})
    assert world.files.read(f"{PATH}.bak") == encoded_offsets({1: 1})

    again = started(world, config)
    world.tasks.sleep(10_000)
    assert len(log_bodies(again)) == 2
    assert again.shutdown()
    assert world.files.read(f"{PATH}.bak") == encoded_offsets({1: 1})


def test_a_refused_delivery_is_retried_and_blocks_later_ones(world: World, config: StoreConfig) -> None:
    store = started(world, config)
    refusals = [PutMessageStatus.OS_PAGECACHE_BUSY, PutMessageStatus.CREATE_MAPEDFILE_FAILED] * 3
    put, times_ms = store.schedule._put, []

    def put_sometimes(message: Message) -> PutMessageResult:
        times_ms.append(world.clock.now_ms())
        return PutMessageResult(refusals.pop()) if refusals else put(message)

    store.schedule._put = put_sometimes
    for number in range(3):
        store.put_message(delayed_message(1, b"%d" % number))
    world.tasks.sleep(1_250)
    assert log_bodies(store) == []
    assert store.schedule.offsets == {}
    assert store.schedule.last_answer is not OK
    world.tasks.sleep(1_000)
    assert log_bodies(store) == [b"0", b"1", b"2"]
    assert store.schedule.last_answer is OK
    assert [later - earlier for earlier, later in pairwise(times_ms)][:6] == [100] * 6
    assert store.shutdown()


def test_a_delivery_counts_as_stored_after_a_sync_timeout(world: World, config: StoreConfig) -> None:
    store = started(world, config)
    put = store.schedule._put
    store.schedule._put = lambda message: put(message)._replace(status=PutMessageStatus.FLUSH_DISK_TIMEOUT)
    store.put_message(delayed_message(1))
    world.tasks.sleep(5_000)
    assert log_bodies(store) == [b"x"]
    assert store.shutdown()


def test_after_a_delivery_error_delivery_continues_at_the_same_entry(world: World, config: StoreConfig) -> None:
    store = started(world, config)
    put, errors = store.schedule._put, [OSError("no disk")]

    def put_but_once(message: Message) -> PutMessageResult:
        if errors and message.body == b"1":
            raise errors.pop()
        return put(message)

    store.schedule._put = put_but_once
    for number in range(3):
        store.put_message(delayed_message(1, b"%d" % number))
    world.tasks.sleep(9_000)
    assert log_bodies(store) == [b"0"]
    assert isinstance(store.schedule.last_error, OSError)
    world.tasks.sleep(3_000)
    assert log_bodies(store) == [b"0", b"1", b"2"]
    assert store.shutdown()


def test_a_stop_during_deliveries_leaves_the_rest_for_the_next_start(lab: Make, config: StoreConfig) -> None:
    bench = lab(image_with_three_due_messages(lab, config))

    def body(world: World) -> None:
        store = MessageStore(world, config)
        store.load()
        put = store.schedule._put

        def put_and_stop(message: Message) -> PutMessageResult:
            store.schedule._stopping.set(1)
            return put(message)

        store.schedule._put = put_and_stop
        store.start()
        world.tasks.sleep(5_000)
        assert log_bodies(store) == [b"0"]
        assert store.shutdown()
        assert world.files.read(PATH) == encoded_offsets({1: 1})

        again = started(world, config)
        world.tasks.sleep(100)
        assert log_bodies(again) == [b"0", b"1", b"2"]
        assert again.shutdown()

    bench.run(body)


def test_delayed_entries_without_a_message_are_skipped(world: World, config: StoreConfig) -> None:
    store = started(world, config)
    store.put_message(Message.create(SCHEDULE_TOPIC, b"nowhere to go"))
    queue = store.queues.find_or_create(SCHEDULE_TOPIC, 0)
    world.tasks.sleep(10)
    queue.append_entries(encode_entry(5, 91, 1))  # no record begins at 5
    queue.fill_blank(4)
    store.commit_log.topic_queue_table[SCHEDULE_TOPIC, 0] = 4
    store.put_message(delayed_message(1, b"there"))
    world.tasks.sleep(2_000)
    assert log_bodies(store) == [b"there"]
    assert store.schedule.offsets == {1: 5}
    assert store.schedule.passed_over == 4


@pytest.mark.parametrize("rotten", [b"\xf4", b"/", b"\3"])
def test_a_corrupt_delayed_message_that_no_record_can_hold_is_skipped(
    rotten: bytes, world: World, config: StoreConfig
) -> None:
    topic = "t" * 127
    store = started(world, config)
    store.put_message(delayed_message(1, topic=topic))
    store.put_message(delayed_message(1, b"behind"))
    log = store.log.segments[0].file
    name = f"REAL_TOPIC\1{topic}".encode()
    at = bytes(log.view(0, log.size_bytes)).index(name) + len(name)
    log.store(at if rotten == b"\3" else at - 1, rotten)
    world.tasks.sleep(2_000)
    assert log_bodies(store) == [b"behind"]
    assert store.schedule.passed_over == 1
    assert store.schedule.offsets == {1: 2}
    assert store.shutdown()


def test_a_delayed_body_larger_than_the_limit_is_retried_until_the_limit_is_raised(
    world: World, config: StoreConfig
) -> None:
    store = started(world, config)
    store.put_message(delayed_message(1, b"long" * 100))
    assert store.shutdown()
    strict = started(world, replace(config, max_message_size=300))
    world.tasks.sleep(2_000)
    assert (strict.schedule.passed_over, strict.schedule.offsets) == (0, {})
    assert strict.shutdown()
    again = started(world, config)
    world.tasks.sleep(2_000)
    assert log_bodies(again) == [b"long" * 100]
    assert again.shutdown()


ODD, LOST, BLANK = bytes(ENTRY_BYTES), encode_entry(5, 91, 1), BLANK_ENTRY_BYTES
"""An all-zero entry, an entry without a record, and a blank entry."""


@pytest.mark.parametrize(
    ("entry", "failed", "passed_over"),
    [(ODD, False, 1), (ODD, True, 0), (LOST, False, 1), (LOST, True, 0), (BLANK, False, 1), (BLANK, True, 0)],
)
def test_after_a_failed_sync_missing_entries_are_not_skipped(
    world: World, config: StoreConfig, entry: bytes, *, failed: bool, passed_over: int
) -> None:
    store = started(world, config)
    for number in range(2):
        store.put_message(delayed_message(1, b"%d" % number))
    world.tasks.sleep(10)
    store.queues.find_or_create(SCHEDULE_TOPIC, 0).overwrite_entries(0, entry)
    if failed:
        store.flags.refuse_until_restart(RefusalReason.WRITE_INDEX_FILE_ERROR, "test")
    world.tasks.sleep(2_000)
    assert store.schedule.passed_over == passed_over
    assert store.schedule.offsets == ({1: 2} if passed_over else {})
    assert log_bodies(store) == ([b"1"] if passed_over else [])


def test_an_entry_that_reappears_after_a_failed_sync_is_delivered_in_order(world: World, config: StoreConfig) -> None:
    store = started(world, config)
    for number in range(2):
        store.put_message(delayed_message(1, b"%d" % number))
    world.tasks.sleep(10)
    queue = store.queues.find_or_create(SCHEDULE_TOPIC, 0)
    entry = queue.entry(0)
    assert entry is not None
    queue.queue.sync_error = OSError(errno.EIO, "a sync that has failed")
    queue.overwrite_entries(0, ODD)
    world.tasks.sleep(2_000)
    queue.overwrite_entries(0, encode_entry(*entry))
    world.tasks.sleep(200)
    assert log_bodies(store) == [b"0", b"1"]
    assert store.schedule.passed_over == 0
    assert not store.shutdown()


def test_a_gap_in_the_delay_queue_is_synced_before_it_is_skipped(world: World, bench: Any, config: StoreConfig) -> None:
    store = started(world, config)
    store.put_message(delayed_message(1, b"0"))
    world.tasks.sleep(10)
    queue = store.queues.find_or_create(SCHEDULE_TOPIC, 0)
    store.flush_queues.flush_thoroughly()
    queue.overwrite_entries(0, ODD)
    bench.failures.plan("msync", queue.queue.directory)
    world.tasks.sleep(RETRY_AFTER_ERROR_MS + 3_000)
    assert (store.schedule.passed_over, store.schedule.offsets) == (0, {})
    assert isinstance(store.schedule.last_error, OSError)
    assert not store.shutdown()
    assert store.flush_queues.last_error is store.schedule.last_error


def test_a_gap_in_a_delay_queue_file_that_retention_removes_is_skipped(world: World, config: StoreConfig) -> None:
    store = started(world, config)
    for number in range(15):  # five more entries than a file has
        store.put_message(delayed_message(3, b"%02d" % number))
    world.tasks.sleep(3_000)
    queue = store.queues.find(SCHEDULE_TOPIC, 2)
    assert queue is not None
    queue.overwrite_entries(4, ODD)
    deliver = store.schedule._deliver_entry

    def deliver_beside_retention(level: int, entry: QueueEntry) -> int:
        wait_ms = deliver(level, entry)
        if store.schedule.offsets.get(level) == 3:  # the next entry is the missing one
            assert queue.queue.remove_first()
        return wait_ms

    store.schedule._deliver_entry = deliver_beside_retention  # type: ignore[method-assign]
    world.tasks.sleep(5_000)
    assert store.schedule.passed_over == 1
    assert log_bodies(store) == [b"%02d" % number for number in range(15) if number != 4]
    assert store.shutdown()


def test_delayed_entries_after_expired_ones_are_delivered_once_the_queue_start_is_known(
    world: World, config: StoreConfig
) -> None:
    store = started(world, config)
    for number in range(15):  # five more entries than a file has
        store.put_message(delayed_message(3, b"%02d" % number))
    queue = store.queues.find(SCHEDULE_TOPIC, 2)
    assert queue is not None
    world.tasks.sleep(3_000)
    assert queue.queue.remove_first()
    world.tasks.sleep(3_000)
    assert log_bodies(store) == []

    entry = queue.entry(10)
    assert entry is not None
    queue.correct_min_offset(entry.physical_offset)
    world.tasks.sleep(200)
    assert log_bodies(store) == [b"%02d" % number for number in range(10, 15)]
    assert store.shutdown()


def test_a_delayed_half_message_is_not_delivered(world: World, config: StoreConfig) -> None:
    store = started(world, config)
    store.put_message(delayed_message(1, topic=HALF_TOPIC))
    store.put_message(delayed_message(1))
    world.tasks.sleep(2_000)
    assert log_bodies(store, HALF_TOPIC) == []
    assert log_bodies(store) == [b"x"]
    assert store.schedule.passed_over == 0
    assert store.shutdown()


def test_a_shorter_delay_of_a_level_also_applies_to_waiting_messages(
    world: World, small: Make, config: StoreConfig
) -> None:
    store = started(world, small(message_delay_level="1h", mapped_file_size_commit_log=1 << 16))
    store.put_message(delayed_message(1))
    assert store.shutdown()
    again = started(world, config)
    world.tasks.sleep(1_100)
    assert log_bodies(again) == [b"x"]
    assert again.shutdown()


def test_a_message_with_an_impossible_delivery_time_is_delivered_immediately(world: World, config: StoreConfig) -> None:
    store = started(world, config)
    put = store.put_message(delayed_message(3)).append
    assert put is not None
    world.tasks.sleep(10)
    queue = store.queues.find_or_create(SCHEDULE_TOPIC, 2)
    queue.overwrite_entries(0, encode_entry(put.wrote_offset, put.wrote_bytes, world.clock.now_ms() + 6_000))
    world.tasks.sleep(1_100)
    assert log_bodies(store) == [b"x"]
    assert store.shutdown()


def test_clock_steps_cause_no_early_or_late_delivery(world: World, bench: Any, config: StoreConfig) -> None:
    store = started(world, config)
    store.put_message(delayed_message(2, b"before"))
    world.tasks.sleep(1_000)
    bench.machine.wall_offset_ms = -3_600_000
    store.put_message(delayed_message(2, b"after"))
    world.tasks.sleep(900)
    assert log_bodies(store) == []
    world.tasks.sleep(2_200)
    assert log_bodies(store) == [b"before"]
    world.tasks.sleep(1_000)
    assert log_bodies(store) == [b"before", b"after"]
    bench.machine.wall_offset_ms = 0

    store.put_message(delayed_message(3, b"forward"))
    world.tasks.sleep(10)
    bench.machine.wall_offset_ms = 10_000
    world.tasks.sleep(1_100)
    assert log_bodies(store)[2:] == [b"forward"]
    assert store.shutdown()


def test_a_record_with_a_future_store_time_does_not_block_its_level(
    world: World, bench: Any, config: StoreConfig
) -> None:
    bench.machine.wall_offset_ms = 49 * 86_400_000
    store = started(world, config)
    store.put_message(delayed_message(2, b"of the future"))
    assert store.shutdown()
    bench.machine.wall_offset_ms = 0
    again = started(world, config)
    again.put_message(delayed_message(1, b"of now"))
    world.tasks.sleep(2_100)
    assert log_bodies(again) == [b"of now"]
    world.tasks.sleep(2_000)
    assert log_bodies(again) == [b"of now", b"of the future"]
    assert again.shutdown()


def test_a_slave_delivers_no_delayed_messages(world: World, small: Make, config: StoreConfig) -> None:
    store = started(world, config)
    store.put_message(delayed_message(1))
    assert store.shutdown()
    slave = started(
        world, small(message_delay_level="1s", mapped_file_size_commit_log=1 << 16, broker_role=BrokerRole.SLAVE)
    )
    world.tasks.sleep(5_000)
    assert log_bodies(slave) == []
    slave.shutdown()


def test_the_delivery_time_is_read_from_an_extended_queue(world: World, small: Make) -> None:
    store = started(
        world,
        small(
            message_delay_level="1s 2s",
            mapped_file_size_commit_log=1 << 16,
            enable_consume_queue_ext=True,
            mapped_file_size_consume_queue_ext=4096,
        ),
    )
    store.put_message(delayed_message(2))
    world.tasks.sleep(100)
    entry = store.queues.find_or_create(SCHEDULE_TOPIC, 1).entry(0)
    assert entry is not None
    assert entry.tags_code < 0
    world.tasks.sleep(1_800)
    assert log_bodies(store) == []
    world.tasks.sleep(200)
    assert log_bodies(store) == [b"x"]


# -- progress at the start -------------------------------------------------------------------------


def with_progress(image: Image, content: bytes) -> Image:
    files = {**image.files, PATH: FileImage(content, 0)}
    return Image(files, tuple({*image.directories, "/store/config"}))


def test_progress_found_only_in_the_backup_is_written_to_both_files(lab: Make, config: StoreConfig) -> None:
    bench = lab()

    def body(world: World) -> None:
        store = started(world, config)
        store.put_message(delayed_message(1))
        world.tasks.sleep(2_000)
        assert store.shutdown()

    bench.run(body)
    image = bench.switch_off()
    content = image.files[PATH].content
    for current in (bytes(len(content)), None):
        files = {**image.files, f"{PATH}.bak": FileImage(content, 0), PATH: FileImage(current or b"", 0)}
        if current is None:
            del files[PATH]

        def again(world: World) -> None:
            store = started(world, config)
            world.tasks.sleep(2 * config.flush_delay_offset_interval_ms)
            assert world.files.read(PATH) == content
            assert store.shutdown()

        lab(Image(files, image.directories)).run(again)


def test_progress_beyond_a_truncated_queue_stays_in_no_backup(lab: Make, config: StoreConfig) -> None:
    bench = lab()

    def body(world: World) -> None:
        store = started(world, config)
        store.put_message(delayed_message(1))
        world.tasks.sleep(2_000)
        assert store.shutdown()

    bench.run(body)
    image = bench.switch_off()
    versions = {PATH: encoded_offsets({1: 6}), f"{PATH}.bak": encoded_offsets({1: 5})}
    files = {**image.files, **{path: FileImage(content, 0) for path, content in versions.items()}}

    def again(world: World) -> None:
        store = started(world, config)
        assert world.files.read(PATH) == encoded_offsets({1: 1})
        assert world.files.status(f"{PATH}.bak") is None
        assert store.shutdown()

    lab(Image(files, image.directories)).run(again)


def image_with_three_due_messages(lab: Make, config: StoreConfig) -> Image:
    """Return a store that stopped before it could deliver three messages of level 1."""
    bench = lab()

    def body(world: World) -> None:
        store = started(world, config)
        for number in range(3):
            store.put_message(delayed_message(1, b"%d" % number))
        assert store.shutdown()

    bench.run(body)
    image: Image = bench.switch_off()
    return image


@pytest.mark.parametrize(("offset", "delivered"), [(0, 3), (2, 1), (3, 0), (9, 0), (-5, 3), ((1 << 63) - 1, 0)])
def test_delivery_progress_is_limited_to_the_queue_before_the_first_put(
    lab: Make, config: StoreConfig, offset: int, delivered: int
) -> None:
    image = with_progress(image_with_three_due_messages(lab, config), encoded_offsets({1: offset, 2: 4, 18: 0}))
    within = min(max(offset, 0), 3)
    bench = lab(image)

    def body(world: World) -> None:
        store = MessageStore(world, config)
        store.load()
        assert store.schedule.offsets == {1: within, 2: 0, 18: 0}
        assert world.files.read(PATH) == encoded_offsets({1: offset, 2: 4, 18: 0})
        store.start()
        assert world.files.read(PATH) == encoded_offsets({1: within, 2: 0, 18: 0})
        store.put_message(delayed_message(1, b"new"))
        world.tasks.sleep(2_000)
        assert len(log_bodies(store)) == delivered + 1
        assert log_bodies(store)[-1] == b"new"
        assert store.shutdown()

    bench.run(body)


def test_damaged_delivery_progress_is_replaced_by_the_backup_or_all_messages_are_delivered_again(
    lab: Make, config: StoreConfig
) -> None:
    image = with_progress(image_with_three_due_messages(lab, config), b'{"offsetTable":{1:2')

    def offsets_in(image: Image) -> dict[int, int]:
        def body(world: World) -> dict[int, int]:
            store = MessageStore(world, config)
            store.load()
            return store.schedule.offsets

        found: dict[int, int] = lab(image).run(body)
        return found

    assert offsets_in(image) == {}
    backup = FileImage(b'{"offsetTable":{"1":1}}', 0)
    assert offsets_in(Image({**image.files, f"{PATH}.bak": backup}, image.directories)) == {1: 1}
    backup = FileImage(b"{{", 0)
    with pytest.raises(CorruptFileError):
        offsets_in(Image({**image.files, f"{PATH}.bak": backup}, image.directories))


def test_inspect_reports_delivery_progress_that_it_ignored(golden: Make) -> None:
    root = golden("05-delay").after
    (root / "config/delayOffset.json").write_bytes(b'{"offsetTable":{1:6,')
    found = inspect_directory(overlay_world(), str(root), Geometry()).summary()
    assert found["delayOffsetTable"] == {"1": 6, "2": 6}  # from the backup
    assert [(finding["file"], finding["field"]) for finding in found["findings"]] == [
        ("config/delayOffset.json", "JSON")
    ]


# -- crashes ---------------------------------------------------------------------------------------


def test_a_store_of_a_killed_rocketmq_repeats_the_same_deliveries(golden: Make, started: Make) -> None:
    case = golden("05b-delay-abrupt")
    before_end = case.manifest["inspect"]["afterLoad"]["maxPhyOffset"]
    expected = [record for record in case.observed["commitLogRecords"] if record["offset"] >= before_end]
    now_ms = expected[-1]["storeTimestamp"]
    tasks = ThreadTasks()
    store = started(case.config(case.before), World(StandingClock(now_ms), tasks, RealFiles()))
    for _ in range(2_000):
        if store.max_phy_offset == case.observed["maxPhyOffset"]:
            break
        tasks.sleep(10)
    copies = [fields for fields in records_of(store) if fields["offset"] >= before_end]
    assert store.shutdown()

    compared = ("topic", "queueId", "queueOffset", "properties", "bodySha256", "bornTimestamp", "size", "flag")
    for topic in ("DelayA", "DelayB"):
        assert [{name: fields[name] for name in compared} for fields in copies if fields["topic"] == topic] == [
            {name: fields[name] for name in compared} for fields in expected if fields["topic"] == topic
        ]
    assert (case.before / "config/delayOffset.json").read_bytes() == (
        case.after / "config/delayOffset.json"
    ).read_bytes()


@pytest.mark.parametrize("has_backup", [False, True])
def test_damaged_delivery_progress_is_recovered_from_copies_in_the_log(
    lab: Make, config: StoreConfig, has_backup: bool
) -> None:
    bench = lab()

    def first(world: World) -> None:
        store = started(world, config)
        for number in range(20):
            assert store.put_message(delayed_message(1, b"%d" % number)).status is OK
        world.tasks.sleep(1_500)
        assert len(log_bodies(store)) == 20
        assert store.put_message(delayed_message(3, b"waits")).status is OK
        assert store.put_message(delayed_message(2, b"waits")).status is OK
        assert store.shutdown()

    bench.run(first)
    image = bench.switch_off()
    files = {**image.files, PATH: FileImage(b'{\n\t&offsetTable":{1:20\n\t}\n}', 0)}
    if has_backup:
        files[f"{PATH}.bak"] = FileImage(encoded_offsets({1: 7}), 0)

    def second(world: World) -> None:
        store = started(world, config)
        assert store.last_recovery is not None
        assert [finding.file for finding in store.last_recovery.findings] == [PATH]
        assert store.schedule.offsets[1] == 20
        world.tasks.sleep(10_000)
        assert sorted(log_bodies(store)) == sorted([*(b"%d" % number for number in range(20)), b"waits", b"waits"])
        assert store.shutdown()
        assert world.files.read(f"{PATH}.damaged") == files[PATH].content

    lab(Image(files, image.directories)).run(second)


def test_copies_in_light_queues_prove_delivery_although_their_properties_differ(lab: Make, config: StoreConfig) -> None:
    config, bench = replace(config, enable_multi_dispatch=True), lab()
    properties = {"DELAY": "1", "INNER_MULTI_DISPATCH": "light", "WAIT": "false"}

    def first(world: World) -> None:
        store = started(world, config)
        assert store.put_message(Message.create("T", b"x", queue_id=0, properties=properties)).status is OK
        world.tasks.sleep(1_500)
        assert store.shutdown()

    bench.run(first)
    image = bench.switch_off()

    def second(world: World) -> None:
        store = started(world, config)
        assert store.schedule.offsets[1] == 1
        assert store.shutdown()

    lab(Image({**image.files, PATH: FileImage(b"{", 0)}, image.directories)).run(second)


def test_identical_delayed_messages_are_delivered_again_and_none_is_lost(lab: Make, config: StoreConfig) -> None:
    bench = lab()

    def first(world: World) -> None:
        store = started(world, config)
        assert store.put_message(delayed_message(1, b"same")).status is OK
        world.tasks.sleep(1_500)
        assert store.put_message(delayed_message(1, b"same")).status is OK
        assert store.shutdown()

    bench.run(first)
    image = bench.switch_off()

    def second(world: World) -> None:
        store = started(world, config)
        world.tasks.sleep(2_000)
        assert log_bodies(store) == [b"same"] * 3
        assert store.shutdown()

    lab(Image({**image.files, PATH: FileImage(b"{", 0)}, image.directories)).run(second)
