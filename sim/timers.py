"""Timers: who is to be woken when, should nobody wake it before."""

from heapq import heapify, heappop, heappush

from .machine import SimTask

_COMPACT_AT = 64


class Timers:
    """A heap of (due_ns, sequence, task, park number); an entry whose task has moved on since is stale.

    Invariant: at most one entry per task is not stale.
    """

    __slots__ = ("_compact_at", "_heap", "_sequence")

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, SimTask, int]] = []
        self._sequence = 0
        self._compact_at = _COMPACT_AT

    def push(self, due_ns: int, task: SimTask) -> None:
        """Set the timer of a task that is about to park."""
        self._sequence += 1
        heappush(self._heap, (due_ns, self._sequence, task, task.park_number))
        if len(self._heap) > self._compact_at:
            self._compact()

    def next_due_ns(self) -> int | None:
        """Return when the next timer is due, None if no task has one."""
        heap = self._heap
        while heap:
            due_ns, _, task, park_number = heap[0]
            if task.waiting is not None and task.park_number == park_number:
                return due_ns
            heappop(heap)
        return None

    def pop_due(self, now_ns: int) -> list[SimTask]:
        """Remove and return the tasks due at now_ns or before: by time, then in the order they were set."""
        due = []
        heap = self._heap
        while heap and heap[0][0] <= now_ns:
            _, _, task, park_number = heappop(heap)
            if task.waiting is not None and task.park_number == park_number:
                due.append(task)
        return due

    def clear(self) -> None:
        """Drop every timer."""
        self._heap.clear()

    def _compact(self) -> None:
        """Drop stale entries: tasks that are always woken in time leave one behind each time."""
        self._heap = [
            entry for entry in self._heap if entry[2].waiting is not None and entry[2].park_number == entry[3]
        ]
        heapify(self._heap)
        self._compact_at = max(_COMPACT_AT, 4 * len(self._heap))
