"""What tasks do: when each runs, could run, or waits, and for what; and which locks they hold."""

from dataclasses import dataclass

from ....sim.task import SimTask, Waiting
from .moments import Moments
from .record import CUT_OFF, READY, RUNNING, WAITING, Hold, Span, TaskRecord


@dataclass(slots=True)
class _State:
    """The present state of a task, since a moment and a step."""

    name: str
    begin: int
    step: int
    why: str = ""


class TaskSpans:
    """All tasks of one kernel, in the order in which they were first seen."""

    def __init__(self, moments: Moments) -> None:
        self.tasks: list[TaskRecord] = []
        self.spans: list[Span] = []
        self.holds: list[Hold] = []
        self._moments = moments
        self._numbers: dict[str, int] = {}
        self._states: dict[int, _State] = {}
        self._held: dict[tuple[int, int], Hold] = {}

    def current(self) -> int:
        """Return the number of the task that runs: what is outside of all machines is one, too."""
        return self._number(self._moments.kernel.current.name)

    def _number(self, name: str) -> int:
        """Return a task's number. One that is new begins now, and is ready."""
        number = self._numbers.get(name)
        if number is None:
            number = self._numbers[name] = len(self.tasks)
            self.tasks.append(TaskRecord(name, self._moments.last()))
            if "/" in name:  # what is outside of all machines has no state
                self._enter(number, READY, self._moments.last())
        return number

    def started(self, name: str) -> None:
        """Note that a task begins to run."""
        self._enter(self._number(name), RUNNING, self._moments.mark())

    def switched(self, name: str) -> None:
        """Note that another task goes on; the one that ran could have, if it does not wait."""
        self._catch_up()
        left, at = self.current(), self._moments.mark()
        if (state := self._states.get(left)) is not None and state.name == RUNNING:
            self._enter(left, READY, at)
        self._enter(self._number(name), RUNNING, at)

    def parked(self, why: Waiting) -> None:
        """Note that the task that runs blocks."""
        self._catch_up()
        self._enter(self.current(), WAITING, self._moments.mark(), why.describe())

    def made_ready(self, task: SimTask) -> None:
        """Note that a task need not wait any longer."""
        self._enter(self._number(task.name), READY, self._moments.mark())

    def ended(self, text: str) -> None:
        """Note that a task ended, in the words of the trace: its name, and what it failed with."""
        self._catch_up()
        name, _, failure = text.partition(": ")
        number, at = self._number(name), self._moments.mark()
        self._leave(number, at)
        task = self.tasks[number]
        task.end = at
        alive = self._moments.kernel.current.machine.alive
        task.ending = failure or ("" if alive else CUT_OFF)
        for key in [key for key in self._held if key[0] == number]:
            self._held.pop(key).end = at

    def took(self, lock: str, identity: int) -> None:
        """Note that the task that runs has got a lock; identity tells locks of one name apart."""
        number, at = self.current(), self._moments.mark()
        hold = self._held[number, identity] = Hold(number, lock, at)
        self.holds.append(hold)

    def released(self, identity: int) -> None:
        """Note that the task that runs has given a lock back."""
        hold = self._held.pop((self.current(), identity), None)
        if hold is not None:
            hold.end = self._moments.mark()

    def finish(self, at: int) -> None:
        """End at a moment what goes on."""
        for number in list(self._states):
            self._leave(number, at)
        for task in self.tasks:
            if task.end < 0:
                task.end = at
        for hold in self._held.values():
            hold.end = at
        self._held.clear()

    def _catch_up(self) -> None:
        """Let the task that runs be running: nothing tells of one that waits and is the next to go on itself."""
        kernel = self._moments.kernel
        number = self._numbers.get(kernel.current.name)
        state = None if number is None else self._states.get(number)
        if state is not None and state.name == READY and kernel.steps > state.step:
            state.name = RUNNING

    def _enter(self, number: int, name: str, at: int, why: str = "") -> None:
        """Let a task be in a state from a moment on."""
        self._leave(number, at)
        self._states[number] = _State(name, at, self._moments.kernel.steps, why)

    def _leave(self, number: int, at: int) -> None:
        state = self._states.pop(number, None)
        if state is not None and at > state.begin:
            self.spans.append(Span(number, state.name, state.begin, at, state.why))
