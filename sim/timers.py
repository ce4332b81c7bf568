"""Timers: when the waits of tasks end, in virtual time."""

from heapq import heapify, heappop, heappush

from .machine import SimTask

_TIMERS_MIN = 64  # a heap with fewer timers is not worth compacting


class Timers:
    """A heap of timers: (due_ns, sequence, task, park number).

    A park is one wait of a task. A timer is stale after the end of the park with its number. Invariant: at most one
    timer per task is not stale.
    """

    __slots__ = ("_heap", "_sequence", "_stale_check_size")

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, SimTask, int]] = []
        self._sequence = 0
        self._stale_check_size = _TIMERS_MIN

    def push(self, due_ns: int, task: SimTask) -> None:
        self._sequence += 1
        heappush(self._heap, (due_ns, self._sequence, task, task.park_number))
        if len(self._heap) > self._stale_check_size:
            self._drop_stale_timers()

    def next_due_ns(self) -> int | None:
        heap = self._heap
        while heap:
            due_ns, _, task, park_number = heap[0]
            if task.waiting is not None and task.park_number == park_number:
                return due_ns
            heappop(heap)
        return None

    def pop_due(self, until_ns: int) -> tuple[int, list[SimTask]]:
        """Remove all timers due by until_ns. Returns the last due time and the tasks, sorted by due time, then by
        `push`.
        """
        last_ns, tasks = 0, []
        heap = self._heap
        while heap and heap[0][0] <= until_ns:
            due_ns, _, task, park_number = heappop(heap)
            if task.waiting is not None and task.park_number == park_number:
                last_ns = due_ns
                tasks.append(task)
        return last_ns, tasks

    def clear(self) -> None:
        self._heap.clear()

    def _drop_stale_timers(self) -> None:
        live = (entry for entry in self._heap if entry[2].waiting is not None)
        self._heap = [entry for entry in live if entry[2].park_number == entry[3]]
        heapify(self._heap)
        self._stale_check_size = max(_TIMERS_MIN, 4 * len(self._heap))  # rare, so a push costs O(log n) on average
