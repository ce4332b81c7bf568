"""Topic workloads: run closed-loop and open-loop producers, and late consumers."""

from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from ....faults.devices.storage import BLOCK_BYTES
from ....sim.machine import WaitReason
from ..latency.host import REFERENCE
from ..latency.traffic import Setup, arrivals, produce
from .layouts import SharedLog, TopicLayout, pulled_ns, put_factor
from .timed_machine import TimedMachine

_QUARTERS = 4
_PUTS_FACTOR_MAX = 2
_BUSY = 0.9
"""If the device is busy for a larger share of time, write-back may not keep up."""
_SYNC_FROM = 0.2
"""Under sync flush: share of the puts before the measurement starts."""
_DELAYED = WaitReason("what delays a put")
CONSUMERS = 8
"""Maximum number of parallel consumers, at most one per topic."""


class PutEnd(NamedTuple):
    """Virtual time, busy time and throttled time at the end of a put."""

    now_ns: int
    busy_ns: int
    throttled_ns: int


@dataclass(frozen=True, slots=True)
class SustainedRate:
    """The rate that producers can sustain for a long time."""

    puts_per_second: float
    busy_share: float
    """The share of time in which the device was busy."""


def closed_loop(machine: TimedMachine, layout: TopicLayout) -> SustainedRate:
    """Run producers in closed loops, with random topics, and return the rate.

    Under sync flush the loops make the configured number of puts. Under async flush, the loops can end after each
    quarter of the configured number of puts, from the second quarter on. The loops end if write-back keeps up with time
    to spare, or if writers had to wait before this quarter, because then the device limits the rate. The loops always
    end at twice the configured number. Dispatch also takes CPU time, so consumers can follow the rate.
    """
    setup = machine.setup
    factor = put_factor(setup.layout, setup.topics)
    work_ns = round((REFERENCE.put_work_ns + REFERENCE.dispatch_ns) * factor)
    watch = _SteadyStateWatch(machine)
    is_sync = setup.flush == "sync"

    def produce_all(number: int) -> None:
        draw = topics_of(machine, number)
        most = setup.puts if is_sync else _PUTS_FACTOR_MAX * setup.puts
        for _ in range(share_of(most, setup.producers, number)):
            if watch.is_over:
                return
            machine.processor.compute(work_ns)
            layout.put(draw())
            watch.record_put_end(ends_early=not is_sync)

    _run_producers(machine, produce_all)
    return watch.sustained(int(setup.puts * _SYNC_FROM) if is_sync else None)


class _SteadyStateWatch:
    def __init__(self, machine: TimedMachine) -> None:
        self._kernel = machine.kernel
        self._system = machine.system
        self._marks: list[PutEnd] = []
        self._quarter = machine.setup.puts // _QUARTERS
        self.is_over = False

    def record_put_end(self, *, ends_early: bool) -> None:
        marks, elevator = self._marks, self._system.elevator
        throttled_ns = self._system.writes.throttle.throttled_ns
        marks.append(PutEnd(self._kernel.now_ns, elevator.busy_ns, throttled_ns))
        if ends_early and len(marks) % self._quarter == 0 and len(marks) > self._quarter:
            before = marks[-self._quarter]
            self.is_over = self.is_over or self._keeps_up(before) or before.throttled_ns > 0

    def _keeps_up(self, before: PutEnd) -> bool:
        """Return whether the device was idle at times since `before`, with dirty data below the background limit."""
        now, write_back = self._marks[-1], self._system.write_back
        is_idle_at_times = now.busy_ns - before.busy_ns < _BUSY * (now.now_ns - before.now_ns)
        return is_idle_at_times and write_back.dirty_bytes <= write_back.background_bytes

    def sustained(self, first: int | None) -> SustainedRate:
        """Return the rate from put number `first` on; None means the last quarter."""
        marks = self._marks
        if first is None:
            last = len(marks) // self._quarter * self._quarter - 1
            first = last - self._quarter + 1
        else:
            last = len(marks) - 1
        assert 0 <= first < last, f"puts {first} to {last} of {len(marks)}"
        begin, end = marks[first], marks[last]
        assert begin.busy_ns <= end.busy_ns, "a device is never busy for less"
        took_ns = max(end.now_ns - begin.now_ns, 1)
        return SustainedRate((last - first) / took_ns * 1e9, min((end.busy_ns - begin.busy_ns) / took_ns, 1.0))


def _run_producers(machine: TimedMachine, body: Callable[[int], None]) -> None:
    tasks = [
        machine.tasks.spawn(f"producer-{number}", partial(body, number)) for number in range(machine.setup.producers)
    ]
    for task in tasks:
        task.join(None)


def topics_of(machine: TimedMachine, number: int) -> Callable[[], int]:
    draw, topics = machine.choices.stream(f"topics-{number}").raw_random, machine.setup.topics
    return lambda: int(draw() * topics)


def share_of(whole: int, parts: int, number: int) -> int:
    return whole // parts + (number < whole % parts)


def open_loop(machine: TimedMachine, layout: TopicLayout, rate: float) -> "array[int]":
    """Make `rate` puts per second arrive, independent of answers; return their latencies in ns."""
    setup, kernel, processor = machine.setup, machine.kernel, machine.processor
    factor = put_factor(setup.layout, setup.topics)
    most_ns, dispatch_ns = round(REFERENCE.put_work_ns * factor), round(REFERENCE.dispatch_ns * factor)
    if isinstance(layout, SharedLog):
        layout.store.on_arriving.append(lambda _: processor.compute(dispatch_ns))
    else:
        most_ns += dispatch_ns  # a layout without dispatch does all the work in the put
    spread = REFERENCE.put.scaled(most_ns / REFERENCE.put_work_ns)
    series: list[array[int]] = [array("q") for _ in range(setup.producers)]
    gaps_ns = arrivals(Setup(setup.flush, setup.producers, rate, setup.puts, seed=setup.seed))

    def produce_all(number: int) -> None:
        draw, stream = topics_of(machine, number), machine.choices.stream(f"puts-{number}")

        def put() -> None:
            took_ns = spread.draw(stream, "put")
            work_ns = min(most_ns, took_ns)
            processor.compute(work_ns)
            if took_ns > work_ns:
                kernel.park(_DELAYED, kernel.now_ns + took_ns - work_ns)
            layout.put(draw())

        series[number] = produce(gaps_ns[number], lambda: kernel.now_ns, machine.sleep_ns, put)

    _run_producers(machine, produce_all)
    return sum(series, array("q"))


@dataclass(frozen=True, slots=True)
class CaughtUp:
    """The rates of consumers that read topics from the beginning with an empty page cache."""

    topics_read: int
    records: int
    records_per_second: float
    waits_per_record: float
    """Number of waits for the device per record."""
    read_bytes_per_record: float


def run_late_consumers(machine: TimedMachine, layout: TopicLayout, topics: Sequence[int]) -> CaughtUp:
    """Run consumers that each read a share of the topics completely.

    A consumer pulls from its topics in turn, so all topics advance together from old to new records.
    """
    kernel, elevator, reads = machine.kernel, machine.system.elevator, machine.system.reads
    cost_ns = pulled_ns(machine.setup.layout)
    machine.drop_page_cache()
    begun = kernel.now_ns, elevator.blocks_read, reads.misses
    records = 0

    def consume(mine: Sequence[int]) -> None:
        nonlocal records
        offsets = dict.fromkeys(mine, 0)
        while offsets:
            for topic, offset in list(offsets.items()):
                found = layout.pull(topic, offset)
                records += len(found)
                machine.processor.compute(cost_ns * len(found))
                if found:
                    offsets[topic] = offset + len(found)
                else:
                    del offsets[topic]

    tasks = [
        machine.tasks.spawn(f"consumer-{number}", partial(consume, topics[number::CONSUMERS]))
        for number in range(min(CONSUMERS, len(topics)))
    ]
    for task in tasks:
        task.join(None)
    took_ns = max(kernel.now_ns - begun[0], 1)
    waits = (reads.misses - begun[2]) / records
    read_bytes = (elevator.blocks_read - begun[1]) * BLOCK_BYTES / records
    return CaughtUp(len(topics), records, records / took_ns * 1e9, waits, read_bytes)


def few_topics_of(topics: int) -> list[int]:
    """Return one topic per consumer, evenly spaced, or all topics if these are fewer."""
    count = min(CONSUMERS, topics)
    return [number * topics // count for number in range(count)]
