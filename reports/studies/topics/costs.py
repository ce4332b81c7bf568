"""What puts and pulls cost the processor in either layout, on the reference host.

Measured on one machine, over real files: processor time of the whole process per put, dispatch included, closed loop
of one producer, nothing synced; and per record of pulls of 32 from the page cache. A put into the shared log with one
topic took 10.9 us there; the reference host's put and dispatch together are what that becomes, and all else is scaled
alike. Both layouts grow dearer with the number of files that they write to. `tornlog plot topics --disk here` measures
it anew, and leaves it in its table (put_cpu_us, pull_cpu_us).
"""

from itertools import pairwise
from math import log

from ..latency.host import REFERENCE
from .setup import PARTITIONED, SHARED

_PUT_US = {
    SHARED: ((1, 10.9), (64, 10.9), (1024, 14.4), (4096, 18.0)),
    PARTITIONED: ((1, 4.8), (64, 5.3), (1024, 9.6), (4096, 12.2)),
}
_PULLED_US = {SHARED: 2.1, PARTITIONED: 1.1}
_REFERENCE_US = 10.9
_SCALE_NS = (REFERENCE.put_work_ns + REFERENCE.dispatch_ns) / _REFERENCE_US


def put_factor(layout: str, topics: int) -> float:
    """Return how many times the reference put and its dispatch a put costs, dispatch included.

    Straight between what was measured, over the logarithm of the number of topics; beyond, it stays as it is.
    """
    points = _PUT_US[layout]
    for (few, low), (many, high) in pairwise(points):
        if topics <= many:
            return (low + (high - low) * log(topics / few) / log(many / few)) / _REFERENCE_US
    return points[-1][1] / _REFERENCE_US


def pulled_ns(layout: str) -> int:
    """Return what one record of a pull costs."""
    return round(_PULLED_US[layout] * _SCALE_NS)
