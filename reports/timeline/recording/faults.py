"""What went wrong on purpose, and when: seen by what is counted of it."""

from collections import Counter

from ....faults.disk.disk import Disk
from .moments import Moments
from .operations import Operations
from .record import Fault

DISTURBANCES = ("paused task", "paused machine", "clock step")
"""Kinds that a trace is told of as they strike."""
_OF_CUTS = ("crash", "page ", "torn ", "garbage ", "name ", "size ", "directory ", "lie exposed")
_UNDONE = " undone"


class Faults:
    """The faults of one run, but for what a cut takes: that is told by the cut."""

    def __init__(self, moments: Moments) -> None:
        self.all: list[Fault] = []
        self._moments = moments
        self._known: Counter[str] = Counter()

    def struck(self, kind: str, about: str) -> None:
        """Note a fault."""
        self.all.append(Fault(self._moments.mark(), kind, about))

    def begin(self, disk: Disk) -> None:
        """Count from here on what happens on a disk."""
        self._known = Counter(disk.fired)

    def look(self, disk: Disk | None, operations: Operations) -> None:
        """Note what has happened on the disk since the last look, to what is asked of it now."""
        if disk is None or disk.fired == self._known:
            return
        for kind in (disk.fired - self._known).elements():
            if not kind.startswith(_OF_CUTS) and not kind.endswith(_UNDONE):
                self.struck(kind, operations.path_under_way())
        self._known = Counter(disk.fired)
