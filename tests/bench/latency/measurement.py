"""Measurement files: keep the turns of a run, so that a later version of the model can be compared with them.

A measurement is JSON lines, compressed by gzip: the plan, the turns of the stores, and the parts from which the model
computes its turns. Times are in ns.
"""

import gzip
import json
from array import array
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tornlog.reports.studies.latency.real.device import MeasuredDevice
from tornlog.reports.studies.latency.real.file_system import SyncCosts, SyncRequests
from tornlog.reports.studies.latency.real.memory_limit import Pressure
from tornlog.reports.studies.latency.real.neighbour import NeighbourReport
from tornlog.reports.studies.latency.real.process import own_store_command
from tornlog.reports.studies.latency.real.puts import MeasuredPuts
from tornlog.reports.studies.latency.real.turns import (
    MachineCondition,
    MeasuredCell,
    MeasuredTurn,
    Mode,
    TurnParts,
    TurnPlan,
)

MEASUREMENT_NAME = "latency-turns-measured.jsonl.gz"
_FORMAT = "tornlog-latency-measurement/1"


def write_measurement(plan: TurnPlan, turns: Sequence[MeasuredTurn], path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    parts = {turn.number: turn.parts for turn in turns if turn.parts is not None}
    with gzip.open(path, "wt", encoding="utf-8") as file:
        shown = {"conditions": plan.conditions, "producers": plan.producers, "modes": plan.modes, "syncs": plan.syncs}
        lines: list[Any] = [{"format": _FORMAT, "sources": list(plan.sources), "seconds": plan.seconds, **shown}]
        lines += [turn[:-2] for turn in turns if turn.parts is None]  # without fields of simulations
        lines += [
            (number, of_turn.device, list(of_turn.puts_ns.items()), of_turn.load_average)
            for number, of_turn in parts.items()
        ]
        file.writelines(json.dumps(line, default=list) + "\n" for line in lines)


def read_measurement(path: Path) -> tuple[TurnPlan, list[MeasuredTurn], dict[int, TurnParts]]:
    """Return the plan, the turns of the stores, and the parts by the number of their turn. ValueError: another file."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        shown, *lines = map(json.loads, file)
    if shown.get("format") != _FORMAT:
        raise ValueError(f"{path}: expected {_FORMAT}, found {shown.get('format')}")
    plan = TurnPlan(
        [MachineCondition(*one) for one in shown["conditions"]],
        shown["producers"],
        seconds=shown["seconds"],
        sources=dict.fromkeys(shown["sources"], own_store_command),
        modes=[Mode(*one) for one in shown["modes"]],
        syncs=shown["syncs"] and SyncCosts(*(SyncRequests(*one) for one in shown["syncs"])),
    )
    turns = [_turn_of(*line) for line in lines if isinstance(line[0], list)]
    return plan, turns, {line[0]: _parts_of(*line[1:]) for line in lines if not isinstance(line[0], list)}


def _turn_of(cell: Any, number: int, puts: Any, pressure: Any, load: Any, load_average: float) -> MeasuredTurn:
    source, mode, condition, producers = cell
    return MeasuredTurn(
        MeasuredCell(source, Mode(*mode), MachineCondition(*condition), producers),
        number,
        MeasuredPuts(*(array("q", each) for each in puts)),
        Pressure(*pressure),
        load and NeighbourReport(*load),
        load_average,
    )


def _parts_of(device: Any, puts_ns: Any, load_average: float) -> TurnParts:
    return TurnParts(
        MeasuredDevice(*(array("q", each) for each in device)),
        {
            (MachineCondition(*condition), Mode(*mode), producers): array("q", each)
            for (condition, mode, producers), each in puts_ns
        },
        load_average,
    )
