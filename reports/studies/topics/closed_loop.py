"""Producers who ask again as soon as they are answered, until it shows what they get in the long run."""

from dataclasses import dataclass
from typing import NamedTuple

from ..latency.host import REFERENCE
from .costs import put_factor
from .layouts import TopicLayout
from .producing import let_produce, share_of, topics_of
from .timed_machine import TimedMachine

_LOOKS = 4
_MOST = 2
_BUSY = 0.9
"""Of the time; a device that is busy for longer may not keep up."""
_SYNC_FROM = 0.2
"""Of the puts under sync flush, after which the rate counts."""


class Mark(NamedTuple):
    """How far everything was when a put ended."""

    now_ns: int
    busy_ns: int
    commands: int
    throttled_ns: int


@dataclass(frozen=True, slots=True)
class SustainedRate:
    """What producers get in the long run."""

    puts_per_second: float
    busy_share: float
    """For how much of the time the device was busy."""
    commands_per_put: float
    """How many the device was given."""


def closed_loop(machine: TimedMachine, layout: TopicLayout) -> SustainedRate:
    """Let all producers put, one put after the other, each to a topic that is drawn.

    Under sync flush they put as many as the setup says. Under async flush it is looked at each quarter of these, from
    the second on and for up to twice as many, whether the last quarter has shown it: either write-back keeps up, with
    time to spare, or writers have had to wait before it, so that what they get is what the device takes. The processor
    is charged with each put's dispatch, too, so that the rate is one that consumers can follow.
    """
    setup = machine.setup
    factor = put_factor(setup.layout, setup.topics)
    work_ns = round((REFERENCE.put_work_ns + REFERENCE.dispatch_ns) * factor)
    watch = _Watch(machine)
    is_sync = setup.flush == "sync"

    def produce_all(number: int) -> None:
        draw = topics_of(machine, number)
        most = setup.puts if is_sync else _MOST * setup.puts
        for _ in range(share_of(most, setup.producers, number)):
            if watch.is_over:
                return
            machine.processor.work(work_ns)
            layout.put(draw())
            watch.put_has_ended(ends_early=not is_sync)

    let_produce(machine, produce_all)
    return watch.sustained(int(setup.puts * _SYNC_FROM) if is_sync else None)


class _Watch:
    """Watches puts end."""

    def __init__(self, machine: TimedMachine) -> None:
        self._kernel = machine.kernel
        self._system = machine.system
        self._marks: list[Mark] = []
        self._quarter = machine.setup.puts // _LOOKS
        self.is_over = False

    def put_has_ended(self, *, ends_early: bool) -> None:
        """Note that a put has ended; look, now and then, whether it is over."""
        marks, elevator = self._marks, self._system.elevator
        throttled_ns = self._system.write_back.throttled_ns
        marks.append(Mark(self._kernel.now_ns, elevator.busy_ns, elevator.commands, throttled_ns))
        if ends_early and len(marks) % self._quarter == 0 and len(marks) > self._quarter:
            before = marks[-self._quarter]
            self.is_over = self.is_over or self._keeps_up(before) or before.throttled_ns > 0

    def _keeps_up(self, before: Mark) -> bool:
        """Return whether the device had time to spare since, and write-back lets no more stand than it does then."""
        now, write_back = self._marks[-1], self._system.write_back
        is_idle_at_times = now.busy_ns - before.busy_ns < _BUSY * (now.now_ns - before.now_ns)
        return is_idle_at_times and write_back.dirty_bytes <= write_back.background_bytes

    def sustained(self, first: int | None) -> SustainedRate:
        """Return what was got from put number first on; None: of the last quarter before it was over."""
        marks = self._marks
        if first is None:
            last = len(marks) // self._quarter * self._quarter - 1
            first = last - self._quarter + 1
        else:
            last = len(marks) - 1
        begin, end = marks[first], marks[last]
        took_ns = max(end.now_ns - begin.now_ns, 1)
        return SustainedRate(
            (last - first) / took_ns * 1e9,
            min((end.busy_ns - begin.busy_ns) / took_ns, 1.0),
            (end.commands - begin.commands) / (last - first),
        )
