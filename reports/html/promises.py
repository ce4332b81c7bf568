"""Promises by disk: what is promised where, in how many seeds it was really tried there, and how often it broke."""

from collections.abc import Mapping
from typing import NamedTuple

from ...scenarios.claims.disk_models import DISK_MODELS
from ...scenarios.oracle.guarantees import PROMISED, Promise
from ...scenarios.oracle.invariants import INVARIANTS

_STATES = {Promise.KEPT: "held", Promise.INTACT: "intact", Promise.NONE: "none"}


class PromiseCell(NamedTuple):
    """One invariant on one disk. state: held, intact, broken, none (not promised), untried, unjudged."""

    state: str
    seeds: int
    """How many tried it: had something that could break it, and got as far as the check."""
    broken: int


class InvariantRow(NamedTuple):
    """One invariant."""

    invariant: str
    meaning: str
    cells: list[PromiseCell]


class DiskColumn(NamedTuple):
    """One column."""

    name: str
    meaning: str
    seeds: int
    """How many came to a verdict there."""


class Promises(NamedTuple):
    """The table."""

    disks: list[DiskColumn]
    rows: list[InvariantRow]


def promises_table(
    judged: Mapping[str, int],
    tried: Mapping[tuple[str, str], int],
    broken: Mapping[tuple[str, str], int],
) -> Promises:
    """Return the table; judged: seeds by disk; tried, broken: seeds by invariant and disk."""
    disks = [
        DiskColumn(name, disk_model.meaning, judged.get(name, 0)) for name, disk_model in DISK_MODELS.items()
    ]
    rows = [
        InvariantRow(
            invariant,
            meaning,
            [
                _cell(
                    invariant,
                    disk,
                    tried.get((invariant, disk.name), 0),
                    broken.get((invariant, disk.name), 0),
                )
                for disk in disks
            ],
        )
        for invariant, meaning in INVARIANTS.items()
    ]
    return Promises(disks, rows)


def _cell(invariant: str, disk: DiskColumn, tried: int, broken: int) -> PromiseCell:
    state = _STATES[PROMISED[disk.name][invariant]]
    if broken:
        state = "broken"
    elif state != "none" and not disk.seeds:
        state = "unjudged"
    elif state != "none" and not tried:
        state = "untried"
    return PromiseCell(state, tried, broken)
