"""Lives of a store that end in crashes, in traffic and in recovery: after each, the index is what the log says."""

from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from tornlog.faults.crashes.profiles import PROFILES
from tornlog.faults.disk.disk import Disk
from tornlog.faults.disk.image import Image
from tornlog.faults.disk.syncs import SyncTiming
from tornlog.faults.plan import FaultPlan
from tornlog.sim.choices import Choices
from tornlog.sim.errors import MachineDied
from tornlog.sim.kernel import Kernel
from tornlog.sim.policies.random_walk import RandomWalk
from tornlog.store.config import FlushDiskType, StoreConfig
from tornlog.store.formats.messages import Message
from tornlog.store.message_store import MessageStore
from tornlog.store.world import World

Check = Callable[[MessageStore], list[tuple[int, int]]]

PROFILES_DRAWN = ("ext4-ordered", "strict-posix", "process-kill", "strict-posix")
HOUR_NS = 3600 * 10**9


class Lives:
    """One store through several lives on disks that die."""

    def __init__(self, seed: int, exact: Check) -> None:
        self.random = Random(seed)
        self.choices = Choices(f"index {seed}")
        self.exact = exact
        pick = self.random.choice
        self.config = StoreConfig(
            "/store",
            mapped_file_size_commit_log=pick((1024, 4096)),
            mapped_file_size_consume_queue=200,
            max_hash_slot_num=pick((1, 5, 200)),
            max_index_num=pick((2, 4, 12, 60)),
            flush_disk_type=pick((FlushDiskType.SYNC_FLUSH, FlushDiskType.ASYNC_FLUSH)),
            flush_interval_commit_log_ms=pick((500, 60_000)),
            flush_consume_queue_thorough_interval_ms=pick((1000, 60_000)),
            recover_whole_log=pick((True, False)),
        )
        self.image: Image | None = None
        self.disk: Disk | None = None
        self.index_files = 0

    def live(self, number: int) -> None:
        """Load, judge, put, and end in a stop or a crash, at rest or at any operation of the disk."""
        random = self.random
        kernel = Kernel(RandomWalk(self.choices.stream(f"schedule {number}"), 4))
        disk = Disk(
            kernel,
            self.choices.stream(f"disk {number}"),
            image=self.image,
            timing=SyncTiming(0, 2_000_000),
            faults=FaultPlan(failed_sync_chance=random.choice((0.0, 0.0, 0.1))),
        )
        machine = kernel.machine("m")
        if random.random() < 0.8:
            disk.crash_at(int(random.expovariate(1 / 120)), random.choice(("before", "during", "after")))
        ends_cleanly = random.random() < 0.3

        def body() -> None:
            store = MessageStore(World(machine.clock, machine.tasks, disk.mount(machine)), self.config)
            try:
                store.load()
            except OSError:
                kernel.kill(machine)
                raise MachineDied("m") from None
            self.exact(store)
            store.start()
            self._put(store, number)
            if not ends_cleanly or not store.shutdown():
                kernel.kill(machine)
                raise MachineDied("m")

        try:
            kernel.run(machine, body, time_limit_ns=HOUR_NS)
            self.image = disk.settle()
        except MachineDied:
            self.image = disk.crash(PROFILES[random.choice(PROFILES_DRAWN)])
        finally:
            kernel.close()

    def _put(self, store: MessageStore, life: int) -> None:
        for count in range(self.random.randrange(40)):
            keys = " ".join(f"k{life}.{count}.{piece}" for piece in range(self.random.choice((0, 1, 1, 2, 5))))
            unique = {"UNIQ_KEY": f"u{life}.{count}"} if self.random.random() < 0.3 else {}
            body = b"b" * self.random.randrange(60)
            flag = self.random.choice((0, 0, 0, 4, 8, 12))
            message = Message.of("T", body, keys=keys, tags="A", properties=unique)
            message.sys_flag = flag
            store.put_message(message)
            if self.random.random() < 0.3:
                store.world.tasks.sleep(self.random.choice((1, 20, 1500, 5000)))

    def heal(self) -> None:
        """Load twice: the second load finds what the first one left."""
        found: list[Any] = []
        for name in ("heal", "again"):
            kernel = Kernel(RandomWalk(self.choices.stream(f"schedule {name}"), 4))
            disk = Disk(kernel, self.choices.stream(f"disk {name}"), image=self.image)
            machine = kernel.machine("m")

            def body(machine: Any = machine, disk: Disk = disk) -> None:
                store = MessageStore(World(machine.clock, machine.tasks, disk.mount(machine)), self.config)
                store.load()
                found.append(self.exact(store))
                assert store.index is not None
                self.index_files = max(self.index_files, len(store.index.table.files))

            kernel.run(machine, body, time_limit_ns=HOUR_NS)
            kernel.kill(machine)
            self.image = disk.crash(PROFILES["strict-posix"])
            kernel.close()
        assert found[0] == found[1]


def lives_of(seed: int, exact: Check) -> Lives:
    lives = Lives(seed, exact)
    for number in range(1 + lives.random.randrange(4)):
        lives.live(number)
    lives.heal()
    return lives


@pytest.mark.parametrize("block", range(4))
def test_after_any_crash_the_index_holds_every_key_once(exact: Check, block: int) -> None:
    rolled = sum(lives_of(seed, exact).index_files > 1 for seed in range(block * 15, block * 15 + 15))
    assert rolled
