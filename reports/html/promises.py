"""Promises by disk: what is promised where, how many seeds were judged there, and how often it broke."""

from collections.abc import Mapping
from typing import NamedTuple

from ...scenarios.invariants import INVARIANTS
from ...scenarios.judging.promised import PROMISED, Promise
from ...scenarios.realities import REALITIES

_STATES = {Promise.KEPT: "held", Promise.INTACT: "intact", Promise.NONE: "none"}


class Cell(NamedTuple):
    """One invariant on one disk. state: held, intact, broken, none (not promised), unjudged."""

    state: str
    seeds: int
    broken: int


class Row(NamedTuple):
    """One invariant."""

    invariant: str
    meaning: str
    cells: list[Cell]


class Disk(NamedTuple):
    """One column."""

    name: str
    meaning: str
    seeds: int


class Promises(NamedTuple):
    """The table."""

    disks: list[Disk]
    rows: list[Row]


def promises_table(judged: Mapping[str, int], broken: Mapping[tuple[str, str], int]) -> Promises:
    """Return the table; judged: seeds by disk; broken: seeds by invariant and disk."""
    disks = [Disk(name, reality.meaning, judged.get(name, 0)) for name, reality in REALITIES.items()]
    rows = [
        Row(
            invariant,
            meaning,
            [_cell(invariant, disk, broken.get((invariant, disk.name), 0)) for disk in disks],
        )
        for invariant, meaning in INVARIANTS.items()
    ]
    return Promises(disks, rows)


def _cell(invariant: str, disk: Disk, broken: int) -> Cell:
    state = _STATES[PROMISED[disk.name][invariant]]
    if broken:
        state = "broken"
    elif state != "none" and not disk.seeds:
        state = "unjudged"
    return Cell(state, disk.seeds, broken)
