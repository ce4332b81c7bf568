"""The series that latencies are compared by: each way to flush, on each disk, from so many producers.

Load is set by what one producer alone can put, waiting for each answer: each of several offers a fifth of that, up
to a limit that the processor can carry. So on a slow disk 64 producers offer 64 times what one can offer, and it is for
group commit to carry them.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ....faults.devices.models import MODELS
from .host import REFERENCE
from .setup import FLUSHES, Setup
from .simulated import Series, simulate

DISKS = {name: model.meaning for name, model in MODELS.items()}
"""The disks there are models of, and what each stands for."""

PRODUCERS = (1, 4, 16, 64)
RATE_MAX = 4_000.0
"""Puts per second, of all producers together."""
_SHARE = 0.2
_PILOT_PUTS = 200
ALL_AT_ONCE = 1e9
"""A rate, per second, at which every put is there before the one before it is answered: a closed loop."""


class LatencySeries(NamedTuple):
    """One series of the grid."""

    disk: str
    setup: Setup
    series: Series


def cells(disks: Sequence[str], producers: Sequence[int]) -> list[tuple[str, str, int]]:
    """Return disk, flush and producers of each series, in the order in which they are measured."""
    return [(disk, flush, number) for disk in disks for flush in FLUSHES for number in producers]


def measure_grid(
    disks: Sequence[str], producers: Sequence[int], puts: int, seed: int
) -> Iterator[LatencySeries]:
    """Yield each series as it is done. The same arguments give the same series."""
    alone: dict[tuple[str, str], float] = {}
    for disk, flush, number in cells(disks, producers):
        model = MODELS[disk].make
        if (disk, flush) not in alone:
            alone[disk, flush] = simulate(Setup(flush, 1, ALL_AT_ONCE, _PILOT_PUTS), REFERENCE, model).rate
        rate = min(_SHARE * alone[disk, flush] * number, RATE_MAX)
        setup = Setup(flush, number, rate, puts, seed=seed)
        yield LatencySeries(disk, setup, simulate(setup, REFERENCE, model))
