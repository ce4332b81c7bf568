"""A store on a simulated disk, and bodies that run as a task of its machine."""

from collections.abc import Callable
from typing import TypeVar

from tests.scenarios.oracle.invariants.puts import put_of
from tornlog.faults.disk.disk import Disk
from tornlog.faults.disk.image import Image
from tornlog.scenarios.claims.machine import ROOT, world_of
from tornlog.sim.choices import Choices
from tornlog.sim.kernel import Kernel
from tornlog.sim.policies.random_walk import RandomWalk
from tornlog.store.config import FlushDiskType, StoreConfig
from tornlog.store.formats.messages import Message
from tornlog.store.message_store import MessageStore

T = TypeVar("T")


def on_a_store(body: Callable[[MessageStore, Disk], T], *, indexed: bool = False, extended: bool = False) -> T:
    """Run a body with a SYNC_FLUSH store, started on an empty simulated disk.

    indexed: the store has an index, and three dispatched messages: m0, m1 and m2 of T0.
    """
    choices = Choices("judges")
    kernel = Kernel(RandomWalk(choices.stream("schedule"), 16))
    machine = kernel.create_machine("one")
    disk = Disk(kernel, choices.stream("disk"), image=Image({}, ()))

    def main() -> T:
        config = StoreConfig(
            ROOT,
            flush_disk_type=FlushDiskType.SYNC_FLUSH,
            mapped_file_size_commit_log=2048,
            mapped_file_size_consume_queue=200,
            message_index_enable=indexed,
            enable_consume_queue_ext=extended,
            max_hash_slot_num=5,
            max_index_num=12,
        )
        store = MessageStore(world_of(machine, disk), config)
        store.load()
        store.start()
        if indexed:
            for number in range(3):
                put = put_of(number)
                message = Message("T0", put.body, 0, put.properties.decode())
                assert store.put_message(message).append is not None
            store.world.tasks.sleep(10)
        return body(store, disk)

    return kernel.run(machine, main, time_limit_ns=60 * 10**9)
