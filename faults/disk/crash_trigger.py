"""Crash triggers: which operation a machine dies at, by number, or by a name that outlives other code.

A number counts every operation of the disk, and shifts with each one more or less. A name counts those of one kind on
one path only, from the moment at which the trigger was armed: `msync /store/commitlog/0 #4`.
"""

import re
from typing import NamedTuple

_TEXT = re.compile(r"(?P<kind>[a-z ]+) (?P<path>/.*) #(?P<nth>[1-9]\d*)")


class CrashPoint(NamedTuple):
    """The nth operation, from 1, of a kind on a path."""

    kind: str
    path: str
    nth: int

    def __str__(self) -> str:
        return f"{self.kind} {self.path} #{self.nth}"

    @classmethod
    def parse(cls, text: str) -> "CrashPoint":
        """Return the point that `str` gave; ValueError if text is none."""
        found = _TEXT.fullmatch(text)
        if found is None:
            raise ValueError(f"crash point: expected KIND /PATH #N, found {text[:80]}")
        return cls(found["kind"], found["path"], int(found["nth"]))


class CrashTrigger:
    """Says at which operation a machine dies: at the one of a number, of a name, or at none. It counts all that pass.

    Invariant: `met` is the last operation that was counted, once there is one to die at.
    """

    def __init__(self, *, operation: int | None = None, point: CrashPoint | None = None) -> None:
        self.met: CrashPoint | None = None
        """The name of the operation to die at, once it has come."""
        self.times: dict[tuple[str, str], int] = {}
        """How many operations of a kind on a path there were, in the order of their first."""
        self._operation = operation
        self._point = point

    def meets(self, number: int, kind: str, path: str) -> bool:
        """Return whether to die at the operation of that number, which is the next one."""
        assert self.met is None, "nothing passes behind the operation to die at"
        nth = self.times[kind, path] = self.times.get((kind, path), 0) + 1
        point = CrashPoint(kind, path, nth)
        if self.is_due(number, point):
            self.met = point
        return self.met is not None

    def is_due(self, number: int, point: CrashPoint) -> bool:
        """Return whether this is the operation to die at."""
        return number == self._operation or point == self._point
