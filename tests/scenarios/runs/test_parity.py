"""Parity: a store behaves the same on a simulated and on a real disk, byte for byte."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tornlog.faults.disk.disk import Disk
from tornlog.faults.disk.export import export_image, load_image
from tornlog.faults.disk.image import FileImage, Image
from tornlog.scenarios.claims.machine import ROOT, config_of
from tornlog.scenarios.claims.plan import Plan
from tornlog.scenarios.claims.ranges import Ranges, draw_plan
from tornlog.scenarios.runs.run_of import simulation_of
from tornlog.scenarios.runs.store_run import Run
from tornlog.sim.choices import Choices
from tornlog.sim.kernel import Kernel
from tornlog.sim.policies.random_walk import RandomWalk
from tornlog.store.config import FlushDiskType, StoreConfig
from tornlog.store.errors import StoreError
from tornlog.store.formats.batch import BatchUnit, encode_batch
from tornlog.store.formats.messages import Message, MessageBatch, PutMessageStatus
from tornlog.store.message_store import MessageStore
from tornlog.store.real.world import real_world
from tornlog.store.world import World

Body = Callable[[World], Any]


def run_in_simulation(body: Body, image: Image | None = None) -> tuple[Any, Image]:
    """Return the result of body on a simulated machine, and the disk's content after a clean power-off."""
    choices = Choices("parity")
    with Kernel(RandomWalk(choices.stream("schedule"), 16)) as kernel:
        machine = kernel.create_machine("simulated")
        disk = Disk(kernel, choices.stream("disk"), image=image)
        world = World(machine.clock, machine.tasks, disk.mount(machine))
        value = kernel.run(machine, lambda: body(world), time_limit_ns=3600 * 10**9)
    return value, disk.image_after_power_off()


def tree_of_image(image: Image) -> dict[str, bytes | None]:
    """Return the tree below the store's root: directories as None, files as their bytes.

    Index files are named after the wall clock, which differs in the two worlds, so they are numbered instead.
    """
    below = f"{ROOT}/"
    found: dict[str, bytes | None] = {
        path.removeprefix(below): None for path in image.directories if path.startswith(below)
    }
    files = {path.removeprefix(below): file.content for path, file in image.files.items()}
    index = sorted(path for path in files if path.startswith("index/"))
    numbered = {path: f"index/{number}" for number, path in enumerate(index)}
    return found | {numbered.get(path, path): content for path, content in files.items()}


def tree_of_directory(directory: Path) -> dict[str, bytes | None]:
    return tree_of_image(load_image(directory, ROOT))


# The same workload


class ScriptedClock:
    """A clock with the times of a workload. Log time advances by measured time if the wall clock steps back."""

    def __init__(self) -> None:
        self._wall_ms = 1_700_000_000_000
        self._measured_ms = 0

    def pass_ms(self, wall_ms: int) -> None:
        self._wall_ms += wall_ms
        self._measured_ms += abs(wall_ms)

    def now_ms(self) -> int:
        return self._wall_ms

    def monotonic_ns(self) -> int:
        return self._measured_ms * 1_000_000

    def utc_offset_ms(self) -> int:
        return 0


@dataclass(frozen=True)
class Step:
    """One put of a workload, and the step of the wall clock before it, forward or back."""

    wall_ms: int
    put: Message | MessageBatch


def workload(random: Random, count: int) -> Iterator[Step]:
    for number in range(count):
        topic = f"Topic{random.randrange(2)}"
        head = Message.create(
            topic,
            random.randbytes(random.choice((0, 30, 200, 700))),
            queue_id=random.randrange(2),
            tags=random.choice(("", "TagA", "TagB")),
            keys=f"key{number}",
        )
        wall_ms = random.choice((0, 0, 1, 40, 5000, -20))
        if random.random() < 0.2:
            units = [BatchUnit(0, random.randbytes(20), f"KEYS\1unit{unit}".encode()) for unit in range(3)]
            yield Step(wall_ms, MessageBatch(Message(topic, queue_id=1), encode_batch(units)))
        else:
            yield Step(wall_ms, head)


def run_workload(world: World, config: StoreConfig, steps: Iterable[Step]) -> list[tuple[str, str]]:
    """Run one life to a clean stop; return every answer."""
    clock = ScriptedClock()
    store = MessageStore(World(clock, world.tasks, world.files), config)
    store.load()
    store.start()
    answers = []
    for step in steps:
        clock.pass_ms(step.wall_ms)
        if isinstance(step.put, MessageBatch):
            result = store.put_messages(step.put)
        else:
            result = store.put_message(step.put)
        answers.append((result.status.value, str(result.append)))
    assert store.shutdown()
    return answers


@pytest.mark.parametrize("flush", FlushDiskType)
@pytest.mark.parametrize("seed", range(5))
def test_a_workload_writes_the_same_bytes_on_simulated_and_real_disks(
    seed: int, flush: FlushDiskType, tmp_path: Path
) -> None:
    random = Random(f"{seed}/{flush.value}")
    config = StoreConfig(
        ROOT,
        flush_disk_type=flush,
        mapped_file_size_commit_log=random.choice((2048, 4096, 8192)),
        mapped_file_size_consume_queue=random.choice((100, 200, 1000)),
        max_hash_slot_num=random.choice((3, 50)),
        max_index_num=random.choice((9, 1000)),
    )
    lives = [list(workload(random, 25)) for _ in range(2)]
    on_disk = replace(config, store_path_root_dir=str(tmp_path))
    really = [run_workload(real_world(), on_disk, steps) for steps in lives]
    simulated, image = run_in_simulation(lambda world: [run_workload(world, config, steps) for steps in lives])

    assert simulated == really
    assert sum(status == PutMessageStatus.PUT_OK.value for answers in really for status, _ in answers) == 50
    found = tree_of_directory(tmp_path)
    assert len([path for path in found if path.startswith("commitlog/")]) > 1
    assert tree_of_image(image) == found


# The same recovery


@dataclass(frozen=True)
class Recovered:
    """The visible state of a store after its recovery."""

    report: tuple[object, ...]
    findings: list[str]
    log: tuple[int, int]
    segments: list[tuple[int, bytes]]
    queues: list[tuple[str, int, int, int, list[tuple[int, bytes]]]]


def recover(world: World, config: StoreConfig) -> Recovered | str:
    """Load a store without services, read its state, and release it. Return an error of the load as text."""
    store = MessageStore(world, config)
    try:
        report = store.load()
    except StoreError as error:
        store.close()
        return str(error).replace(config.store_path_root_dir, ROOT)

    def segments(queue: Any) -> list[tuple[int, bytes]]:
        return [(segment.base_offset, bytes(segment.file.view(0, segment.wrote.get()))) for segment in queue.segments]

    recovered = Recovered(
        (
            report.clean_exit,
            report.start_offset,
            report.end_offset,
            report.records,
            report.last_store_timestamp_ms,
            report.changed_entries,
        ),
        [str(finding).replace(config.store_path_root_dir, ROOT) for finding in report.findings],
        (store.min_phy_offset, store.max_phy_offset),
        segments(store.log),
        [
            (queue.topic, queue.queue_id, queue.min_offset, queue.max_offset, segments(queue.queue))
            for queue in store.queues.all_queues()
        ],
    )
    store.close()
    return recovered


def crash_images(ranges: Ranges, base: str, wanted: int) -> list[tuple[Plan, Image]]:
    """Run seeds until there are that many different images of stores without a clean stop."""
    found: dict[str, tuple[Plan, Image]] = {}
    for seed in range(10 * wanted):
        choices = Choices(f"{base}/{seed}")
        plan = draw_plan(choices.stream("plan"), ranges)
        run = Run(plan, simulation_of(plan, choices))

        def keep(image: Image, plan: Plan = plan) -> None:
            if f"{ROOT}/abort" in image.files:
                found.setdefault(image.digest(), (plan, image))

        run.lasting.on_image = keep
        run.execute()
        if len(found) >= wanted:
            break
    assert len(found) >= wanted
    return list(found.values())


CRASHES = {
    "process kills": Ranges(disk=("process-kill",), endings=("crash in traffic",)),
    "ordered power cuts": Ranges(disk=("ext4-ordered",), endings=("crash in traffic", "crash at rest")),
    "reckless power cuts": Ranges(disk=("strict-posix",), endings=("crash in traffic", "crash at rest")),
    "power cuts in recovery": Ranges(
        disk=("ext4-ordered", "strict-posix"), endings=("crash in traffic", "crash in load"), lives=(3,)
    ),
    "torn pages of an unflushed log": Ranges(
        sync_flush=(False,),
        disk=("strict-posix",),
        endings=("crash at rest",),
        messages={"body_bytes_max": (900,)},
        commit_log_bytes=(16384,),
        messages_each=(16,),
    ),
}


def recover_on_both(plan: Plan, image: Image, directory: Path) -> Recovered | str:
    """Recover an image on both disks, compare the results, and return the result."""
    config = config_of(plan)
    directory.mkdir()
    export_image(image, ROOT, directory)
    really = recover(real_world(), replace(config, store_path_root_dir=str(directory)))
    simulated, settled = run_in_simulation(lambda world: recover(world, config), image)

    assert simulated == really, plan
    assert tree_of_image(settled) == tree_of_directory(directory), plan
    return really


@pytest.mark.slow
@pytest.mark.parametrize("crash", CRASHES)
def test_a_crash_image_recovers_equally_on_simulated_and_real_disks(crash: str, tmp_path: Path) -> None:
    records = findings = 0
    for number, (plan, image) in enumerate(crash_images(CRASHES[crash], crash, wanted=60)):
        recovered = recover_on_both(plan, image, tmp_path / str(number))
        assert isinstance(recovered, Recovered), (recovered, plan)
        records += len([raw for _, raw in recovered.segments if raw])
        findings += len(recovered.findings)
    assert records > 0
    assert findings > 0 or crash == "process kills"


@pytest.mark.ci
def test_an_image_with_bit_rot_is_judged_equally_on_simulated_and_real_disks(tmp_path: Path) -> None:
    random = Random("rot")
    refused = findings = 0
    for number, (plan, image) in enumerate(crash_images(Ranges(), "rot", wanted=60)):
        files = dict(image.files)
        filled = [path for path, file in files.items() if file.content]
        if not filled:
            continue
        path = random.choice(filled)
        rotten = bytearray(files[path].content)
        if random.random() < 0.2:
            del rotten[random.randrange(len(rotten)) :]
        else:
            rotten[random.randrange(min(len(rotten), 1500))] ^= 1 << random.randrange(8)
        files[path] = FileImage(bytes(rotten), files[path].mtime_ms)
        recovered = recover_on_both(plan, Image(files, image.directories), tmp_path / str(number))
        refused += isinstance(recovered, str)
        findings += isinstance(recovered, Recovered) and len(recovered.findings)
    assert refused > 0
    assert findings > 0
