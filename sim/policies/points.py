"""Names of scheduling points that outlive other code: which task, before what, and which occurrence."""

from ..task import SimTask

_NOBODY = "outside"


class PointCounter:
    """Counts the points of a run, which it must be told of one and all."""

    __slots__ = ("_times",)

    def __init__(self) -> None:
        self._times: dict[tuple[str, str], int] = {}

    def pass_point(self, current: SimTask | None, label: str) -> tuple[str, str, int]:
        """Count one point and return its name: task, label, and the number from 1."""
        key = (_NOBODY if current is None else current.name, label)
        nth = self._times[key] = self._times.get(key, 0) + 1
        return (*key, nth)
