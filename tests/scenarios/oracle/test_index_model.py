import pytest

from tornlog.faults.disk.disk import Disk
from tornlog.scenarios.claims.machine import world_of
from tornlog.scenarios.oracle.index_model import file_content, index_field_at
from tornlog.sim.choices import Choices
from tornlog.sim.kernel import Kernel
from tornlog.sim.policies.random_walk import RandomWalk
from tornlog.store.formats.index import IndexHeader
from tornlog.store.index.index_file import IndexFile

SLOTS, ENTRIES_MAX = 3, 6
PUT = [(4, 100, 5_000), (1, 100, 5_000), (4, 300, 7_500), (2, 500, 9_999)]
"""Hash, log offset and store time of each entry."""


def index_bytes_written_by_store() -> bytes:
    choices = Choices("model")
    kernel = Kernel(RandomWalk(choices.stream("schedule"), 16))
    machine = kernel.create_machine("one")
    disk = Disk(kernel, choices.stream("disk"))

    def body() -> bytes:
        world = world_of(machine, disk)
        world.files.make_directories("/i")
        mapped = world.files.map("/i/1", 40 + 4 * SLOTS + 20 * ENTRIES_MAX)
        file = IndexFile(world.tasks, mapped, "1", SLOTS, ENTRIES_MAX)
        for hashed, offset, stored_ms in PUT:
            assert file.put_key(hashed, offset, stored_ms)
        return bytes(file.view)

    return kernel.run(machine, body, time_limit_ns=10**9)


def test_the_index_model_predicts_the_bytes_that_the_store_writes() -> None:
    entries = [(hashed, offset, (stored_ms - 5_000) // 1000) for hashed, offset, stored_ms in PUT]
    header = IndexHeader(5_000, 9_999, 100, 500, 0, 0)

    assert file_content(header, entries, SLOTS, ENTRIES_MAX) == index_bytes_written_by_store()


@pytest.mark.parametrize(
    ("position", "field"),
    [
        (0, (0, 8, "beginTimestamp")),
        (31, (24, 32, "endPhyOffset")),
        (35, (32, 36, "hashSlotCount")),
        (39, (36, 40, "indexCount")),
        (40, (40, 44, "slot")),
        (51, (48, 52, "slot")),
        (52, (52, 56, "keyHash")),
        (79, (76, 84, "phyOffset")),
        (84, (84, 88, "timeDiff")),
        (91, (88, 92, "previous")),
    ],
)
def test_each_byte_of_an_index_file_belongs_to_a_field(position: int, field: tuple[int, int, str]) -> None:
    assert index_field_at(position, SLOTS) == field
