"""Which operation the plug is pulled at, by a name that outlives other code: `msync /store/commitlog/0 #4`.

A number counts every operation of the disk, and shifts with each one more or less. A name counts those of one kind on
one path only, from the moment the plug was armed.
"""

import re
from typing import NamedTuple, Protocol

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


class CrashTrigger(Protocol):
    """Is asked at each operation after the other, until it says that this is the one."""

    def meets(self, number: int, kind: str, path: str) -> bool:
        """Return whether to die at the operation of that number, which is the next one."""


class NamedCrashTrigger:
    """Waits for the operation of a name."""

    def __init__(self, point: CrashPoint) -> None:
        self._point = point
        self._left = point.nth

    def meets(self, number: int, kind: str, path: str) -> bool:
        """Return whether this is the operation, and count it if it has its kind and path."""
        if kind == self._point.kind and path == self._point.path:
            self._left -= 1
        return self._left == 0


class NamingCrashTrigger:
    """Waits for the operation of a number, and finds out its name."""

    def __init__(self, operation: int) -> None:
        self._operation = operation
        self._times: dict[tuple[str, str], int] = {}
        self.point: CrashPoint | None = None
        """The name, once the operation has been met."""

    def meets(self, number: int, kind: str, path: str) -> bool:
        """Return whether this is the operation."""
        nth = self._times[kind, path] = self._times.get((kind, path), 0) + 1
        if number != self._operation:
            return False
        self.point = CrashPoint(kind, path, nth)
        return True
