"""The scheduler: which task runs, until when, and what time it is. It knows machines only as dead or alive.

A scheduling point is a place where another task may be put first: before every operation that other tasks can
see. The policy grants a task a quantum of points; passing one of them costs a decrement and a test of `fuel`.
Only when fuel runs out, or the task blocks, is the policy asked again, and greenlets switch directly from task to
task: half the price of a detour through the hub. Time stands still while anything can run and jumps to the next
timer when nothing can.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from greenlet import greenlet

from .digest import RollingDigest
from .errors import MachineDied
from .machine import Machine
from .policies import Policy, WatchingPolicy
from .task import SimTask, Waiting
from .timers import Timers
from .trace import Trace

if TYPE_CHECKING:
    from .disturbances import Disturbances

_DECISION = 1 << 63  # tags of digest words, apart from the codes of file operations
_TIME_JUMP = 1 << 62

REFUSALS_MAX = 1000
"""How often a task of a dead machine may swallow MachineDied and try another world call."""


class Scheduler(RollingDigest):
    """Runs one task at a time, under a hub that looks after ends, deaths and dead ends.

    Invariant: `_horizon - fuel` scheduling points have been passed so far.
    """

    __slots__ = (
        "_deadline_ns",
        "_disturb_step",
        "_dying",
        "_horizon",
        "_hub",
        "_last_decision_step",
        "_on_uncontested_point",
        "_outside",
        "_policy",
        "_policy_failure",
        "_ready",
        "_step_limit",
        "_switches",
        "_timers",
        "current",
        "disturbances",
        "fuel",
        "now_ns",
        "trace",
    )

    def __init__(self, policy: Policy, step_limit: int, trace: Trace | None, outside: SimTask) -> None:
        super().__init__()
        self.now_ns = 0
        self.fuel = 0
        self.trace = trace
        self.current = outside
        self._outside = outside  # stands for whoever calls from no task at all; its machine counts as dead
        self._policy = policy
        # Asked for by name: to hold a policy against a protocol takes longer than to make a kernel.
        self._on_uncontested_point: Callable[[SimTask, str], None] | None = getattr(
            policy, WatchingPolicy.on_uncontested_point.__name__, None
        )
        self._policy_failure: Exception | None = None
        self._step_limit = step_limit
        self._disturb_step = step_limit  # no quantum reaches it
        self.disturbances: Disturbances | None = None
        self._horizon = 0
        self._deadline_ns = 0
        self._ready: list[SimTask] = []  # in the order of becoming runnable, the current task included
        self._timers = Timers()
        self._dying: list[Machine] = []  # killed, for the hub to unwind before anything else runs
        self._switches: list[Any] = []  # points, label, task name; points, label, task name; …
        self._last_decision_step = 0
        self._hub: greenlet | None = None  # None between runs

    @property
    def steps(self) -> int:
        """Scheduling points passed so far."""
        return self._horizon - self.fuel

    @property
    def schedule(self) -> list[list[Any]]:
        """Every decision between several tasks, for JSON: [points since the last one, label, task chosen].

        A label that begins with ~ marks a forced switch: the task before it blocked (`~lock put`) or ended
        (`~end`), or a machine was unwound (`~kill`). To let a task go on that could is no decision, so that
        record and digest do not depend on how often a policy is asked.
        """
        flat = self._switches
        return [flat[at : at + 3] for at in range(0, len(flat), 3)]

    def point(self, label: str) -> None:
        """Pass a scheduling point, before the operation that label names."""
        self.fuel -= 1
        if self.fuel < 0:
            self.reschedule(label)

    def reschedule(self, label: str) -> None:
        """Pass a scheduling point the slow way: fuel has run out, or the machine is dead."""
        current = self.current
        if not current.machine.alive:
            self.refuse(current.machine)
            return
        if (
            self.disturbances is not None
            and self.steps >= self._disturb_step
            and not self._dying
            and self.disturbances.strike(self.steps)
        ):
            return  # it was paused, and elected to go on
        chosen = None if self._dying else self._elect(label)
        if chosen is not current:
            self._switch_to(chosen)

    def disturb_at(self, step: int) -> None:
        """Ask the disturbances at that step, or the next one that is not forced."""
        self._disturb_step = min(step, self._step_limit)
        self._end_quantum()

    def pass_time(self, ns: int) -> None:
        """Let time pass while nobody runs, however many could."""
        self.now_ns += ns
        self.note((_TIME_JUMP, self.now_ns))

    def park(self, why: Waiting, due_ns: int | None) -> bool:
        """Block the current task until it is woken (True) or until due_ns (False). None: no time-out."""
        current = self.current
        if not current.machine.alive:
            self.refuse(current.machine)
            raise RuntimeError(f"{why.label}: would block, outside of any task")
        current.waiting = why
        current.due_ns = due_ns
        current.park_number += 1
        if due_ns is not None:
            self._timers.push(due_ns, current)
        if self.trace is not None:
            self.trace.parked(why)
        self._ready.remove(current)
        chosen = None if self._dying else self._elect(f"~{why.label}")  # ~: forced, not chosen
        if chosen is not current:
            self._switch_to(chosen)
        return current.woken

    def wake(self, task: SimTask) -> None:
        """Make a parked task runnable; nothing happens if it is not parked, or dead."""
        if task.waiting is None or not task.machine.alive:
            return
        self._make_ready(task, woken=True)

    def refuse(self, machine: Machine) -> None:
        """Raise MachineDied for a call to a dead machine. Outside of any task nothing is refused: return."""
        task = self.current
        if self.fuel < 0:
            self.fuel = 0  # a refused point is not a step, and the next one comes here again
        if task is self._outside:
            return
        task.refusals += 1
        if task.refusals > REFUSALS_MAX and self._hub is not None:
            self._hub.switch()
        raise MachineDied(machine.name)

    def _elect(self, label: str) -> SimTask | None:
        """Decide who runs next and grant it a quantum; None if the hub has to look into it."""
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
                if self._on_uncontested_point is not None:
                    self._on_uncontested_point(self.current, label)
            else:
                ran = None if self.current is self._outside else self.current
                chosen = ready[policy.choose(ready, ran, label, step)]
                if chosen is not ran or label[0] == "~":
                    points = step - self._last_decision_step
                    self._last_decision_step = step
                    self._switches += (points, label, chosen.name)
                    self.note((_DECISION | points, chosen.number))
                    self.fold()
            quantum = policy.quantum(chosen, step)
        except Exception as failure:  # for the hub: simulated code must not get to swallow it
            self._policy_failure = failure
            return None
        if quantum >= self._disturb_step - step:
            quantum = max(0, self._disturb_step - step - 1)
        self.fuel = quantum
        self._horizon = step + quantum
        return chosen

    def _switch_to(self, chosen: SimTask | None) -> None:
        """Go on in another task, or in the hub. Returns when the current task is chosen again."""
        if chosen is None:
            assert self._hub is not None, "a task runs only under a hub"
            self._hub.switch()
            return
        if self.trace is not None:
            self.trace.add("switch", chosen.name)
        self.current = chosen
        chosen.switch()

    def _jump_to_next_timer(self) -> bool:
        """Move time to the next timer and make all tasks due then runnable. False: there is none in time."""
        due_ns = self._timers.next_due_ns()
        if due_ns is None or due_ns > self._deadline_ns:
            return False
        self.now_ns = max(self.now_ns, due_ns)
        self.note((_TIME_JUMP, self.now_ns))
        self.fold()
        for task in self._timers.pop_due(self.now_ns):
            self._make_ready(task, woken=False)
        return True

    def _make_ready(self, task: SimTask, *, woken: bool) -> None:
        task.waiting = None
        task.woken = woken
        if self.trace is not None:
            self.trace.made_ready(task)
        self._ready.append(task)
        if self._policy.interrupts_on_wake:
            self._end_quantum()

    def _end_quantum(self) -> None:
        """Take back what is left of the grant, so that the next point takes the slow path."""
        self._horizon -= self.fuel
        self.fuel = 0
