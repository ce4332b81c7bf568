"""Probe: finds the crash states of an unmodified program and checks each of them.

`recording` records a Python program inside its process, and `tracing` records any other program from a second process.
Crashes are simulated after the recording. A program can state its own promises. The import is cheap, because this
module imports no other:

 from tornlog.faults.probe import acknowledge

 acknowledge("order 7 stored")
"""

from collections.abc import Callable

DISKS = ("strict-posix", "torn-sectors", "ext4-ordered", "process-kill")
"""Names of the default crash profiles."""
LIMIT = 256
"""Default maximum of states to check per crash."""
CHECK_SECONDS = 10.0
"""Default time limit of a check."""
PROGRAM_SECONDS = 300.0
"""Default time limit of one run of the program."""
FAULT_RUNS = 32
"""Default maximum of calls at which each fault is injected."""

_listeners: list[Callable[[str], None]] = []


def acknowledge(promise: str) -> None:
    """Record a promise, which must hold after every later crash. Outside of a recording this function has no effect."""
    for listener in _listeners:
        listener(promise)


def listen(listener: Callable[[str], None]) -> None:
    """Call a function with each promise, for the rest of the process."""
    _listeners.append(listener)
