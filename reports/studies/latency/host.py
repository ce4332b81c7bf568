"""What the machine beside the disk costs: computing, handing over from task to task, first touches of pages.

Simulated code takes no virtual time by itself, so these are charged where they arise. There is one processor, as
CPython's interpreter lock leaves one to a process.
"""

from dataclasses import dataclass

from ....faults.devices.spread import Spread

_US = 1_000


@dataclass(frozen=True, slots=True)
class HostCosts:
    """The costs of one machine, in ns."""

    put: Spread
    """Of one put that waits for no disk: the computing, and what delays it."""
    put_work_ns: int
    """How much of that is computing, which others wait for."""
    handover: Spread
    """From a notice to when the one who waited for it goes on: to the flush service and back to the producer, both."""
    handover_work_ns: int
    """How much of that is computing."""
    dispatch_ns: int
    """Computing of one message's dispatch."""
    touch_ns: int
    """Computing of the first store to a page of a map: a page fault that makes it writable."""


REFERENCE = HostCosts(
    put=Spread.through(
        [
            (0.0, 12 * _US),
            (0.5, 19 * _US),
            (0.9, 40 * _US),
            (0.99, 110 * _US),
            (0.999, 250 * _US),
            (1.0, 600 * _US),
        ]
    ),
    put_work_ns=14 * _US,
    handover=Spread.through(
        [(0.0, 60 * _US), (0.5, 140 * _US), (0.9, 230 * _US), (0.99, 390 * _US), (1.0, 1_000 * _US)]
    ),
    handover_work_ns=50 * _US,
    dispatch_ns=8 * _US,
    touch_ns=1 * _US,
)
"""A 2-core virtual machine under CPython 3.11, in round figures of what `here` measured on it."""
