"""Disturbances: pause tasks and machines, delay timers, and step clocks.

    paused task      the task at a scheduling point stops for some time; other tasks continue
    paused machine   all tasks of all machines stop for some time; due timers fire afterwards
    late timers      timers that are due within a short time fire together, at the time of the last one
    clock step       the wall clock of the running machine jumps forward or backward

Late timers occur throughout a run. Computing takes no virtual time, so without them a task that serves a request has
finished before the next request arrives, even 1 ns later, and the two never race.

For each other kind and each window of WINDOW_POINTS scheduling points, one draw decides whether the window has a
disturbance, and a second draw chooses its point.

Sources: Gunawi et al., "Why Does the Cloud Stop Computing?", SoCC 2016, and Lion et al., "Don't Get Caught in the Cold,
Warm-up Your JVM", OSDI 2016, for pauses of runtimes and virtual machines; prctl(2), PR_SET_TIMERSLACK, for late timers;
settimeofday(2) and RFC 5905 for clock steps.
"""

from bisect import bisect_right
from collections import Counter
from dataclasses import dataclass
from typing import NamedTuple

from .choices import Stream
from .kernel import Kernel
from .machine import SimTask, WaitReason
from .magnitudes import draw_duration_ns, draw_magnitude

WINDOW_POINTS = 128  # draw labels contain the window, so draws of one window do not shift others
_CLOCK_STEP = 1 << 59  # tag of digest words, which the kernel does not use
_WORD = (1 << 64) - 1
_PAUSE_NS_MIN = 1_000_000
_NEVER = 1 << 60  # more scheduling points than any run passes
_PAUSED = WaitReason("paused")
_PAUSED_TASK, _PAUSED_MACHINE, _CLOCK = "paused task", "paused machine", "clock step"
_WOKEN, _LATE_TIMERS = "woken service", "late timers"
_WOKEN_POINTS = 12
"""The pause of a service is at one of so many points after its wake-up."""


@dataclass(frozen=True, slots=True)
class DisturbancePlan:
    """Kinds and rates of disturbances, all off by default. Probabilities are per window, durations in virtual time."""

    paused_task_chance: float = 0.0
    paused_task_ms_max: int = 2_000
    paused_woken_chance: float = 0.0
    """The chance, per wake-up of a service, that its task pauses soon afterwards, between two of its steps. Needs
    paused_task_chance.
    """
    paused_machine_chance: float = 0.0
    paused_machine_ms_max: int = 10_000  # no scenario sets this, but stored plans do
    timer_slack_us: int = 0
    """Timers that are due within this time of the first one fire together. 0: each timer fires on time."""
    clock_step_chance: float = 0.0
    clock_step_ms_max: int = 60_000
    last_clock_step_ms: int = 0
    """A step of the wall clock after all other disturbances; negative: back. 0: none."""

    @property
    def injects_nothing(self) -> bool:
        return not (self.has_windows or self.timer_slack_us)

    @property
    def has_windows(self) -> bool:
        return self.paused_task_chance + self.paused_machine_chance + self.clock_step_chance > 0.0


class Pause(NamedTuple):
    """A pause in virtual time."""

    begin_ns: int
    end_ns: int


class ClockSetBack(NamedTuple):
    """A backward step of a wall clock, in ms since 1970."""

    from_ms: int
    to_ms: int


class Disturbances:
    """The disturbances of one kernel. `injected` counts them by kind.

    Invariant: `_remaining` contains the remaining disturbances of the current window, the next one last.
    """

    def __init__(self, kernel: Kernel, stream: Stream, plan: DisturbancePlan) -> None:
        self.injected: Counter[str] = Counter()
        self.pauses: list[Pause] = []
        self._paused_ns = 0
        self._late_until_ns: list[int] = []  # the end of each jump with late timers
        self._late_ns: list[int] = []  # the lateness of all jumps up to that one
        self.set_back: list[ClockSetBack] = []
        self._kernel = kernel
        self._stream = stream
        self._plan = plan
        self._is_on = False
        self._window = 0
        self._window_end = 0
        self._remaining: list[tuple[int, str]] = []
        self._woken: SimTask | None = None
        """The service that pauses soon."""

    def start(self) -> None:
        """Start injecting, unless the plan is empty. A kernel may have one active `Disturbances` object."""
        if self._plan.injects_nothing:
            return
        assert self._kernel.disturb is None, "the kernel is being disturbed already"
        self._is_on = True
        self._kernel.set_timer_slack(self._plan.timer_slack_us * 1_000, self._record_late_timers)
        if self._plan.has_windows:
            self._kernel.disturb = self._inject_due_disturbances
            self._window_end = self._kernel.steps
            self._begin_window()

    def stop(self) -> None:
        """Stop injecting. Paused tasks continue when their pause ends."""
        if self._is_on:
            self._is_on = False
            self._kernel.set_timer_slack(0, None)
            if self._plan.has_windows:
                self._kernel.disturb = None
                self._remaining.clear()
                self._woken = None
                self._kernel.call_disturb_at_step(_NEVER)

    def pause_woken(self) -> None:
        """Choose whether the current task, a service that has just woken up, pauses at one of its next points.

        A service often looks at state and acts on it in two steps, each with a lock. Other tasks may come in between.
        """
        plan, stream = self._plan, self._stream
        may_pause = self._is_on and plan.paused_task_chance > 0.0 and self._woken is None
        if may_pause and stream.chance(plan.paused_woken_chance, "a service pauses"):
            self._woken = self._kernel.current
            self._remaining.append((self._kernel.steps + 1 + stream.randbelow(_WOKEN_POINTS, "its point"), _WOKEN))
            self._remaining.sort(reverse=True)
            self._schedule_next()

    @property
    def paused_until_ns(self) -> int:
        return max((pause.end_ns for pause in self.pauses), default=0)

    def paused_ns(self, since_ns: int = 0) -> int:
        if not since_ns:  # asked often
            return self._paused_ns
        paused_ns = sum(
            pause.end_ns - max(pause.begin_ns, since_ns) for pause in self.pauses if pause.end_ns > since_ns
        )
        if not self._late_ns:
            return paused_ns
        before = bisect_right(self._late_until_ns, since_ns)
        return paused_ns + self._late_ns[-1] - (self._late_ns[before - 1] if before else 0)

    def _inject_due_disturbances(self, step: int) -> bool:
        """Inject all due disturbances. Returns whether the current task was paused."""
        due = []
        while self._remaining and self._remaining[-1][0] <= step:
            due.append(self._remaining.pop()[1])
        if _WOKEN in due:
            self._pause_woken_or_retry(due, step)
        if step >= self._window_end:
            self._begin_window()
        else:
            self._schedule_next()
        if _CLOCK in due:
            self._step_clock()
        if _PAUSED_MACHINE in due:
            self._kernel.advance_clock(self._begin_pause(_PAUSED_MACHINE, self._plan.paused_machine_ms_max))
            self._count_injected(_PAUSED_MACHINE)
        if _PAUSED_TASK in due:
            self._count_injected(_PAUSED_TASK)
            pause_ns = self._begin_pause(_PAUSED_TASK, self._plan.paused_task_ms_max)
            self._kernel.park(_PAUSED, self._kernel.now_ns + pause_ns)
        return _PAUSED_TASK in due

    def _pause_woken_or_retry(self, due: list[str], step: int) -> None:
        """Make the pause of a service due if it runs. If another task does, try again at the next point."""
        woken = self._woken
        assert woken is not None, "a service pauses soon"
        if woken.waiting is None and woken.machine.alive and woken is not self._kernel.current:
            self._remaining.append((step + 1, _WOKEN))
            return
        self._woken = None
        if woken is self._kernel.current:
            due.append(_PAUSED_TASK)

    def _begin_window(self) -> None:
        plan, stream = self._plan, self._stream
        self._window += 1
        start = self._window_end
        self._window_end = start + WINDOW_POINTS
        for kind, chance in (
            (_PAUSED_TASK, plan.paused_task_chance),
            (_PAUSED_MACHINE, plan.paused_machine_chance),
            (_CLOCK, plan.clock_step_chance),
        ):
            if chance > 0.0 and stream.chance(chance, f"{kind} in window {self._window}"):
                point = stream.randbelow(WINDOW_POINTS, f"point of a {kind} in window {self._window}")
                self._remaining.append((start + 1 + point, kind))
        self._remaining.sort(reverse=True)
        self._schedule_next()

    def _schedule_next(self) -> None:
        next_step = self._remaining[-1][0] if self._remaining else self._window_end
        self._kernel.call_disturb_at_step(min(next_step, self._window_end))

    def _step_clock(self) -> None:
        stream = self._stream
        most_ms = max(1, self._plan.clock_step_ms_max)
        step_ms = draw_magnitude(stream, 1, most_ms, "ms of a clock step", self._kernel.landmarks_ms)
        self._step_clock_by(-step_ms if stream.chance(0.5, "a clock step back") else step_ms)

    def step_clock_last(self) -> None:
        """Make the last step of the plan, if any, on the machine of the current task."""
        if self._plan.last_clock_step_ms:
            self._step_clock_by(self._plan.last_clock_step_ms)

    def _step_clock_by(self, step_ms: int) -> None:
        machine = self._kernel.current.machine
        if step_ms < 0:
            before_ms = machine.clock.now_ms()
            self.set_back.append(ClockSetBack(before_ms, before_ms + step_ms))
        machine.wall_offset_ms += step_ms
        self._kernel.note((_CLOCK_STEP, machine.wall_offset_ms & _WORD))
        self._count_injected(_CLOCK)

    def _begin_pause(self, kind: str, most_ms: int) -> int:
        ns = draw_duration_ns(self._stream, _PAUSE_NS_MIN, most_ms, f"ns of a {kind}", self._kernel.landmarks_ms)
        self.pauses.append(Pause(self._kernel.now_ns, self._kernel.now_ns + ns))
        self._paused_ns += ns
        return ns

    def _record_late_timers(self, first_ns: int, now_ns: int) -> None:
        """Count how late the first timer is as a pause. Not in the trace, because it occurs too often."""
        late_ns = now_ns - first_ns
        self._paused_ns += late_ns
        self._late_until_ns.append(now_ns)
        self._late_ns.append(late_ns + (self._late_ns[-1] if self._late_ns else 0))
        self.injected[_LATE_TIMERS] += 1

    def _count_injected(self, kind: str) -> None:
        self.injected[kind] += 1
        if self._kernel.trace is not None:
            self._kernel.trace.add_event(kind, self._kernel.current.name)
