"""Parts of puts: measures computing and handovers without a disk, in separate processes, under each condition.

The syncs of these stores sleep for a known time, which is subtracted. Each mode and memory limit has a process, which
is suspended between measurements. A neighbour also takes processor time, so it runs here as for the stores with a disk.
"""

from array import array
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from .....faults.devices.drives import DurationDistribution
from ..host import HostCosts
from ..traffic import Setup, arrivals
from .process import StoreProcess, own_store_command, store_process
from .turns import RATES, MachineCondition, MeasuredCell, Mode, PartKey, TurnPlan

_SLEEP_SECONDS = 0.0003
"""Duration of the sleep that replaces a sync."""
_HANDOVER_WORK_SHARE = 3  # one third of a handover is computing, the rest is spent in the kernel
_SYNCED, _PLAIN = Mode("sync"), Mode("async")
_SYNCED_SECONDS, _ALONE_SECONDS, _SECONDS = 0.25, 0.15, 1.0


class Parts:
    """The stores without a disk. Invariant: `_found` has the last measurement of each part."""

    def __init__(self, plan: TurnPlan, directory: Path, stack: ExitStack) -> None:
        """stack: its exit ends the processes."""
        self._modes = list(dict.fromkeys((_SYNCED, _PLAIN, *plan.modes)))
        self._producers = plan.producers
        self._processes: dict[tuple[Mode, int | None], StoreProcess] = {}
        self._found: dict[PartKey, array[int]] = {}
        for memory_bytes in dict.fromkeys(condition.memory_bytes for condition in plan.conditions):
            for mode in self._modes:
                name = f"part-{len(self._processes)}"
                command = own_store_command(directory / name, _setup_of(mode, 1, 1.0, 0), _SLEEP_SECONDS)
                process = store_process(command, directory / f"{name}-scratch", memory_bytes)
                self._processes[mode, memory_bytes] = stack.enter_context(process)

    def measure(self, condition: MachineCondition, turn: int) -> None:
        """Measure all parts. The caller has established the condition."""
        for mode, producers, seconds in self._plan():
            process = self._processes[mode, condition.memory_bytes]
            with process.resumed():
                puts = process.put(arrivals(_setup_of(mode, producers, seconds, turn)))
                self._found[condition, mode, producers] = puts.latencies_ns

    def found(self) -> dict[PartKey, "array[int]"]:
        """Return the durations of the puts of each part, as last measured."""
        return dict(self._found)

    def _plan(self) -> Iterable[tuple[Mode, int, float]]:
        yield _SYNCED, 1, _SYNCED_SECONDS
        yield _PLAIN, 1, _ALONE_SECONDS
        for mode in self._modes:
            for producers in self._producers:
                if mode != _SYNCED and (mode, producers) != (_PLAIN, 1):
                    yield mode, producers, _SECONDS


def costs_of_cell(parts: Mapping[PartKey, "array[int]"], cell: MeasuredCell) -> HostCosts:
    """Return the costs of a cell under its condition. parts: see `Parts.found`."""
    mode = _PLAIN if cell.mode == _SYNCED else cell.mode
    return _costs_of(*(parts[cell.condition, *part] for part in ((_PLAIN, 1), (mode, cell.producers), (_SYNCED, 1))))


def _costs_of(alone_ns: Sequence[int], puts_ns: Sequence[int], synced_ns: Sequence[int]) -> HostCosts:
    """Return the costs of measured puts without a disk: of one producer, of all, and of one with a sync."""
    usual_ns = DurationDistribution(alone_ns).quantile(0.5)
    handover = DurationDistribution(max(took_ns - usual_ns, 0) for took_ns in synced_ns)
    return HostCosts(
        put=DurationDistribution(puts_ns),
        put_work_ns=usual_ns,
        handover=handover,
        handover_work_ns=handover.quantile(0.5) // _HANDOVER_WORK_SHARE,
        dispatch_ns=usual_ns // 2,
        touch_ns=0,  # included in the put costs
    )


def _setup_of(mode: Mode, producers: int, seconds: float, turn: int) -> Setup:
    rate = RATES[mode.flush]
    return Setup(mode.flush, producers, rate, round(rate * seconds), warm=mode.warm, seed=turn)
