"""Faults between two lives: a store must tolerate each one, and the judge and the ledger know of each."""

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace

import pytest

from tests.fixtures import QUIET_PLAN, execute
from tornlog.faults.disk.disk import Disk
from tornlog.faults.disk.image import DamagedRange, FileImage, Image, RotPlan
from tornlog.faults.kinds import FaultKind
from tornlog.scenarios.claims.machine import CONFIG, config_of, world_of
from tornlog.scenarios.claims.plan import Life, LifeEnding, Plan
from tornlog.scenarios.oracle.judge import Judge, StopOnViolation
from tornlog.scenarios.oracle.known_damage import damaged_log_offset
from tornlog.scenarios.oracle.ledger import Ledger
from tornlog.scenarios.oracle.put_entry import PutEntry
from tornlog.scenarios.workload.offline_faults import OfflineFaults
from tornlog.sim.choices import Choices
from tornlog.sim.kernel import Kernel
from tornlog.sim.policies.random_walk import RandomWalk
from tornlog.store.formats.messages import Message
from tornlog.store.message_store import MessageStore

PATH = f"{CONFIG}/consumerOffset.json"
SEGMENT_BYTES = 2048
MESSAGE_BYTES = 500  # three messages per segment


def life(ending: str, messages_each: int = 6) -> Life:
    return Life(LifeEnding(ending), "nothing-lost", -1, "after", messages_each)


class Bench:
    """A stopped store with some messages, and the faults after its stop."""

    def __init__(self, plan: Plan, messages: int, seed: str = "1") -> None:
        plan = replace(plan, commit_log_bytes=SEGMENT_BYTES)
        choices = Choices(seed)
        kernel = Kernel(RandomWalk(choices.stream("schedule"), 16))
        disk = Disk(kernel, choices.stream("disk"), image=Image({}, ()))
        machine = kernel.create_machine("one")
        self.store = MessageStore(world_of(machine, disk), config_of(plan))
        self.ledger = Ledger()
        kernel.run(machine, lambda: self._fill(messages), time_limit_ns=60 * 10**9)
        self.image = disk.image_after_power_off()
        self.judge = Judge(plan, kernel, self.ledger)
        self.groups = self.ledger.group_progress
        self.offline_faults = OfflineFaults(plan, config_of(plan), kernel, self.ledger, self.judge, choices.stream)

    def _fill(self, messages: int) -> None:
        self.store.load()
        self.store.start()
        for number in range(messages):
            append = self.store.put_message(Message.create("T", b"b" * MESSAGE_BYTES)).append
            assert append is not None
            put = PutEntry(f"m{number}", "T", 0, "", b"b" * MESSAGE_BYTES, b"%d" % number, True, 0)
            put.physical_offset, put.wrote_bytes = append.wrote_offset, append.wrote_bytes
            put.queue_offset = append.queue_offset
            self.ledger.record_request(put)
            self.ledger.promise(put)
        assert self.store.shutdown()

    def stopped(self, ending: str, image: Image | None = None) -> Image:
        """Return the image for the next life after this ending."""
        return self.offline_faults.after_stop(life(ending), image or self.image, self.store)


@pytest.fixture
def bench() -> Callable[..., Bench]:
    return lambda messages=0, seed="1": Bench(QUIET_PLAN, messages, seed)


# -- progress --------------------------------------------------------------------------------------


def persisted(bench: Bench, content: bytes, kept: bytes | None) -> Image:
    """Return an image with persisted progress. kept: the version in the backup, or None."""
    bench.groups.durable, bench.groups.backup = content, kept
    bench.ledger.progress_is_final = True
    return Image({**bench.image.files, PATH: FileImage(content, 7)}, bench.image.directories)


@pytest.mark.parametrize("size_bytes", [20, 512, 700])
def test_damaged_progress_loses_its_first_sector_and_the_previous_version_must_be_found(
    bench: Callable[..., Bench], size_bytes: int
) -> None:
    rig = bench()
    image = persisted(rig, b"x" * size_bytes, b"before")
    found = rig.stopped("stop and damaged progress", image)

    lost = min(size_bytes, 512)
    assert found.files == {**image.files, PATH: FileImage(bytes(lost) + b"x" * (size_bytes - lost), 7)}
    assert found.directories == image.directories
    assert (rig.groups.durable, rig.groups.backup) == (b"before", None)
    assert not rig.ledger.progress_is_final
    assert rig.offline_faults.injected == {FaultKind.ZEROED_SECTOR: 1}


@pytest.mark.parametrize(("kept", "begun"), [(None, []), (b"before", [b"next"])])
def test_progress_without_a_required_backup_is_not_damaged(
    bench: Callable[..., Bench], kept: bytes | None, begun: list[bytes]
) -> None:
    rig = bench()
    image = persisted(rig, b"x" * 20, kept)
    rig.groups.unfinished = begun

    assert rig.stopped("stop and damaged progress", image) is image
    assert (rig.groups.durable, rig.groups.backup) == (b"x" * 20, kept)
    assert rig.ledger.progress_is_final
    assert rig.offline_faults.injected == {}


@pytest.fixture
def progress_plan() -> Plan:
    """A consumer with progress that is persisted several times and then damaged, and one more life."""
    return QUIET_PLAN.replace(
        consuming={"commits_offsets": True},
        consumers=1,
        topics=1,
        queues_per_topic=1,
        pauses={"chance": 0.5, "ms_max": 2000},
        lives=(life("stop and damaged progress", 12), life("stop")),
    )


def test_a_start_on_damaged_progress_uses_the_backup(progress_plan: Plan) -> None:
    outcome = execute(progress_plan)

    assert outcome.violations == []
    assert outcome.injected[FaultKind.ZEROED_SECTOR] == 1
    assert outcome.marks["backup read"] == 1


# -- a missing segment -----------------------------------------------------------------------------


def test_a_removed_segment_is_between_two_others_and_earlier_ones_expire(bench: Callable[..., Bench]) -> None:
    lost = set()
    for seed in range(20):
        rig = bench(messages=12, seed=str(seed))
        paths = [segment.file.path for segment in rig.store.log.segments]
        offsets = {put.name: put.physical_offset for put in rig.ledger.puts}
        found = rig.stopped("stop and missing segment")

        if paths[0] not in found.files:
            continue
        (number,) = [number for number, path in enumerate(paths) if path not in found.files]
        lost.add(number)
        for path in paths[:number]:
            before, after = rig.image.files[path], found.files[path]
            assert after.content == before.content
            assert after.mtime_ms < before.mtime_ms - 72 * 3_600_000
        assert all(found.files[path] == rig.image.files[path] for path in paths[number + 1 :])
        gone = {name for name, offset in offsets.items() if (offset or 0) // SEGMENT_BYTES == number}
        assert rig.ledger.lost_puts.keys() == gone
        assert rig.ledger.promised.keys() == offsets.keys() - gone
        assert rig.ledger.known_damage.missing == [(number * SEGMENT_BYTES, (number + 1) * SEGMENT_BYTES)]
        assert rig.ledger.missing_offsets == {("T", 0): set(range(3 * number, 3 * number + 3))}
        assert rig.offline_faults.injected == {"missing segment": 1}
    assert lost == {1, 2}


def test_the_oldest_segments_may_be_missing_and_their_messages_count_as_expired(bench: Callable[..., Bench]) -> None:
    counts = set()
    for seed in range(20):
        rig = bench(messages=12, seed=str(seed))
        paths = [segment.file.path for segment in rig.store.log.segments]
        found = rig.stopped("stop and missing segment")
        missing = [path for path in paths if path not in found.files]
        if paths[0] in found.files:
            continue
        counts.add(len(missing))
        assert missing == paths[: len(missing)]
        assert rig.ledger.expired_to == len(missing) * SEGMENT_BYTES
        assert rig.ledger.known_damage.missing == []
        assert not rig.offline_faults.segments_are_old
        assert rig.offline_faults.injected == {"missing segment": 1}
    assert counts == {2, 3}


def test_a_log_without_a_middle_segment_loses_no_segment(bench: Callable[..., Bench]) -> None:
    rig = bench(messages=6)
    assert rig.stopped("stop and missing segment") is rig.image
    assert not rig.offline_faults.segments_are_old


# -- the log ---------------------------------------------------------------------------------------


def test_after_a_damaged_last_sector_later_records_are_not_promised(bench: Callable[..., Bench]) -> None:
    lost = set()
    for seed in range(20):
        rig = bench(messages=6, seed=str(seed))
        ends = {put.name: put.physical_offset + put.record_bytes for put in rig.ledger.puts}
        last = rig.store.log.segments[-1]
        path = last.file.path
        found = rig.stopped("stop and damage")
        before, after = rig.image.files[path].content, found.files[path].content
        start = next(at for at in range(0, SEGMENT_BYTES, 512) if before[at : at + 512] != after[at : at + 512])
        assert {**found.files, path: rig.image.files[path]} == rig.image.files
        assert after == before[:start] + bytes(512) + before[start + 512 :]
        spared = [name for name, end in ends.items() if end <= last.base_offset + start]
        assert list(rig.ledger.promised) == spared
        assert rig.offline_faults.injected == {"lost sector": 1}
        lost.add(start)

    assert lost == {0, 512, 1024, 1536}


@pytest.mark.parametrize("ending", ["stop and strays", "stop and damaged record"])
def test_queue_files_with_the_only_copy_of_a_queue_offset_are_not_damaged(
    ending: str, bench: Callable[..., Bench]
) -> None:
    def spoils_queues(rig: Bench, image: Image) -> bool:
        found, path = rig.stopped(ending, image), "/store/consumequeue/T/0/00000000000000000000"
        return path not in found.files or found.files[path].content != image.files[path].content

    rigs = [bench(messages=18, seed=str(seed)) for seed in range(8)]
    assert any(spoils_queues(rig, rig.image) for rig in rigs)
    rigs = [bench(messages=18, seed=str(seed)) for seed in range(8)]
    assert not any(spoils_queues(rig, rig.stopped("stop and flipped number")) for rig in rigs)


def test_an_empty_log_is_not_damaged(bench: Callable[..., Bench]) -> None:
    rig = bench()

    assert rig.stopped("stop and damage") is rig.image
    assert rig.offline_faults.injected == {}


def test_a_start_with_a_wrong_segment_size_changes_no_file(bench: Callable[..., Bench]) -> None:
    rig = bench(messages=6)

    for starts in (1, 2):
        assert rig.stopped("stop and odd file") is rig.image
        assert rig.offline_faults.injected == {"wrong file size": starts}
    assert rig.judge.violations == []


def test_a_log_of_one_segment_gets_no_wrong_segment_size(bench: Callable[..., Bench]) -> None:
    rig = bench(messages=2)

    assert rig.stopped("stop and odd file") is rig.image
    assert rig.offline_faults.injected == {}


def test_old_blocks_are_exposed_only_after_a_crash_that_requests_it(bench: Callable[..., Bench]) -> None:
    rig = bench(messages=4)
    shows, hides = life("crash on old blocks"), life("crash at rest")

    assert rig.offline_faults.after_crash(hides, rig.image, rig.store) is rig.image
    assert rig.offline_faults.after_crash(shows, rig.image, None) is rig.image
    assert rig.offline_faults.injected == {}
    assert rig.offline_faults.after_crash(shows, rig.image, rig.store).files != rig.image.files
    assert rig.offline_faults.injected == {"stale blocks": 1}


def test_bit_rot_is_reported_to_the_judge_and_unreadable_sectors_to_the_disk(bench: Callable[..., Bench]) -> None:
    sound = bench(messages=6)
    assert sound.offline_faults.decay("next", sound.image) == (sound.image, [])

    rots = RotPlan(zeroed_sector_chance=1.0, latent_sector_error_chance=1.0)
    rig = Bench(replace(QUIET_PLAN, disk="dying-disk", rot=rots), messages=6)
    image, unreadable = rig.offline_faults.decay("next", rig.image)
    assert image.files != rig.image.files
    assert rig.offline_faults.injected[FaultKind.ZEROED_SECTOR] > 0
    assert {one.kind for one in unreadable} == {FaultKind.LATENT_SECTOR_ERROR}
    log = [one for one in unreadable if one.path.startswith(config_of(QUIET_PLAN).commit_log_directory)]
    first = damaged_log_offset(config_of(QUIET_PLAN), log)
    assert first is not None
    assert all(put.physical_offset + put.record_bytes <= first for put in rig.ledger.promised.values())
    assert len(rig.ledger.promised) < len(rig.ledger.puts)


def test_a_plain_stop_changes_no_file(bench: Callable[..., Bench]) -> None:
    rig = bench(messages=6)
    image = persisted(rig, b"x" * 20, b"before")

    assert rig.stopped("stop", image) is image
    assert rig.offline_faults.injected == {}


def image_with_foreign_files(rig: Bench) -> Image:
    """Return the image for the next life, with a foreign file."""
    for _ in range(20):
        image = rig.stopped("stop and strays")
        if rig.offline_faults.injected["stray file"]:
            return image
    raise AssertionError("no stray was left")


@pytest.mark.parametrize("struck", [False, True])
def test_a_changed_foreign_file_is_a_violation_unless_the_disk_damaged_it(
    struck: bool, bench: Callable[..., Bench]
) -> None:
    rig = bench(messages=6)
    image = image_with_foreign_files(rig)
    files = {path: content for path, content in image.files.items() if path in rig.image.files}
    strays = image.files.keys() - files.keys()
    if struck:
        rig.offline_faults.note_damage(DamagedRange(path, 0, 8, FaultKind.MISDIRECTED_WRITE) for path in strays)

    with nullcontext() if struck else pytest.raises(StopOnViolation, match="a foreign file has changed"):
        rig.stopped("stop", Image({**files, **dict.fromkeys(strays, FileImage(b"changed", 7))}, image.directories))
