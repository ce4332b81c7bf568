"""What stores ask of their files: when, where, and how it ended."""

from collections.abc import Iterator
from contextlib import contextmanager

from ....sim.errors import MachineDied
from .moments import Moments
from .record import CUT_OFF, OperationRecord
from .task_spans import TaskSpans


class Operations:
    """The calls of all stores to their files. A task's calls do not overlap."""

    def __init__(self, moments: Moments, tasks: TaskSpans) -> None:
        self.all: list[OperationRecord] = []
        self._moments = moments
        self._tasks = tasks
        self._open: dict[int, OperationRecord] = {}

    @contextmanager
    def under_way(self, kind: str, path: str, start: int = -1, stop: int = -1) -> Iterator[None]:
        """Note one call of the task that runs, which is what the `with` block does, and how it ends."""
        if not self._moments.kernel.current.machine.alive:
            yield  # a task that is being unwound: all that it asks for is refused
            return
        task = self._tasks.current()
        operation = OperationRecord(task, kind, path, start, stop, self._moments.mark())
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
        """Note what the disk is asked for, in its own words: mostly a part of the call that is under way."""
        operation = self._open.get(self._tasks.current())
        if operation is not None and kind != operation.kind:
            operation.parts.append(kind if path == operation.path else f"{kind} {path}")

    def path_under_way(self) -> str:
        """Return the path that the task that runs is asking for something, empty if it does not ask."""
        operation = self._open.get(self._tasks.current())
        return "" if operation is None else operation.path

    def finish(self, at: int) -> None:
        """End at a moment what is under way."""
        for operation in self._open.values():
            operation.end = at
        self._open.clear()
