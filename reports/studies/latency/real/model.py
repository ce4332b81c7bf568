"""Model of this machine: simulates the cells of a turn on the disk and with the host costs measured in that turn.

The simulated memory of a limited process is the limit; the machine's dirty limits then follow from it, as for a cgroup
of version 2 (Documentation/admin-guide/cgroup-v2.rst, writeback).
"""

import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

from .....faults.devices.unjournaled import MetadataWrites
from ..here import measure_here
from ..machine import Neighbour, SystemConfig
from ..simulated import simulate
from .device import DeviceFile, MeasuredDevice
from .memory_limit import NO_PRESSURE
from .puts import MeasuredPuts
from .turns import MODEL_SOURCE, WARM_UP_TURNS, MachineCondition, MeasuredTurn, TurnPlan

_FLUSHES = 150
_SYNC_AT_END_ONLY_MS = 3_600_000
_PROCESS_BYTES = 48 << 20  # of CPython with this package


class MachineModel:
    """Measures the parts of this machine in each turn, and simulates cells with them."""

    def __init__(self, plan: TurnPlan, directory: Path, stack: ExitStack) -> None:
        """stack: its exit ends the measurement."""
        self._seconds = plan.seconds
        self._unjournaled = None if plan.syncs is None else plan.syncs.unjournaled()
        source = next(iter(plan.sources))
        self._cells = [cell for cell in plan.cells() if cell.source == source]
        place = directory / "parts"
        place.mkdir()
        self._device = DeviceFile(directory)
        stack.callback(self._device.close)
        self._parts = {number: measure_here(f"{place}/{number}", [number], 1 << 30) for number in plan.producers}
        for parts in self._parts.values():
            stack.callback(parts.close)

    def __call__(self, number: int) -> Iterator[MeasuredTurn]:
        """Yield a simulated turn for each cell, at the same arrivals as the measured ones."""
        device = self._device.measure(_FLUSHES)
        costs = {producers: next(parts).host_costs() for producers, parts in self._parts.items()}
        for cell in self._cells:
            series = simulate(
                cell.setup(self._seconds, number + WARM_UP_TURNS),
                costs[cell.producers],
                system_of(cell.condition, device, self._unjournaled),
            )
            puts = MeasuredPuts(series.latencies_ns, series.answered_ns)
            mine = cell._replace(source=MODEL_SOURCE)
            yield MeasuredTurn(mine, number, puts, NO_PRESSURE, None, os.getloadavg()[0], series.slowest)


def system_of(condition: MachineCondition, device: MeasuredDevice, unjournaled: MetadataWrites | None) -> SystemConfig:
    """Return the simulated system of a condition on a measured disk."""
    memory_bytes = condition.memory_bytes
    physical_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return SystemConfig(
        "here",
        physical_bytes if memory_bytes is None else memory_bytes,
        Neighbour(condition.load_bytes or 0, sync_ms=_SYNC_AT_END_ONLY_MS),
        device=device.drive,
        unjournaled=unjournaled,
        process_bytes=_PROCESS_BYTES,
        is_full=memory_bytes is not None,
    )
