"""Crash states of unmodified Python programs: what one does to its files is recorded, and done on a simulated disk.

`recording` stands in the program's process and uses the real world; everything else here is simulated. A program that
is to say what it promises imports one name, which costs nothing when nobody records; so nothing else is imported here:

    from tornlog.faults.probe import acknowledge

    acknowledge("order 7 stored")
"""

from collections.abc import Callable

DISKS = ("strict-posix", "torn-sectors", "ext4-ordered", "process-kill")
"""Kinds of crash, by their profiles."""
LIMIT = 256
"""States of one crash."""
CHECK_SECONDS = 10.0
"""How long a check may take."""
PROGRAM_SECONDS = 300.0
"""How long a program may run."""
FAULT_RUNS = 32
"""At how many calls each fault strikes, at most."""

_listeners: list[Callable[[str], None]] = []


def acknowledge(promise: str) -> None:
    """Say that something is promised, from this moment on. While nobody records, nothing happens."""
    for listener in _listeners:
        listener(promise)


def listen(listener: Callable[[str], None]) -> None:
    """Have a listener called with each promise, too, for the rest of the process."""
    _listeners.append(listener)
