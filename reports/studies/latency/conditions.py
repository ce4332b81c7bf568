"""Conditions of a simulated machine: memory and neighbours under which puts are compared.

A neighbour writes 400 MiB/s: twice the rate of a hard disk, less than that of flash, because faster simulations take
too long. Late consumers read in order, 20 or 50 MiB/s.
"""

from collections.abc import Callable
from typing import NamedTuple

from .machine import Neighbour, SystemConfig

_MIB = 1 << 20
FREE, SHORT, BUSY = "free", "short", "busy"
SHORT_MEMORY_BYTES = 256 * _MIB
PRODUCERS_UNDER_LOAD = 4
RATE_UNDER_LOAD = 400.0
SECONDS_UNDER_LOAD = 6
"""Long enough for eleven flushes of the log, and a commit of the journal's timer."""
SYNC_RATE_UNDER_LOAD, SYNC_PUTS_UNDER_LOAD = 8.0, 60
"""Few puts, which a busy hard disk can still sync."""
_WRITE_BYTES_PER_S = 400 * _MIB


class LoadCondition(NamedTuple):
    """A named condition."""

    meaning: str
    system: Callable[[str], SystemConfig]
    """Returns the system with a disk of this name."""


CONDITIONS = {
    FREE: LoadCondition("8 GiB, no neighbour", SystemConfig),
    SHORT: LoadCondition(
        "256 MiB, late consumers read old segments",
        lambda disk: SystemConfig(
            disk, SHORT_MEMORY_BYTES, Neighbour(read_bytes_per_s=(20 if disk == "hdd" else 50) * _MIB)
        ),
    ),
    BUSY: LoadCondition(
        "256 MiB, a neighbour writes 400 MiB/s",
        lambda disk: SystemConfig(disk, SHORT_MEMORY_BYTES, Neighbour(_WRITE_BYTES_PER_S, sync_ms=0)),
    ),
}
