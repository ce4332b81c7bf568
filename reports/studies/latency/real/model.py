"""Model of this machine: simulates the cells of a turn on the disk and with the host costs measured in that turn.

A limited process is simulated with as much memory as its limit. In a cgroup of version 2 the dirty limits derive from
this limit (Documentation/admin-guide/cgroup-v2.rst, writeback); in version 1 they are those of the whole machine.
"""

import os
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from random import Random

from .....faults.devices.unjournaled import MetadataWrites
from ..machine import Neighbour, SystemConfig
from ..simulated import simulate
from ..traffic import Setup, arrivals
from .device import DeviceProbe, MeasuredDevice
from .memory_limit import NO_PRESSURE, has_own_dirty_limits
from .neighbour import SETTLE_SECONDS, dirty_limit_bytes
from .parts import Parts, costs_of_cell
from .puts import MeasuredPuts
from .turns import MODEL_SOURCE, RATES, WARM_UP_TURNS, MachineCondition, MeasuredTurn, TurnParts, TurnPlan

_PROBES = Setup("sync", 1, RATES["sync"], 200)
"""The arrivals of disk probes in a turn, for each condition without a neighbour."""
_SYNC_AT_END_ONLY_MS = 3_600_000
_PROCESS_BYTES = 48 << 20  # of CPython with this package


class MachineModel:
    """Measures the parts of this machine in each turn, and simulates cells with them."""

    def __init__(self, plan: TurnPlan, directory: Path, stack: ExitStack) -> None:
        """stack: its exit ends the measurement."""
        self._plan = plan
        self._writes = 1 if plan.syncs is None else plan.syncs.preallocated.writes
        self._probe = DeviceProbe(directory, stack)
        self._parts = Parts(plan, directory, stack)
        self._device: MeasuredDevice | None = None

    def measure_parts(self, condition: MachineCondition, number: int) -> None:
        self._parts.measure(condition, number)
        if condition.load_bytes is None:
            found = self._probe.measure(arrivals(replace(_PROBES, seed=number))[0], self._writes)
            self._device = found if self._device is None else self._device.joined(found)

    def turns(self, number: int) -> Iterator[MeasuredTurn]:
        device, self._device = self._device, None
        assert device is not None, "a turn has a condition without a neighbour"
        return simulated_turns(self._plan, number, TurnParts(device, self._parts.found(), os.getloadavg()[0]))


def simulated_turns(plan: TurnPlan, number: int, parts: TurnParts) -> Iterator[MeasuredTurn]:
    """Yield a simulated turn for each cell of a store, at the same arrivals as the measured ones."""
    source = next(iter(plan.sources))
    unjournaled = None if plan.syncs is None else plan.syncs.unjournaled()
    for cell in plan.cells():
        if cell.source == source:
            series = simulate(
                cell.setup(plan.seconds, number + WARM_UP_TURNS),
                costs_of_cell(parts.puts_ns, cell),
                system_of(cell.condition, parts.device, unjournaled),
                lead_ns=_lead_ns(cell.condition, number),
            )
            puts = MeasuredPuts(series.latencies_ns, series.answered_ns)
            mine = cell._replace(source=MODEL_SOURCE)
            yield MeasuredTurn(mine, number, puts, NO_PRESSURE, None, parts.load_average, series.slowest, parts)


def _lead_ns(condition: MachineCondition, turn: int) -> int:
    """Return how long the neighbour runs before the first arrival, so that each turn meets another part of its file."""
    if condition.load_bytes is None:
        return 0
    file_ns = Neighbour().file_bytes * 1_000_000_000 // condition.load_bytes
    return round(SETTLE_SECONDS * 1e9) + round(Random(turn).random() * file_ns)


def system_of(condition: MachineCondition, device: MeasuredDevice, unjournaled: MetadataWrites | None) -> SystemConfig:
    """Return the simulated system of a condition on a measured disk."""
    memory_bytes = condition.memory_bytes
    physical_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return SystemConfig(
        "here",
        physical_bytes if memory_bytes is None else memory_bytes,
        Neighbour(condition.load_bytes or 0, sync_ms=_SYNC_AT_END_ONLY_MS),
        dirty_bytes_max=0 if has_own_dirty_limits() else dirty_limit_bytes(),
        device=device.drive,
        unjournaled=unjournaled,
        process_bytes=_PROCESS_BYTES,
        is_full=memory_bytes is not None,
    )
