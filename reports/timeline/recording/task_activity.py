"""Task activity: records the states of tasks, their locks and their file operations."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from ....sim.errors import MachineDied
from ....sim.machine import Scheduler, SimTask, WaitReason
from .record import CUT_OFF, READY, RUNNING, WAITING, Hold, OperationRecord, RecordedMoment, Span, TaskRecord


class Moments:
    """The moments of one kernel, oldest first: time and step of each event."""

    def __init__(self) -> None:
        self.all: list[RecordedMoment] = []
        self._kernel: Scheduler | None = None
        self._stopped = False

    def attach(self, kernel: Scheduler) -> None:
        self._kernel = kernel

    @property
    def kernel(self) -> Scheduler:
        assert self._kernel is not None, "a recording belongs to a kernel"
        return self._kernel

    def mark(self) -> int:
        if not (self._stopped and self.all):
            moment = RecordedMoment(self.kernel.now_ns, self.kernel.steps)
            assert not self.all or self.all[-1] <= moment, f"{moment} after {self.all[-1]}"
            self.all.append(moment)
        return len(self.all) - 1

    def stop(self) -> None:
        """Create no more moments. Events during the unwinding of a dead machine's tasks share the newest moment."""
        self._stopped = True

    def resume(self) -> None:
        self._stopped = False

    def last(self) -> int:
        return len(self.all) - 1 if self.all else self.mark()


@dataclass(slots=True)
class _TaskState:
    name: str
    begin: int
    step: int
    why: str = ""


class TaskSpans:
    """Records the tasks of one kernel, in the order of their first events."""

    def __init__(self, moments: Moments) -> None:
        self.tasks: list[TaskRecord] = []
        self.spans: list[Span] = []
        self.holds: list[Hold] = []
        self._moments = moments
        self._numbers: dict[str, int] = {}
        self._states: dict[int, _TaskState] = {}
        self._held: dict[tuple[int, int], Hold] = {}

    def current(self) -> int:
        """Return the number of the current task. All code outside of machines counts as one task."""
        return self._task_number(self._moments.kernel.current.name)

    def _task_number(self, name: str) -> int:
        """Return the number of a task. A new task starts in the state READY."""
        number = self._numbers.get(name)
        if number is None:
            number = self._numbers[name] = len(self.tasks)
            self.tasks.append(TaskRecord(name, self._moments.last()))
            if "/" in name:  # code outside of machines has no task
                self._begin_span(number, READY, self._moments.last())
        return number

    def record_start(self, name: str) -> None:
        self._begin_span(self._task_number(name), RUNNING, self._moments.mark())

    def record_switch(self, name: str) -> None:
        self._mark_running()
        left, at = self.current(), self._moments.mark()
        if (state := self._states.get(left)) is not None and state.name == RUNNING:
            self._begin_span(left, READY, at)
        self._begin_span(self._task_number(name), RUNNING, at)

    def on_parked(self, why: WaitReason) -> None:
        self._mark_running()
        self._begin_span(self.current(), WAITING, self._moments.mark(), why.describe())

    def on_ready(self, task: SimTask) -> None:
        self._begin_span(self._task_number(task.name), READY, self._moments.mark())

    def record_end(self, text: str) -> None:
        """text: the name of the task, and its error if any, as in the trace."""
        self._mark_running()
        name, _, failure = text.partition(": ")
        number, at = self._task_number(name), self._moments.mark()
        self._end_span(number, at)
        task = self.tasks[number]
        task.end = at
        task.ending = failure or ("" if self._moments.kernel.current.machine.alive else CUT_OFF)
        for key in [key for key in self._held if key[0] == number]:
            self._held.pop(key).end = at

    def on_lock_acquired(self, lock: str, identity: int) -> None:
        """identity: distinguishes locks of the same name."""
        number, at = self.current(), self._moments.mark()
        assert (number, identity) not in self._held, f"{lock} is held already by {self.tasks[number].name}"
        hold = self._held[number, identity] = Hold(number, lock, at)
        self.holds.append(hold)

    def on_lock_released(self, identity: int) -> None:
        hold = self._held.pop((self.current(), identity), None)
        if hold is not None:
            hold.end = self._moments.mark()

    def finish(self, at: int) -> None:
        for number in list(self._states):
            self._end_span(number, at)
        for task in self.tasks:
            if task.end < 0:
                task.end = at
        for hold in self._held.values():
            hold.end = at
        self._held.clear()

    def _mark_running(self) -> None:
        """Set the current task to RUNNING. The kernel reports no event if a waiting task runs next."""
        kernel = self._moments.kernel
        number = self._numbers.get(kernel.current.name)
        state = None if number is None else self._states.get(number)
        if state is not None and state.name == READY and kernel.steps > state.step:
            state.name = RUNNING

    def _begin_span(self, number: int, name: str, at: int, why: str = "") -> None:
        self._end_span(number, at)
        assert number not in self._states, self.tasks[number].name
        self._states[number] = _TaskState(name, at, self._moments.kernel.steps, why)

    def _end_span(self, number: int, at: int) -> None:
        state = self._states.pop(number, None)
        assert state is None or state.begin <= at, (self.tasks[number].name, state, at)
        if state is not None and at > state.begin:
            self.spans.append(Span(number, state.name, state.begin, at, state.why))


class Operations:
    """Records the file operations of all stores. Operations of the same task do not overlap."""

    def __init__(self, moments: Moments, tasks: TaskSpans) -> None:
        self.all: list[OperationRecord] = []
        self._moments = moments
        self._tasks = tasks
        self._open: dict[int, OperationRecord] = {}

    @contextmanager
    def operation_recorded(self, kind: str, path: str, start: int = -1, stop: int = -1) -> Iterator[None]:
        if not self._moments.kernel.current.machine.alive:
            yield  # the machine is dead, so calls of the unwinding task fail
            return
        task = self._tasks.current()
        operation = OperationRecord(task, kind, path, start, stop, self._moments.mark())
        assert task not in self._open, f"{self._tasks.tasks[task].name} is in a call to {self._open[task].path} already"
        self.all.append(operation)
        self._open[task] = operation
        ending = ""
        try:
            yield
        except MachineDied:
            ending = CUT_OFF
            raise
        except Exception as error:
            ending = f"{type(error).__name__}: {error}"
            raise
        finally:
            if self._open.pop(task, None) is operation:
                operation.end, operation.ending = self._moments.mark(), ending

    def done(self, kind: str, path: str) -> None:
        """Record an operation of the disk model, which is usually a part of the current file operation."""
        operation = self._open.get(self._tasks.current())
        if operation is not None and kind != operation.kind:
            operation.parts.append(kind if path == operation.path else f"{kind} {path}")

    def after_write(self, path: str, start: int, stop: int) -> None:
        """Record the bytes that the last write of the current task has written, possibly fewer than requested."""
        task = self._tasks.current()
        last = next((one for one in reversed(self.all) if one.task == task), None)
        if last is not None and (last.path, last.start) == (path, start):
            last.stop = stop

    def current_operation_path(self) -> str:
        operation = self._open.get(self._tasks.current())
        return "" if operation is None else operation.path

    def finish(self, at: int) -> None:
        for operation in self._open.values():
            operation.end = at
        self._open.clear()
