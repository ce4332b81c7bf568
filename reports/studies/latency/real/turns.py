"""Turns: measures stores, modes and conditions in alternation, so that slow phases of the machine affect all alike.

A condition is free memory or a memory limit, with or without a neighbour that writes. Each store has a process of its
own for each mode and memory limit, suspended outside its turns. In one turn all cells put at the same arrivals, in an
order drawn for that turn.
"""

import os
import time
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, nullcontext
from pathlib import Path
from random import Random
from typing import NamedTuple, Protocol

from ..simulated import SlowPut
from ..traffic import Setup, arrivals
from .device import MeasuredDevice
from .file_system import SyncCosts
from .memory_limit import NO_PRESSURE, Pressure, limited, pressure_of
from .neighbour import SETTLE_SECONDS, NeighbourReport, neighbour
from .process import StoreProcess, own_store_command, store_process
from .puts import MeasuredPuts

_MIB = 1 << 20
OWN_SOURCE = "real"
"""The store of this package; a measurement, not a simulation."""
MODEL_SOURCE = "simulated"
Source = Callable[[Path, Setup], list[str]]
"""Returns the command of a store's process (see `process`) in a new directory."""
OWN_SOURCES: Mapping[str, Source] = {OWN_SOURCE: own_store_command}
RATES = {"sync": 400.0, "async": 2_000.0, "pool": 2_000.0}
"""Offered puts per second of all producers together."""
_WARM_UP_PUTS, _WARM_UP_PRODUCERS = 8_000, 8  # a JVM compiles code that ran some thousand times
_WARM_UP_GAPS = array("q", [0] * (_WARM_UP_PUTS // _WARM_UP_PRODUCERS))
WARM_UP_TURNS = 1


class MachineCondition(NamedTuple):
    """The state of the machine during a turn."""

    memory_bytes: int | None = None
    """Limit of the store's process."""
    load_bytes: int | None = None
    """Bytes per second that a neighbour may write."""

    def text(self) -> str:
        memory = "memory free" if self.memory_bytes is None else f"{self.memory_bytes // _MIB} MiB of memory"
        load = "" if self.load_bytes is None else f", neighbour at {self.load_bytes // _MIB} MiB/s"
        return memory + load


def conditions_with(memory_bytes: int | None, load_bytes: int | None) -> list[MachineCondition]:
    """Return free memory, and each given pressure alone and together."""
    limits, loads = ((None,) if size is None else (None, size) for size in (memory_bytes, load_bytes))
    return [MachineCondition(limit, load) for load in loads for limit in limits]


class Mode(NamedTuple):
    """The settings of a store that are compared."""

    flush: str
    """One of FLUSHES."""
    warm: bool = False
    """Whether segments are touched page by page and locked in memory before use."""

    def text(self) -> str:
        return f"{self.flush} warmed" if self.warm else self.flush


MODES = (Mode("sync"), Mode("async"), Mode("async", warm=True), Mode("pool"))


class MeasuredCell(NamedTuple):
    """One series of turns."""

    source: str
    mode: Mode
    condition: MachineCondition
    producers: int

    def setup(self, seconds: float, turn: int) -> Setup:
        rate = RATES[self.mode.flush]
        return Setup(self.mode.flush, self.producers, rate, round(rate * seconds), warm=self.mode.warm, seed=turn)


PartKey = tuple[MachineCondition, Mode, int]
"""Condition, mode and number of producers of a part of puts."""


class TurnParts(NamedTuple):
    """The measurements from which the model computes a turn."""

    device: MeasuredDevice
    puts_ns: Mapping[PartKey, "array[int]"]
    """The durations of puts without a disk."""
    load_average: float


class MeasuredTurn(NamedTuple):
    """The measurements of one cell in one turn."""

    cell: MeasuredCell
    number: int
    puts: MeasuredPuts
    pressure: Pressure
    """Events in the process's cgroup; all 0 without a memory limit."""
    load: NeighbourReport | None
    load_average: float
    """The system's load average of the last minute."""
    slowest: tuple[SlowPut, ...] = ()
    """The slowest puts of a simulation, with their causes."""
    parts: TurnParts | None = None
    """The measurements that a simulation used."""


class TurnPlan(NamedTuple):
    """The stores, modes and conditions to compare, and the durations."""

    conditions: Sequence[MachineCondition]
    producers: Sequence[int]
    turns: int = 20
    seconds: float = 1.0
    """Duration of the arrivals of one cell in one turn."""
    sources: Mapping[str, Source] = OWN_SOURCES
    modes: Sequence[Mode] = MODES
    syncs: SyncCosts | None = None
    """Costs of syncs on the measured disk, if the system counts requests."""
    extra: "Callable[[TurnPlan, Path, ExitStack], ExtraTurns] | None" = None
    """Creates a model below a directory. The stack's exit ends the measurement."""
    seconds_max: float = 1_100.0
    """Time for all turns. A slow machine measures fewer turns."""

    def cells(self) -> list[MeasuredCell]:
        return [
            MeasuredCell(source, mode, condition, producers)
            for producers in self.producers
            for condition in self.conditions
            for source in self.sources
            for mode in self.modes
        ]


class ExtraTurns(Protocol):
    """Turns that are computed from measured parts."""

    def measure_parts(self, condition: MachineCondition, number: int) -> None:
        """Called once in each turn while the condition holds."""

    def turns(self, number: int) -> Iterable[MeasuredTurn]:
        """Called at the end of a turn."""


def measure_turns(plan: TurnPlan, directory: Path) -> Iterator[MeasuredTurn]:
    """Yield each measured turn. Raises MemoryLimitUnavailable or StoreProcessFailed."""
    for memory_bytes in {one.memory_bytes for one in plan.conditions if one.memory_bytes is not None}:
        with limited(["true"], memory_bytes):  # raises before any work
            pass
    with ExitStack() as stack:
        processes = _Processes(plan, directory, stack)
        extra = plan.extra(plan, directory, stack) if plan.extra else None
        longest, until = 0.0, time.monotonic() + plan.seconds_max
        for number in range(-WARM_UP_TURNS, plan.turns):
            began = time.monotonic()
            if number > 0 and began + longest > until:
                return
            found = list(processes.turn(number, extra))
            if extra is not None:
                found += extra.turns(number)
            longest = max(longest, time.monotonic() - began)
            if number >= 0:
                yield from found


class _Processes:
    """The processes of a plan. Conditions with the same memory limit share them."""

    def __init__(self, plan: TurnPlan, directory: Path, stack: ExitStack) -> None:
        """stack: its exit ends the processes."""
        self._plan, self._directory = plan, directory
        self._processes: dict[tuple[str, Mode, int | None], StoreProcess] = {}
        for cell in plan.cells():
            key = (cell.source, cell.mode, cell.condition.memory_bytes)
            if key not in self._processes:
                place = directory / f"store-{len(self._processes)}"
                command = plan.sources[cell.source](place, cell.setup(plan.seconds, 0))
                scratch = directory / f"scratch-{len(self._processes)}"
                process = stack.enter_context(store_process(command, scratch, cell.condition.memory_bytes))
                with process.resumed():
                    process.put([_WARM_UP_GAPS] * _WARM_UP_PRODUCERS)
                self._processes[key] = process

    def turn(self, number: int, extra: ExtraTurns | None) -> Iterator[MeasuredTurn]:
        """Measure each cell once, and the parts of each condition, grouped by neighbour."""
        steps: list[MeasuredCell | MachineCondition] = list(self._plan.cells())
        if extra is not None:
            steps += self._plan.conditions
        Random(number).shuffle(steps)
        for load_bytes in dict.fromkeys(map(_load_of, steps)):
            mine = [step for step in steps if _load_of(step) == load_bytes]
            found = []
            with nullcontext() if load_bytes is None else neighbour(self._directory, load_bytes) as running:
                for step in mine:
                    if isinstance(step, MeasuredCell):
                        found.append(self._measure(step, number))
                    elif extra is not None:
                        extra.measure_parts(step, number)
            for one in found:
                yield one if running is None else one._replace(load=running.report)
            if load_bytes is not None:
                time.sleep(SETTLE_SECONDS)  # the disk still writes the neighbour's last blocks and removes its files

    def _measure(self, cell: MeasuredCell, number: int) -> MeasuredTurn:
        memory_bytes = cell.condition.memory_bytes
        process = self._processes[cell.source, cell.mode, memory_bytes]
        gaps_ns = arrivals(cell.setup(self._plan.seconds, number + WARM_UP_TURNS))
        with process.resumed():
            before = NO_PRESSURE if memory_bytes is None else pressure_of(process.pid)
            puts = process.put(gaps_ns)
            after = NO_PRESSURE if memory_bytes is None else pressure_of(process.pid)
        return MeasuredTurn(cell, number, puts, after.since(before), None, os.getloadavg()[0])


def _load_of(step: MeasuredCell | MachineCondition) -> int | None:
    return (step.condition if isinstance(step, MeasuredCell) else step).load_bytes
