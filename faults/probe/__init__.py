"""Probe: finds the crash states of an unmodified program and checks each of them.

`recording` runs in the process of a Python program, and `tracing` next to any other program; the rest is simulated. A
program that states its own promises imports one name. This module imports nothing else, so the import is cheap:

    from tornlog.faults.probe import acknowledge

    acknowledge("order 7 stored")
"""

from collections.abc import Callable

DISKS = ("strict-posix", "torn-sectors", "ext4-ordered", "process-kill")
"""Default kinds of crash, as names of profiles."""
LIMIT = 256
"""Default limit of states per crash."""
CHECK_SECONDS = 10.0
"""Default time limit of a check."""
PROGRAM_SECONDS = 300.0
"""Default time limit of the program."""
FAULT_RUNS = 32
"""Default number of calls at which each fault is injected."""

_listeners: list[Callable[[str], None]] = []


def acknowledge(promise: str) -> None:
    """State that something is promised from now on. No-op outside of a recording."""
    for listener in _listeners:
        listener(promise)


def listen(listener: Callable[[str], None]) -> None:
    """Call a listener with each promise, for the rest of the process."""
    _listeners.append(listener)
