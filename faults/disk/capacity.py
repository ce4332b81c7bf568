"""How much a disk holds, and the error of what it has no room for.

A file takes its size, allocated ahead or not, but for its holes; one without a name takes nothing, mapped or not.
Directories are free.
"""

import errno
from typing import NamedTuple

from .fault_injector import FaultInjector
from .namespace import Namespace

UNLIMITED_BYTES = 1 << 40
"""What a disk without a capacity says it holds."""


class SimulatedDiskSpace(NamedTuple):
    """How full a disk is."""

    used_bytes: int
    usable_bytes: int


class Capacity:
    """The room on one disk. limit_bytes None: there is always some."""

    __slots__ = ("_injector", "_names", "limit_bytes")

    def __init__(self, names: Namespace, injector: FaultInjector, limit_bytes: int | None) -> None:
        self._names = names
        self._injector = injector
        self.limit_bytes = limit_bytes

    def space(self) -> SimulatedDiskSpace:
        """Return what the files take and what is left; a disk may hold more than it could take now."""
        used_bytes = self._names.current.used_bytes
        limit_bytes = UNLIMITED_BYTES if self.limit_bytes is None else self.limit_bytes
        return SimulatedDiskSpace(used_bytes, max(0, limit_bytes - used_bytes))

    def check_creation(self, path: str) -> None:
        """Raise OSError(ENOSPC) if nothing at all is left; a new file begins empty."""
        if self.limit_bytes is not None and self.space().usable_bytes == 0:
            raise self.full(path)

    def check_growth(self, path: str, more_bytes: int) -> None:
        """Raise OSError(ENOSPC) if a file cannot have more_bytes more."""
        if not self.has_room(more_bytes):
            raise self.full(path)

    def has_room(self, more_bytes: int) -> bool:
        """Return whether the files can have more_bytes more."""
        return self.limit_bytes is None or self.space().usable_bytes >= more_bytes

    def full(self, path: str) -> OSError:
        """Make the error for what there is no room for, and count it."""
        self._injector.fired["disk full"] += 1
        return OSError(errno.ENOSPC, "No space left on device", path)
