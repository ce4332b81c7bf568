"""The kernel: machines, the runs of their tasks, and what becomes of both.

The hub is the greenlet that called `run`. Control comes back to it when a task ends, a machine was killed, or
nothing can go on; only the hub unwinds tasks, and only the hub raises what a run reports. Tasks are unwound by
throwing MachineDied into them, in a fixed order: left to the garbage collector, they would be at a moment of its
own choice.
"""

from collections.abc import Callable
from typing import Any, TypeVar

from greenlet import getcurrent, greenlet

from .errors import (
    DeadlockError,
    InjectedError,
    LivenessError,
    NoProgressError,
    TaskFailedError,
    UnstoppableTaskError,
)
from .errors import MachineDied as MachineDied
from .liveness import describe_waits
from .machine import Machine
from .policies import Policy
from .scheduler import Scheduler
from .task import SimTask
from .task import Waiting as Waiting
from .trace import Trace

T = TypeVar("T")

_KILL = 1 << 61  # tags of digest words, beside those of the scheduler
_TASK_END = 1 << 60

_unstoppable: list[SimTask] = []  # kept for good, out of the garbage collector's reach


class Kernel(Scheduler):
    """One world: its machines, its time, its schedule and its digest. It outlives the machines in it."""

    __slots__ = ("_failed", "_machines", "_task_count", "wall_start_ms")

    def __init__(
        self,
        policy: Policy,
        *,
        wall_start_ms: int = 1_600_000_000_000,
        step_limit: int = 5_000_000,
        trace: Trace | None = None,
    ) -> None:
        nowhere = Machine(self, "outside")
        nowhere.alive = False  # so that a point outside of any task takes the slow path, and passes there
        super().__init__(policy, step_limit, trace, SimTask(nowhere, "outside", 0, lambda: None))
        self.wall_start_ms = wall_start_ms
        self._machines: dict[str, Machine] = {}
        self._failed: SimTask | None = None
        self._task_count = 0
        if trace is not None:
            trace.attach(self)

    def machine(self, name: str) -> Machine:
        """Make a machine and switch it on. A name is used once: after a crash, the next life has another."""
        if name in self._machines:
            raise ValueError(f"machine {name}: there has been one of that name")
        machine = self._machines[name] = Machine(self, name)
        return machine

    def run(self, machine: Machine, body: Callable[[], T], *, name: str = "main", time_limit_ns: int) -> T:
        """Run body as a task of machine, and everything else, until it returns; return its value.

        The machine is off afterwards: tasks it still had are named in `machine.leftover_tasks` and unwound.
        Tasks of other machines stay as they are and go on in the next run. time_limit_ns counts from now.

        Raises MachineDied if the machine was killed, TaskFailedError if any task ended with an exception,
        DeadlockError or NoProgressError if nothing more would come of it, UnstoppableTaskError if a task does
        not die, and what a policy raises. After any of these but MachineDied, every machine is off.
        """
        if self._hub is not None:
            raise RuntimeError("this kernel is running already")
        self._deadline_ns = self.now_ns + time_limit_ns
        self._hub = getcurrent()
        self._adopt_tasks(self._hub)
        try:
            main = self.spawn(machine, name, body)
            self._drive(main)
            machine.leftover_tasks = [task.name for task in machine.live_tasks.values()]
            self._unwind(machine)
            self._unwind_dying()
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
        """Switch a machine off at this instant: its next world calls raise MachineDied.

        A task that kills its own machine then raises MachineDied itself. Killing it again changes nothing.
        """
        if not machine.alive:
            return
        self.note((_KILL, self.steps))
        if self.trace is not None:
            self.trace.add("kill", machine.name)
        self._switch_off(machine)
        if self._hub is None:
            self._unwind(machine)
        else:
            self._dying.append(machine)
            self._end_quantum()

    def close(self) -> None:
        """Switch off every machine and unwind its tasks, in the order they were made.

        Timers are dropped with them: the garbage collector takes a suspended greenlet for an atom, stops to track the
        tuples that hold one, and would later find no way from them back to the kernel they keep alive.
        """
        for machine in self._machines.values():
            self._unwind(machine)
        self._dying.clear()
        self._timers.clear()

    def spawn(self, machine: Machine, name: str, body: Callable[[], Any]) -> SimTask:
        """Make a task, runnable at once. It is named `machine/name`, then `machine/name#2`, …"""
        if not machine.alive:
            self.refuse(machine)
            raise MachineDied(machine.name)
        self._task_count += 1
        task = SimTask(machine, machine.name_task(name), self._task_count, body)
        if self._hub is not None:
            task.parent = self._hub
        machine.live_tasks[task.number] = task
        self._ready.append(task)
        if self._policy.interrupts_on_wake:
            self._end_quantum()
        return task

    def task_ended(self, task: SimTask) -> None:
        """Take a task off the books: its body has ended, or will never start."""
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
            self.trace.add("end", task.name if task.failure is None else f"{task.name}: {task.failure!r}")
        for joiner in task.joiners:
            self.wake(joiner)

    def _drive(self, main: SimTask) -> None:
        """Run tasks until main has ended."""
        label = "~start"
        while True:
            self._raise_failure()
            self._unwind_dying()
            if not main.machine.alive:
                raise MachineDied(main.machine.name)
            if main.ended:
                return
            chosen = self._elect(label)
            if chosen is None:
                self._raise_failure()
                raise self._stalled()
            self._switch_to(chosen)
            label = "~end" if self.current.ended else "~kill"

    def _raise_failure(self) -> None:
        if self._policy_failure is not None:
            failure, self._policy_failure = self._policy_failure, None
            raise failure
        if self._failed is not None:
            task, self._failed = self._failed, None
            assert task.failure is not None, task.name
            raise TaskFailedError(task.name, task.failure) from task.failure

    def _stalled(self) -> LivenessError:
        tasks = [task for machine in self._machines.values() for task in machine.live_tasks.values()]
        waits = describe_waits(tasks, self.now_ns)
        when = f"at {self.now_ns / 1e6:g} ms, step {self.steps}"
        if self.steps >= self._step_limit:
            return NoProgressError(f"no end in sight {when}: the step limit is reached", waits)
        if self._timers.next_due_ns() is not None:
            limit = f"the time limit of {self._deadline_ns / 1e6:g} ms"
            return NoProgressError(f"no end in sight {when}: the next timer is past {limit}", waits)
        return DeadlockError(f"deadlock {when}: nothing can run and no timer is set", waits)

    def _switch_off(self, machine: Machine) -> None:
        if machine.alive:
            machine.alive = False
            for tell in machine.at_death:
                tell()

    def _unwind_dying(self) -> None:
        while self._dying:
            self._unwind(self._dying.pop(0))

    def _unwind(self, machine: Machine) -> None:
        """End every task of a machine, in spawn order; those that never ran will never start."""
        self._switch_off(machine)
        before = self.current
        self._adopt_tasks(getcurrent())
        try:
            for task in list(machine.live_tasks.values()):
                self._end_task(task)
        finally:
            self._end_quantum()
            self.current = before

    def _end_task(self, task: SimTask) -> None:
        """Let a task of a dead machine end: it gets MachineDied, now and at every world call from here on."""
        task.waiting = None
        if task:  # started, and not torn out by a KeyboardInterrupt or its like
            self.current = task
            self._end_quantum()
            task.throw(MachineDied(task.machine.name))
        if not task.ended:
            self.task_ended(task)
        if task:
            _unstoppable.append(task)
            raise UnstoppableTaskError(task.name, task.refusals)

    def _adopt_tasks(self, parent: greenlet) -> None:
        """Let tasks end into the greenlet that drives them now."""
        for machine in self._machines.values():
            for task in machine.live_tasks.values():
                task.parent = parent

    def __enter__(self) -> "Kernel":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
