"""Kernel: runs tasks of simulated machines one at a time, on virtual time.

A scheduling point precedes every operation that other tasks can observe, so another task may run first. The policy
grants a task a quantum of points; passing a point costs a decrement and a test of `fuel`. When fuel runs out or the
task blocks, the kernel calls the policy again. If no task can run, virtual time jumps to the next timer.

The hub is the greenlet that called `Kernel.run`. The kernel switches to the hub when a task ends, a machine dies or no
task can run. Only the hub unwinds tasks, in a fixed order, and raises the errors of a run.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from greenlet import getcurrent, greenlet

from .errors import (
    DeadlockError,
    InjectedError,
    LivenessError,
    MachineDied,
    NoProgressError,
    TaskFailedError,
    UnstoppableTaskError,
)
from .machine import Machine, SimTask, WaitReason
from .policies import ENDLESS, Policy, WatchingPolicy
from .process import counted_steps
from .task_greenlets import take_greenlet
from .timers import Timers
from .trace import FOLDED_AT_WORDS, RollingDigest, Trace

T = TypeVar("T")
_DECISION = 1 << 63  # tags of digest words; file operations use other codes
_TIME_JUMP = 1 << 62
_KILL = 1 << 61
_TASK_END = 1 << 60
REFUSALS_MAX = 1000
"""How often a task of a dead machine may catch MachineDied and make another world call."""
_RECENT_SWITCHES = 3_000
"""How many of the last switches show which task makes no progress."""
_BUSIEST_TASKS = 3
_BUSY_PART = 20  # a task with less than 5 % of the steps is not busy
# Greenlets that are never released: garbage collection would raise GreenletExit in them, and their tasks could catch it
# too.
_unstoppable: list[greenlet] = []


class NoSchedulingPoints:
    """Suspends the current quantum during a block of `Kernel.without_scheduling_points`."""

    __slots__ = ("_before", "_kernel")

    def __init__(self, kernel: "Kernel") -> None:
        kernel._draw_lone_quanta()
        self._kernel = kernel
        self._before = kernel.fuel, kernel._horizon, kernel._is_one_moment

    def __enter__(self) -> None:
        kernel = self._kernel
        kernel.fuel += ENDLESS
        kernel._horizon += ENDLESS
        kernel._is_one_moment = True

    def __exit__(self, *_: object) -> None:
        kernel = self._kernel
        kernel.fuel, kernel._horizon, kernel._is_one_moment = self._before


class Kernel:
    """The machines, time, schedule and digest of one run.

    While only one task can run, the end of a quantum has no effect. So the kernel grants that task, `_lone`, fuel
    without end, and asks the policy for the quanta since step `_lone_since` afterwards, see `_draw_lone_quanta`.

    Invariant: the tasks have passed `_horizon - fuel` scheduling points.
    """

    __slots__ = (
        *("current", "disturb", "fuel", "landmarks_ms", "note", "now_ns", "trace", "wall_start_ms"),
        *("_deadline_ns", "_digest", "_disturb_step", "_dying", "_failed", "_horizon", "_hub", "_is_one_moment"),
        *("_last_decision_step", "_lone", "_lone_since", "_machines", "_on_uncontested_point", "_outside"),
        *("_pending", "_policy"),
        *("_on_late_timers", "_policy_failure", "_ready", "_step_limit", "_switches", "_task_count", "_timer_slack_ns"),
        "_timers",
    )

    def __init__(
        self,
        policy: Policy,
        *,
        wall_start_ms: int = 1_600_000_000_000,
        step_limit: int = 5_000_000,
        trace: Trace | None = None,
    ) -> None:
        self.now_ns = 0
        self.wall_start_ms = wall_start_ms
        self.landmarks_ms: Sequence[int] = ()
        """Durations that the code under test compares with. Draws of fault durations prefer them."""
        self.fuel = 0
        self._horizon = 0
        self._is_one_moment = False
        self._digest = RollingDigest()
        self._pending = self._digest.pending
        self.note = self._digest.note
        """Adds two integers, 0 <= x < 2**64, to the digest.

        `note` is an attribute, not a method, because disks call it often.
        """
        self._policy = policy
        # An isinstance check against a protocol would take longer than the rest of this constructor.
        self._on_uncontested_point: Callable[[SimTask, str], None] | None = getattr(
            policy, WatchingPolicy.on_uncontested_point.__name__, None
        )
        self._policy_failure: Exception | None = None
        self._lone: SimTask | None = None
        self._lone_since = 0
        self._step_limit = step_limit
        self._disturb_step = step_limit  # no quantum reaches this step
        self.disturb: Callable[[int], bool] | None = None
        """Function to call at the step of `call_disturb_at_step`. Returns whether it parked the current task."""
        self._ready: list[SimTask] = []  # runnable tasks, longest runnable first, with the current task
        self._timers = Timers()
        self._timer_slack_ns = 0
        self._on_late_timers: Callable[[int, int], None] | None = None
        self._deadline_ns = 0
        self._machines: dict[str, Machine] = {}
        self._dying: list[Machine] = []  # killed machines; the hub unwinds them before any task runs
        self._failed: SimTask | None = None
        self._task_count = 0
        self._switches: list[Any] = []  # flat list: points, label, task name; points, label, task name; …
        self._last_decision_step = 0
        self._hub: greenlet | None = None  # None while no run is active
        nowhere = Machine(self, "outside")
        nowhere.alive = False  # so a scheduling point outside of tasks takes the slow path, which permits it
        self._outside = SimTask(nowhere, "outside", 0, lambda: None)
        self.current = self._outside
        self.trace = trace
        if trace is not None:
            trace.attach_to_kernel(self, self._digest)

    def __enter__(self) -> "Kernel":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- called by the driver -----------------------------------------------------------------------

    def create_machine(self, name: str) -> Machine:
        """Switch on a new machine.

        Machine names are unique in a kernel, so a machine that restarts needs a new name.
        """
        if name in self._machines:
            raise ValueError(f"machine {name}: a machine of that name exists already")
        machine = self._machines[name] = Machine(self, name)
        return machine

    def run(self, machine: Machine, body: Callable[[], T], *, time_limit_ns: int) -> T:
        """Run body as the main task of machine, together with all other tasks. Returns the value of body.

        After the run the machine is off, and its remaining tasks are unwound and listed in `machine.leftover_tasks`.
        Tasks of other machines continue in the next run. time_limit_ns counts from now.

        Raises MachineDied if the machine was killed, TaskFailedError if a task ended with an exception, DeadlockError
        or NoProgressError if the run makes no progress, UnstoppableTaskError if a task does not end, and exceptions of
        the policy. After an error other than MachineDied, every machine is off.
        """
        if self._hub is not None:
            raise RuntimeError("this kernel is running already")
        self._deadline_ns = self.now_ns + time_limit_ns
        self._hub = getcurrent()
        self._set_greenlet_parents(self._hub)
        try:
            # Quanta of a lone task, drawn after its steps, count too: millions of them take seconds.
            with counted_steps(lambda: self.steps + self._lone_since):
                main = self.spawn(machine, "main", body)
                self._run_until_ended(main)
                machine.leftover_tasks = [task.name for task in machine.live_tasks.values()]
                self._unwind_machine(machine)
                self._unwind_dying_machines()
        except MachineDied:
            raise
        except BaseException:
            self.close()
            raise
        finally:
            self._hub = None
            self._end_quantum()
            self.current = self._outside
        value: T = main.value
        return value

    def kill(self, machine: Machine) -> None:
        """Switch off a machine, if it is on.

        The next world call of each of its tasks raises MachineDied, also in a task that killed its own machine.
        """
        if not machine.alive:
            return
        self.note((_KILL, self.steps))
        if self.trace is not None:
            self.trace.add_event("kill", machine.name)
        self._power_off_machine(machine)
        if self._hub is None:
            self._unwind_machine(machine)
        else:  # a task cannot unwind itself, so the hub unwinds it at the next point
            self._dying.append(machine)
            self._end_quantum()

    def close(self) -> None:
        for machine in self._machines.values():
            self._unwind_machine(machine)
        self._dying.clear()
        # The garbage collector does not traverse suspended greenlets, and untracks tuples that contain one. So it would
        # not find the reference cycle from a timer's task to the kernel.
        self._timers.clear()
        assert not self._ready, "every task has ended"

    def digest(self) -> str:
        return self._digest.hexdigest()

    @property
    def steps(self) -> int:
        return self._horizon - self.fuel

    @property
    def schedule(self) -> list[list[Any]]:
        """Return each choice between tasks, for JSON: [points since the last choice, label, chosen task].

        A label with ~ denotes a forced switch: the previous task blocked (`~lock put`) or ended (`~end`), or a machine
        was unwound (`~kill`).
        """
        flat = self._switches
        return [flat[at : at + 3] for at in range(0, len(flat), 3)]

    def call_disturb_at_step(self, step: int) -> None:
        """Call `disturb` at this step. If a forced switch passes this step, call it at the next point."""
        self._end_quantum()
        self._disturb_step = min(step, self._step_limit)

    def raise_step_limit(self, times: int) -> None:
        """Multiply the step limit, because the caller adds scheduling points to the code under test."""
        self._draw_lone_quanta()
        was_undisturbed = self._disturb_step == self._step_limit
        self._step_limit *= times
        if was_undisturbed:
            self._disturb_step = self._step_limit

    def without_scheduling_points(self) -> NoSchedulingPoints:
        """Return a context without scheduling points, so that all values read in it are of one moment.

        Code in the context must not wait, or wake or spawn a task, because the policy could then end the suspended
        quantum.
        """
        return NoSchedulingPoints(self)

    def advance_clock(self, ns: int) -> None:
        assert ns >= 0, ns
        self.now_ns += ns
        self.note((_TIME_JUMP, self.now_ns))

    def set_timer_slack(self, slack_ns: int, on_late: Callable[[int, int], None] | None) -> None:
        """Let timers that are due within slack_ns fire together, at the time of the last one.

        on_late: called after such a jump with the first due time and the present time.
        """
        assert slack_ns >= 0, slack_ns
        self._timer_slack_ns, self._on_late_timers = slack_ns, on_late

    # -- called by tasks -----------------------------------------------------------------------------

    def scheduling_point(self, label: str) -> None:
        """Pass the scheduling point before an operation. label names the operation."""
        self.fuel -= 1
        if self.fuel < 0:
            self.reschedule(label)

    def reschedule(self, label: str) -> None:
        current = self.current
        if not current.machine.alive:
            self.raise_machine_died(current.machine)
            return
        if (
            self.disturb is not None
            and self._horizon - self.fuel >= self._disturb_step
            and not self._dying
            and self.disturb(self.steps)
        ):
            return  # `disturb` paused the task, and the policy has chosen it again
        chosen = None if self._dying else self._choose_next(label)
        if chosen is not current:
            self._switch_to(chosen)

    def park(self, why: WaitReason, due_ns: int | None) -> bool:
        """Block the current task until another task wakes it (True) or until due_ns (False; None: no limit)."""
        current = self.current
        if not current.machine.alive:
            self.raise_machine_died(current.machine)
            raise RuntimeError(f"{why.label}: would block, outside of any task")
        assert current.waiting is None, f"{current.name} runs"
        assert not self._is_one_moment, f"{current.name} waits for {why.label} inside without_scheduling_points"
        if self._lone is not None:
            self._draw_lone_quanta()
        current.waiting = why
        current.due_ns = due_ns
        current.park_number += 1
        if due_ns is not None:
            self._timers.push(due_ns, current)
        if self.trace is not None:
            self.trace.on_parked(why)
        self._ready.remove(current)
        chosen = None if self._dying else self._choose_next(f"~{why.label}")  # ~ denotes a forced switch
        if chosen is not current:
            self._switch_to(chosen)
        return current.woken

    def wake(self, task: SimTask) -> None:
        if task.waiting is None or not task.machine.alive:
            return
        assert not self._is_one_moment, f"{task.name} is woken inside without_scheduling_points"
        if self._lone is not None:
            self._draw_lone_quanta()
        task.waiting = None
        task.woken = True
        if self.trace is not None:
            self.trace.on_ready(task)
        self._ready.append(task)
        if self._policy.interrupts_on_wake:  # as `_end_quantum`
            self._horizon -= self.fuel
            self.fuel = 0

    def limit_wait_to(self, task: SimTask, due_ns: int) -> None:
        """Shorten the wait of a task to due_ns if it is parked and not dead."""
        if task.waiting is None or not task.machine.alive or (task.due_ns is not None and task.due_ns <= due_ns):
            return
        task.due_ns = due_ns
        task.park_number += 1  # makes the previous timer stale
        self._timers.push(due_ns, task)

    def spawn(self, machine: Machine, name: str, body: Callable[[], Any]) -> SimTask:
        """Make a runnable task. Its name is `machine/name`, or `machine/name#2`, … for further tasks."""
        assert machine.kernel is self, f"{machine.name} belongs to another kernel"
        assert not self._is_one_moment, f"{name} is spawned inside without_scheduling_points"
        if not machine.alive:
            self.raise_machine_died(machine)
            raise MachineDied(machine.name)
        self._task_count += 1
        task = SimTask(machine, machine.unique_task_name(name), self._task_count, body)
        self._draw_lone_quanta()
        machine.live_tasks[task.number] = task
        self._ready.append(task)
        if self._policy.interrupts_on_wake:
            self._end_quantum()
        return task

    def raise_machine_died(self, machine: Machine) -> None:
        """Raise MachineDied for a call to a dead machine, except outside of tasks."""
        task = self.current
        if self.fuel < 0:
            self.fuel = 0  # not counted as a step; the next point takes the slow path again
        if task is self._outside:
            return
        task.refusals += 1
        if task.refusals > REFUSALS_MAX and self._hub is not None:
            self._hub.switch(None)  # never returns, because the task would catch another MachineDied
        raise MachineDied(machine.name)

    # -- scheduling ----------------------------------------------------------------------------------

    def _choose_next(self, label: str) -> SimTask | None:
        """Choose the next task, and grant it a quantum.

        Returns None if the hub must handle the end of the run or a failure.
        """
        if self._lone is not None:
            self._draw_lone_quanta()
        if self._policy_failure is not None:
            return None
        ready = self._ready
        while not ready:
            if not self._jump_to_next_timer():
                return None
        step = self._horizon - self.fuel
        if step >= self._step_limit:
            return None
        policy = self._policy
        try:
            if len(ready) == 1:
                chosen = ready[0]
                if self._on_uncontested_point is None:
                    self._lone, self._lone_since = chosen, step
                    fuel = self._disturb_step - step - 1
                    self.fuel = fuel = fuel if fuel > 0 else 0  # `max` would take longer
                    self._horizon = step + fuel
                    return chosen
                self._on_uncontested_point(self.current, label)
            else:
                ran = None if self.current is self._outside else self.current
                chosen = ready[policy.choose_task(ready, ran, label, step)]
                # A task that continues adds no record, so record and digest do not depend on the number of calls.
                if chosen is not ran or label[0] == "~":
                    points = step - self._last_decision_step
                    self._last_decision_step = step
                    self._switches += (points, label, chosen.name)
                    self.note((_DECISION | points, chosen.number))
                    if len(self._pending) >= FOLDED_AT_WORDS:  # tested here, because a method call is expensive
                        self._digest.hash_pending_words()
            quantum = policy.quantum(chosen, step)
            assert quantum >= 0, f"{policy.name} grants {quantum} points"
        except Exception as failure:  # the hub raises it later, because simulated code could catch it here
            self._policy_failure = failure
            return None
        if quantum >= self._disturb_step - step:  # the point of a disturbance must take the slow path
            quantum = max(0, self._disturb_step - step - 1)
        self.fuel = quantum
        self._horizon = step + quantum
        return chosen

    def _draw_lone_quanta(self) -> None:
        """Ask the policy for each quantum since a task began to run alone. The task keeps the fuel of the last one."""
        lone, begin = self._lone, self._lone_since
        if lone is None:
            return
        self._lone = None
        fuel = self.fuel
        step = end = self._horizon - fuel
        free_to = step - (fuel < 0)  # `reschedule` asks for the next quantum itself, at a point without fuel
        quantum = self._policy.quantum
        try:
            while (end := begin + quantum(lone, begin)) < free_to:
                assert end >= begin, f"{self._policy.name} grants {end - begin} points"
                begin = self._lone_since = end + 1  # the point that found no fuel
        except Exception as failure:
            self._policy_failure = failure
        if end >= self._disturb_step:
            end = max(begin, self._disturb_step - 1)
        self._horizon = end
        self.fuel = end - step

    def _switch_to(self, chosen: SimTask | None) -> Any:
        """Switch to a task or to the hub. Returns when the policy chooses the current task again.

        Only the hub starts new tasks. A greenlet inherits the call depth of its starter, so a chain of starts would
        reach the recursion limit.
        """
        assert self._hub is not None, "a task runs only under a hub"
        if chosen is None:
            unstarted = self._hub.switch(None)
        else:
            if self.trace is not None:
                self.trace.add_event("switch", chosen.name)
            self.current = chosen
            if chosen.greenlet is None:
                unstarted = self._hub.switch(chosen)
            else:
                unstarted = chosen.greenlet.switch()  # costs half as much as a switch through the hub
        if self.current.is_unwinding:  # raised here, because `greenlet.throw` takes much longer than `switch`
            self.current.is_unwinding = False
            raise MachineDied(self.current.machine.name)
        return unstarted

    def _start(self, task: SimTask) -> SimTask | None:
        """Start a task from the hub. Returns the next task to start, or None."""
        assert self._hub is not None, "a task runs only under a hub"
        task.greenlet = take_greenlet(self._hub)
        unstarted: SimTask | None = task.greenlet.switch(self._run_current)
        return unstarted

    def _run_current(self) -> None:
        task = self.current
        if self.trace is not None:
            self.trace.add_event("start", task.name)
        try:
            task.value = task.body()
        except MachineDied as death:
            if task.machine.alive:
                task.failure = RuntimeError(f"called a dead machine: {death}")
        except Exception as failure:
            task.failure = failure
        self._remove_ended_task(task)
        task.greenlet = None

    def _remove_ended_task(self, task: SimTask) -> None:
        assert not task.ended, task.name
        self._draw_lone_quanta()
        task.ended = True
        machine = task.machine
        del machine.live_tasks[task.number]
        if task in self._ready:
            self._ready.remove(task)
        failure = task.failure
        if failure is not None and machine.alive and self._failed is None:
            self._failed = None if isinstance(failure, InjectedError) else task
        self.note((_TASK_END | task.number, self.steps))
        if self.trace is not None:
            self.trace.add_event("end", task.name if failure is None else f"{task.name}: {failure!r}")
        for joiner in task.joiners:
            self.wake(joiner)

    def _jump_to_next_timer(self) -> bool:
        """Advance time to the next timer, and wake its tasks. Returns False if no timer is due before the limit."""
        due_ns = self._timers.next_due_ns()
        if due_ns is None or due_ns > self._deadline_ns:
            return False
        assert not self._is_one_moment, "a timer ends inside without_scheduling_points"
        first_ns = max(due_ns, self.now_ns)  # `advance_clock` may have passed the timer
        slack_end_ns = min(first_ns + self._timer_slack_ns, self._deadline_ns)
        last_ns, tasks = self._timers.pop_due(max(first_ns, slack_end_ns))
        self.now_ns = max(first_ns, last_ns)
        if self.now_ns > first_ns and self._on_late_timers is not None:
            self._on_late_timers(first_ns, self.now_ns)
        self.note((_TIME_JUMP, self.now_ns))
        if len(self._pending) >= FOLDED_AT_WORDS:
            self._digest.hash_pending_words()
        for task in tasks:
            assert task.waiting is not None, f"{task.name} can run already"
            task.waiting = None
            task.woken = False
            if self.trace is not None:
                self.trace.on_ready(task)
            self._ready.append(task)
        return True

    def _end_quantum(self) -> None:
        """Make the current task call `reschedule` at its next scheduling point."""
        self._draw_lone_quanta()
        self._horizon -= self.fuel
        self.fuel = 0

    # -- the hub -------------------------------------------------------------------------------------

    def _run_until_ended(self, main: SimTask) -> None:
        label = "~start"
        while True:
            self._raise_failure()
            self._unwind_dying_machines()
            if not main.machine.alive:
                raise MachineDied(main.machine.name)
            if main.ended:
                return
            chosen = self._choose_next(label)
            if chosen is None:
                self._raise_failure()
                raise self._liveness_error()
            unstarted = self._switch_to(chosen)
            while unstarted is not None:
                unstarted = self._start(unstarted)
            label = "~end" if self.current.ended else "~kill"

    def _raise_failure(self) -> None:
        if self._policy_failure is not None:
            policy_failure, self._policy_failure = self._policy_failure, None
            raise policy_failure
        if self._failed is not None:
            task, self._failed = self._failed, None
            assert task.failure is not None, task.name
            raise TaskFailedError(task.name, task.failure) from task.failure

    def _busiest_tasks(self) -> list[str]:
        """Return lines on the tasks that passed most points lately, with the label at which each stopped most often."""
        flat = self._switches[-3 * _RECENT_SWITCHES :]
        points: Counter[str] = Counter()
        labels: defaultdict[str, Counter[str]] = defaultdict(Counter)
        for at in range(3, len(flat), 3):
            ran = flat[at - 1]
            points[ran] += flat[at]
            labels[ran][flat[at + 1].removeprefix("~")] += 1
        total, lines = points.total(), []
        for name, own in points.most_common(_BUSIEST_TASKS):
            if own * _BUSY_PART > total:
                [(label, _)] = labels[name].most_common(1)
                lines.append(f"{name}: took {100 * own // total} % of the last {total} steps, often at {label}")
        return lines

    def _liveness_error(self) -> LivenessError:
        tasks = [task for machine in self._machines.values() for task in machine.live_tasks.values()]
        tasks.sort(key=lambda task: task.waiting is not None)  # one of those that can run may never end its work
        waits = [f"{task.name}: {task.describe_wait(self.now_ns)}" for task in tasks]
        when = f"at {self.now_ns / 1e6:g} ms, step {self.steps}"
        if self.steps >= self._step_limit:
            return NoProgressError(f"not finished {when}: the step limit is reached", [*self._busiest_tasks(), *waits])
        if self._timers.next_due_ns() is not None:
            limit = f"the time limit of {self._deadline_ns / 1e6:g} ms"
            return NoProgressError(f"not finished {when}: the next timer is past {limit}", waits)
        return DeadlockError(f"deadlock {when}: no task can run and no timer is set", waits)

    def _power_off_machine(self, machine: Machine) -> None:
        if machine.alive:
            machine.alive = False
            for on_death in machine.at_death:
                on_death()

    def _unwind_dying_machines(self) -> None:
        while self._dying:
            self._unwind_machine(self._dying.pop(0))

    def _unwind_machine(self, machine: Machine) -> None:
        """End the tasks of a machine in spawn order. Tasks that have not started never start."""
        self._power_off_machine(machine)
        before = self.current
        self._set_greenlet_parents(getcurrent())
        try:
            for task in list(machine.live_tasks.values()):
                self._end_task(task)
        finally:
            self._end_quantum()
            self.current = before

    def _end_task(self, task: SimTask) -> None:
        """Raise MachineDied in a task now and at each further world call."""
        task.waiting = None
        if task.greenlet:  # the task has started, and no exception such as KeyboardInterrupt ended it
            self.current = task
            self._end_quantum()
            # Without this exception, the garbage collector would run the task's `finally` blocks at an unpredictable
            # moment.
            task.is_unwinding = True
            task.greenlet.switch()
        if not task.ended:
            self._remove_ended_task(task)
        if task.greenlet:
            _unstoppable.append(task.greenlet)
            raise UnstoppableTaskError(task.name, task.refusals)

    def _set_greenlet_parents(self, parent: greenlet) -> None:
        for machine in self._machines.values():
            for task in machine.live_tasks.values():
                if task.greenlet is not None:
                    task.greenlet.parent = parent
