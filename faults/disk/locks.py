"""Locks of files, as flock(2) has them: on the file and not its name, and gone with their process."""

import errno

from ...sim.machine import Machine
from .fault_injector import FaultInjector


class SimFileLock:
    """A lock that one machine holds until it releases it or dies."""

    __slots__ = ("_file", "_locks", "_machine")

    def __init__(self, locks: "FileLocks", file: int, machine: Machine) -> None:
        self._locks = locks
        self._file = file
        self._machine = machine

    def release(self) -> None:
        """Let the next one in; nothing happens if the lock is not the machine's any more."""
        self._locks.release(self._file, self._machine)


class FileLocks:
    """The locks on one disk's files, by their numbers."""

    __slots__ = ("_holders", "_injector")

    def __init__(self, injector: FaultInjector) -> None:
        self._injector = injector
        self._holders: dict[int, Machine] = {}

    def take(self, path: str, file: int, machine: Machine) -> SimFileLock:
        """Lock the file at path for a machine; BlockingIOError if a living machine, this one included, holds it."""
        holder = self._holders.get(file)
        if holder is not None and holder.alive:
            raise BlockingIOError(errno.EWOULDBLOCK, "Resource temporarily unavailable", path)
        self._holders[file] = machine
        return SimFileLock(self, file, machine)

    def release(self, file: int, machine: Machine) -> None:
        """Release a machine's lock on a file; nothing happens if it holds none."""
        self._injector.pause(machine, "unlock")
        if self._holders.get(file) is machine:
            del self._holders[file]
