from collections.abc import Sequence

from tests.faults.rigs import Rig
from tests.one_life import in_rig
from tornlog.faults.devices.storage import Run, StorageTiming
from tornlog.faults.plan import FaultPlan

FIRST = 1_000


class Notes:
    """A storage that logs its syncs; each takes 7 ns."""

    def __init__(self) -> None:
        self.synced: list[list[Run]] = []
        self.placed = FIRST

    def sync(self, now_ns: int, runs: Sequence[Run]) -> int:
        self.synced.append(list(runs))
        return now_ns + 7

    def place(self, blocks: int) -> int:
        self.placed += blocks
        return self.placed - blocks


def test_a_sync_writes_the_dirty_blocks_of_its_range_as_runs() -> None:
    storage = Notes()
    timing = StorageTiming(storage)
    rig = Rig(timing=timing)

    def body() -> int:
        mapped = rig.files.map("/a", 10 * 4096)
        for at, size_bytes in ((10, 5_000), (5 * 4096, 1), (9 * 4096, 10)):
            mapped.store(at, b"x" * size_bytes)
        before_ns = rig.kernel.now_ns
        mapped.msync(0, 8 * 4096)
        return rig.kernel.now_ns - before_ns

    assert rig.run(body) == 7
    assert storage.synced == [[(FIRST, 2), (FIRST + 5, 1)]]
    assert timing.syncs == 1


def test_synced_pages_are_not_written_again() -> None:
    storage = Notes()
    rig = Rig(timing=StorageTiming(storage))

    def body() -> None:
        first, second = rig.files.map("/a", 3 * 4096), rig.files.map("/b", 4096)
        first.store(0, b"x")
        first.msync(0, 4096)
        first.msync(0, 4096)
        second.store(0, b"x")
        second.fdatasync()
        rig.files.sync_directory("/")

    rig.run(body)

    assert storage.synced == [[(FIRST, 1)], [], [(FIRST + 3, 1)], []]


@in_rig(Rig, timing=StorageTiming(Notes()), faults=FaultPlan(slow_sync_chance=1.0, slow_sync_ms_max=80))
def test_a_slow_sync_fault_adds_to_the_device_time(rig: Rig) -> None:
    rig.files.map("/a", 4096).msync(0, 4096)
    assert 10_000_000 <= rig.kernel.now_ns <= 80_000_007
    assert rig.injected["slow sync"] == 1
