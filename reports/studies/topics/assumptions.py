"""What single assumptions decide: the same series on one disk, with one of them changed at a time."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from ....faults.devices.memory import Memory
from .closed_loop import SustainedRate
from .consuming import CaughtUp
from .grid import PACKED_LOG, LayoutResult, measure_few_lag, measure_sustained
from .setup import LAYOUTS, SHARED, TopicsSetup

AS_ASSUMED = "as in the grid"
PACKED = "partitions packed together"
_TIMES = 2
_READ_AHEAD_PAGES = 256


class AssumptionResult(NamedTuple):
    """What one layout did under one assumption: what was sustained, or what consumers of a few topics got."""

    assumption: str
    layout: str
    topics: int
    sustained: SustainedRate | None
    few_lag: CaughtUp | None


def writing_in_grid(rows: Sequence[LayoutResult], disk: str, topics: int) -> Iterator[AssumptionResult]:
    """Yield what the grid has to say of what is sustained under async flush."""
    for row in rows:
        if (row.disk, row.flush, row.topics) == (disk, "async", topics):
            packed = row.variant == PACKED_LOG.name
            name, layout = (PACKED, PACKED_LOG.layout) if packed else (AS_ASSUMED, row.variant)
            yield AssumptionResult(name, layout, topics, row.at_full.sustained, None)


def check_writing(disk: str, topics: int, puts: int, memory: Memory, seed: int) -> Iterator[AssumptionResult]:
    """Yield what is sustained under async flush, under each other assumption on how pages get to the disk."""
    more = replace(memory, dirty_bytes_max=memory.dirty_bytes_max * _TIMES)
    for layout in LAYOUTS:
        base = TopicsSetup(layout, "async", topics, puts, seed=seed, memory=memory)
        changed = {
            "twice the memory": replace(base, memory=more, puts=puts * _TIMES),
            "nothing flushed but by the system": replace(base, flushes=False),
        }
        if layout == SHARED:
            changed["queues placed as written"] = replace(base, queues_ahead=False)
        for name, setup in changed.items():
            yield AssumptionResult(name, layout, topics, measure_sustained(disk, setup), None)


def reading_in_grid(rows: Sequence[LayoutResult], disk: str, topics: int) -> Iterator[AssumptionResult]:
    """Yield what the grid has to say of consumers of a few topics."""
    for row in rows:
        if (row.disk, row.topics) == (disk, topics) and row.at_full.late and row.variant in LAYOUTS:
            yield AssumptionResult(AS_ASSUMED, row.variant, topics, None, row.at_full.late.few_lag)


def check_reading(disk: str, topics: int, puts: int, memory: Memory, seed: int) -> Iterator[AssumptionResult]:
    """Yield what consumers of a few topics get, under each other assumption on reading ahead."""
    for layout in LAYOUTS:
        base = TopicsSetup(layout, "async", topics, puts, seed=seed, memory=memory)
        changed = {"1 MiB read ahead at most": replace(base, read_ahead_pages=_READ_AHEAD_PAGES)}
        if layout == SHARED:
            changed["maps not read around faults"] = replace(base, around_faults=False)
        for name, setup in changed.items():
            yield AssumptionResult(name, layout, topics, None, measure_few_lag(disk, setup))
