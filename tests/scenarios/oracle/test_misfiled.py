"""Misfiled records: the undetected changes of queue and offset that a power cut may cause."""

from collections.abc import Iterator

import pytest

from tornlog.faults.disk.disk import Disk
from tornlog.faults.disk.image import FileImage, Image
from tornlog.scenarios.claims.machine import ROOT, world_of
from tornlog.scenarios.oracle.evidence import Evidence, Violation
from tornlog.scenarios.oracle.invariants import consume_queues
from tornlog.scenarios.oracle.ledger import Ledger
from tornlog.scenarios.oracle.misfiled import may_be_misfiled, note_misfiled
from tornlog.scenarios.oracle.recovered import read_store
from tornlog.sim.choices import Choices
from tornlog.sim.kernel import Kernel
from tornlog.sim.policies.random_walk import RandomWalk
from tornlog.store.config import StoreConfig
from tornlog.store.formats.messages import Message
from tornlog.store.message_store import MessageStore

SECTOR = 512
LOG = f"{ROOT}/commitlog/{0:020d}"
CONFIG = StoreConfig(ROOT, mapped_file_size_commit_log=4096, mapped_file_size_consume_queue=200)


def store_on(image: Image) -> tuple[Kernel, Disk]:
    choices = Choices("misfiled")
    kernel = Kernel(RandomWalk(choices.stream("schedule"), 16))
    return kernel, Disk(kernel, choices.stream("disk"), image=image)


def log_of(*messages: tuple[int, int]) -> tuple[bytes, list[int]]:
    """Return a log with messages of the given queue ids and sizes, and their positions."""
    kernel, disk = store_on(Image({}, ()))
    machine = kernel.create_machine("one")

    def main() -> tuple[bytes, list[int]]:
        store = MessageStore(world_of(machine, disk), CONFIG)
        store.load()
        store.start()
        beside_body = 91 + len("T0")
        puts = [store.put_message(Message("T0", b"b" * (size - beside_body), one)) for one, size in messages]
        segment = store.log.segments[0]
        return bytes(segment.file.view(0, segment.size_bytes)), [put.append.wrote_offset for put in puts if put.append]

    return kernel.run(machine, main, time_limit_ns=60 * 10**9)


def violations_of_log(log: bytes, *, tears: bool) -> list[Violation]:
    """Return the violations in a store after a power cut that lost the queues, but not the log."""
    kernel, disk = store_on(Image({LOG: FileImage(log, 0)}, (ROOT, f"{ROOT}/commitlog")))
    machine = kernel.create_machine("one")

    def breaches(evidence: Evidence) -> Iterator[Violation]:
        yield from consume_queues.check_cq_complete(evidence)
        yield from consume_queues.check_cq_valid(evidence)
        yield from consume_queues.check_queue_offsets(evidence)

    def main() -> list[Violation]:
        store = MessageStore(world_of(machine, disk), CONFIG)
        store.load()
        ledger, found = Ledger(tears=tears), read_store(store)
        note_misfiled(ledger, found)
        return list(breaches(Evidence(ledger, found)))

    return kernel.run(machine, main, time_limit_ns=60 * 10**9)


def with_torn_sector(log: bytes, record_at: int, kept_bytes: int) -> bytes:
    """Return a log with a torn record at a position: zeros from some byte to the end of the sector."""
    at, end = record_at + kept_bytes, record_at - record_at % SECTOR + SECTOR
    return log[:at] + bytes(end - at) + log[end:]


BEFORE = [(1, 120), (1, 120), (0, 120)]
BEHIND = [(1, 130), (0, 130), (1, 130)]


@pytest.mark.parametrize("left_bytes", [16, 20, 24, 28, 32])
@pytest.mark.parametrize("behind", [[], BEHIND])
@pytest.mark.parametrize("queue_id", [0, 1, 258])
def test_a_record_in_a_wrong_queue_is_excused_if_a_torn_sector_may_have_changed_its_queue_id(
    queue_id: int, behind: list[tuple[int, int]], left_bytes: int
) -> None:
    last = (1, SECTOR - left_bytes - sum(size for _, size in BEFORE))
    log, places = log_of(*BEFORE, last, (queue_id, 140), *behind)
    at = places[4]
    assert at == SECTOR - left_bytes

    for kept_bytes in range(12, min(28, left_bytes)):
        assert violations_of_log(with_torn_sector(log, at, kept_bytes), tears=True) == []


def test_a_record_in_a_wrong_queue_is_a_violation_without_torn_sectors() -> None:
    log, places = log_of(*BEFORE, (1, SECTOR - 24 - 360), (1, 140))
    moved = with_torn_sector(log, places[4], 12)

    assert {each.invariant for each in violations_of_log(moved, tears=False)} == {"CQ-VALID", "QOFF"}


def test_a_record_that_lies_within_one_sector_must_be_in_its_queue() -> None:
    log, places = log_of(*BEFORE, (1, 200))
    moved = bytearray(log)
    moved[places[3] + 15] = 0  # the queue id

    assert violations_of_log(log, tears=True) == []
    assert {each.invariant for each in violations_of_log(bytes(moved), tears=True)} == {"CQ-VALID", "QOFF"}


def test_only_records_with_a_sector_boundary_after_their_queue_id_may_be_in_a_wrong_queue() -> None:
    lie_so = [position for position in range(2 * SECTOR) if may_be_misfiled(position, tears=True)]

    assert lie_so == [*range(477, 500), *range(989, 1012)]
    assert not any(may_be_misfiled(position, tears=False) for position in lie_so)
