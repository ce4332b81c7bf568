"""Round robin: tasks take turns of `quantum` points, in the order in which they were made. It draws nothing.

The plainest schedule there is that preempts, and the same for every seed: what breaks under it needs no luck.
"""

from collections.abc import Sequence

from ..task import SimTask

_AROUND = 1 << 60  # more than tasks are ever made


class RoundRobin:
    """Every runnable task gets its turn after at most one turn of each other."""

    name = "round-robin"
    interrupts_on_wake = False

    def __init__(self, quantum: int) -> None:
        if quantum < 1:
            raise ValueError(f"quantum: expected at least 1, found {quantum}")
        self._free_points = quantum - 1

    def choose(self, runnable: Sequence[SimTask], current: SimTask | None, label: str, step: int) -> int:
        """Return the next task behind current."""
        after = 0 if current is None else current.number + 1
        return min(range(len(runnable)), key=lambda index: (runnable[index].number - after) % _AROUND)

    def quantum(self, chosen: SimTask, step: int) -> int:
        """Grant the rest of a turn, which began with a point, or with the end of a wait."""
        return self._free_points
