"""What the harness and the store do in a second, measured here and now: medians of several rounds.

Floors are the project's budget for one core of a two-core CI machine; noisy neighbours can halve any figure.
"""

import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

from ..sim.choices import Choices
from ..sim.kernel import Kernel
from ..sim.policies.random_walk import RandomWalk
from ..store.config import StoreConfig
from ..store.message import Message
from ..store.message_store import MessageStore
from ..store.real.clock import RealClock
from ..store.real.world import overlay_world, real_world
from .plan import Life, Plan, Ranges, draw_plan
from .run import Run
from .runner import garbage_kept

_HOUR_NS = 3600 * 1_000_000_000


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured rate."""

    name: str
    unit: str
    floor: float
    samples: tuple[float, ...]

    @property
    def median(self) -> float:
        """Return the median of the samples."""
        return median(self.samples)

    def to_json(self) -> dict[str, Any]:
        """Return the figure as JSON takes it."""
        return {
            "name": self.name,
            "unit": self.unit,
            "floor": self.floor,
            "median": self.median,
            "samples": list(self.samples),
        }


def run_bench(rounds: int, on_begin: Callable[[str], None]) -> list[Figure]:
    """Measure every figure so many times; on_begin is told which one is next."""
    figures = []
    for name, unit, floor, measure in (
        ("kernel steps", "steps/s", 400_000.0, kernel_steps),
        ("simulated messages", "messages/s", 10_000.0, simulated_messages),
        ("complete crash runs", "runs/s", 100.0, crash_runs),
        ("real puts, 1 KiB, async flush", "puts/s", 30_000.0, real_puts),
        ("recovery scan, 1 KiB bodies, with CRC", "MB/s", 300.0, recovery_scan),
    ):
        on_begin(name)
        figures.append(Figure(name, unit, floor, tuple(measure() for _ in range(rounds))))
    return figures


def kernel_steps() -> float:
    """Return scheduling points per second of two tasks on one cell, digest on."""
    loops = 100_000
    with Kernel(RandomWalk(Choices("bench").stream("schedule"), 8)) as kernel:
        machine = kernel.machine("m")

        def body() -> None:
            cell = machine.tasks.cell("shared")

            def count() -> None:
                for _ in range(loops):
                    cell.add(1)

            tasks = [machine.tasks.spawn(f"task-{number}", count) for number in range(2)]
            for task in tasks:
                task.join(None)

        began = perf_counter()
        kernel.run(machine, body, time_limit_ns=_HOUR_NS)
        return kernel.steps / (perf_counter() - began)


def _plan(producers: int, messages_each: int, ending: str) -> Plan:
    """Return producers of messages of some 200 bytes under sync flush, in segments of 16 KiB."""
    plan = draw_plan(Choices("bench").stream("plan"), Ranges())
    return replace(
        plan,
        sync_flush=True,
        commit_log_bytes=16384,
        consume_queue_bytes=1000,
        recover_whole_log=True,
        producers=producers,
        consumers=0,
        topics=2,
        queues_per_topic=2,
        body_bytes_max=200,
        property_bytes_max=0,
        equal_sizes=False,
        batch_chance=0.0,
        illegal_chance=0.0,
        no_wait_chance=0.0,
        pause_chance=0.0,
        policy="random-walk",
        policy_parameter=16,
        lives=(Life(ending, "ext4-ordered", -1, "after", messages_each),),
    )


def simulated_messages() -> float:
    """Return messages per second that are put, flushed, dispatched, stopped on, recovered and judged.

    Eight producers, who share syncs as producers do; each message is recovered three times and judged twice.
    """
    plan = _plan(8, 200, "stop")
    began = perf_counter()
    with garbage_kept():
        outcome = Run(plan, Choices("bench/messages")).execute()
    assert not outcome.violations, outcome.violations
    return outcome.messages / (perf_counter() - began)


def crash_runs() -> float:
    """Return complete runs per second: open, 3 producers of 17 messages, crash, recover, judge, heal, judge."""
    runs = 20
    plan = _plan(3, 17, "crash at rest")
    began = perf_counter()
    with garbage_kept():
        for number in range(runs):
            outcome = Run(plan, Choices(f"bench/crash/{number}")).execute()
            assert not outcome.violations, outcome.violations
            assert outcome.crashes == 1
    return runs / (perf_counter() - began)


_LOG_BYTES = 64 * 1024 * 1024
_PUTS = 57_000  # fills a segment almost to its end


class _SteppingClock(RealClock):
    """A wall clock that moves 1 ms with each look at it, so that a log filled in a second spans half a minute."""

    def __init__(self) -> None:
        self._now_ms = super().now_ms()

    def now_ms(self) -> int:
        """Return the next ms."""
        self._now_ms += 1
        return self._now_ms


def _fill(directory: str) -> float:
    """Put 1 KiB messages from one producer into a new store and stop it; return puts per second."""
    world = replace(real_world(), clock=_SteppingClock())
    store = MessageStore(world, StoreConfig(directory, mapped_file_size_commit_log=_LOG_BYTES))
    store.load()
    store.start()
    message = Message.of("Bench", b"x" * 1024, tags="TagA")
    store.put_message(message)
    began = perf_counter()
    for _ in range(_PUTS):
        store.put_message(message)
    took = perf_counter() - began
    assert store.max_phy_offset > _PUTS * 1024
    store.shutdown()
    return _PUTS / took


def real_puts() -> float:
    """Return puts per second of one producer over threads and mmap, dispatch running beside it."""
    directory = tempfile.mkdtemp(prefix="tornlog-bench-")
    try:
        return _fill(f"{directory}/store")
    finally:
        shutil.rmtree(directory)


def recovery_scan() -> float:
    """Return MB (10^6 bytes) of log per second that recovery scans after an unclean exit, CRC and queues included.

    Over a copy-on-write view, so that no disk is measured; the last seconds of the log are written again in it.
    """
    directory = tempfile.mkdtemp(prefix="tornlog-bench-")
    try:
        _fill(f"{directory}/store")
        Path(f"{directory}/store/abort").touch()
        config = StoreConfig(f"{directory}/store", mapped_file_size_commit_log=_LOG_BYTES)
        store = MessageStore(overlay_world(), config)
        began = perf_counter()
        report = store.load()
        took = perf_counter() - began
        assert report.records == _PUTS + 1, report
        store.close()
        return report.end_offset / took / 1e6
    finally:
        shutil.rmtree(directory)
