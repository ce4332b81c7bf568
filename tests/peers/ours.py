"""The mini workload in this simulation: kernel, disk, and a machine that dies."""

from functools import partial

from tornlog.faults.crashes.profiles import PROFILES
from tornlog.faults.disk.disk import Disk
from tornlog.faults.disk.files import SimFiles
from tornlog.faults.disk.image import Image
from tornlog.faults.disk.mapped_file import SimMappedFile
from tornlog.sim.choices import Choices, Stream
from tornlog.sim.errors import MachineDied
from tornlog.sim.kernel import Kernel
from tornlog.sim.machine import Machine
from tornlog.sim.policies.random_walk import RandomWalk

from .workload import APPENDS_EACH, PRODUCERS, SECTOR_BYTES, SEGMENT_BYTES, Log, body_of

_SECOND_NS = 1_000_000_000
_DISK_OPERATIONS = 40


class _MappedPlace:
    """Segments as mapped files."""

    def __init__(self) -> None:
        self.files: SimFiles | None = None
        self._maps: dict[str, SimMappedFile] = {}

    def create(self, path: str) -> None:
        assert self.files is not None, "a disk is mounted before it is used"
        if not self._maps:
            self.files.make_directories("/log")
        self._maps[path] = self.files.map(path, SEGMENT_BYTES)
        self.files.sync(path)
        self.files.sync_directory("/log")

    def store(self, path: str, at: int, data: bytes) -> None:
        self._maps[path].store(at, data)

    def sync(self, path: str) -> None:
        self._maps[path].msync(0, SEGMENT_BYTES)


def run(seed: int) -> tuple[int, int]:
    """Run one seed; return the numbers of log operations and of simulation steps."""
    choices = Choices(f"mini/{seed}")
    with Kernel(RandomWalk(choices.stream("schedule"), 4)) as kernel:
        place = _MappedPlace()
        log, disk = Log(place), _disk(kernel, choices.stream("disk"), None)
        disk.crash_at(choices.stream("crash").randbelow(_DISK_OPERATIONS, "operation"), "during")
        machine = kernel.create_machine("first")
        place.files = disk.mount(machine)
        try:
            kernel.run(machine, lambda: _live(machine, log), time_limit_ns=_SECOND_NS)
            image = disk.image_after_power_off()
        except MachineDied:
            image = disk.crash(PROFILES["ext4-ordered"])
        page_outcome = _disk(kernel, choices.stream("survivor"), image)
        machine = kernel.create_machine("second")
        files = page_outcome.mount(machine)

        def recover() -> None:
            log.judge(lambda path: files.read(path) if files.status(path) is not None else None)

        kernel.run(machine, recover, time_limit_ns=_SECOND_NS)
        return log.operations, kernel.steps


def _disk(kernel: Kernel, stream: Stream, image: Image | None) -> Disk:
    return Disk(kernel, stream, image=image, sector_bytes=SECTOR_BYTES, page_bytes=SEGMENT_BYTES)


def _live(machine: Machine, log: Log) -> None:
    tasks = machine.tasks
    appending = tasks.lock("append")

    def produce(producer: int) -> None:
        for number in range(APPENDS_EACH):
            body = body_of(producer, number)
            with appending:
                end = log.append(body)
            while log.flushed < end:
                tasks.sleep(1)
            log.acknowledge(body)

    def repeat(action: str) -> None:
        while not log.is_done:
            getattr(log, action)()
            tasks.sleep(1)

    spawned = [tasks.spawn(action, partial(repeat, action)) for action in ("flush", "dispatch")]
    spawned += [tasks.spawn(f"producer-{number}", partial(produce, number)) for number in range(PRODUCERS)]
    for task in spawned:
        task.join(None)
