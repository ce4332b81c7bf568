"""Which invariants are promised on which disk: the one table that judges, lists and reports go by.

    yes      whatever happens on such a disk
    intact   of everything in front of the first damage the disk has done to the log; and a store that refuses to open
             names what is damaged, or missing
    -        not promised: the disk has taken away what the promise stands on

A lying disk acknowledges syncs that a power cut undoes: nothing is durable then, and what the store says of durability
is as wrong as the disk. What it recovers must still lead to every record there is; entries into what the checkpoint
vouched for and the disk has lost are kept. A dying disk loses and changes bytes that were durable: then the store must
not make it worse.
"""

from enum import Enum

from ..claims.disk_models import DISK_MODELS
from .invariants import INVARIANTS


class Promise(Enum):
    """How far an invariant is promised."""

    KEPT = "yes"
    INTACT = "intact"
    NONE = "-"


_TABLE = """
              nothing-lost process-kill ext4-ordered ext4-data xfs btrfs strict-posix full-disk lying-disk dying-disk
DUR           yes          yes          yes          yes       yes yes   yes          yes       -          intact
PREFIX        yes          yes          yes          yes       yes yes   yes          yes       -          -
VIS           yes          yes          yes          yes       yes yes   yes          yes       -          -
CQ-COMPLETE   yes          yes          yes          yes       yes yes   yes          yes       yes        -
CQ-VALID      yes          yes          yes          yes       yes yes   yes          yes       -          -
QOFF          yes          yes          yes          yes       yes yes   yes          yes       -          -
IDX           yes          yes          yes          yes       yes yes   yes          yes       -          -
POS           yes          yes          yes          yes       yes yes   yes          yes       -          -
CKPT          yes          yes          yes          yes       yes yes   yes          yes       -          -
STATUS        yes          yes          yes          yes       yes yes   yes          yes       -          -
ISO           yes          yes          yes          yes       yes yes   yes          yes       yes        yes
START         yes          yes          yes          yes       yes yes   yes          yes       intact     intact
LIVE          yes          yes          yes          yes       yes yes   yes          yes       yes        yes
READ          yes          yes          yes          yes       yes yes   yes          yes       yes        -
META          yes          yes          yes          yes       yes yes   yes          yes       -          -
SCHED         yes          yes          yes          yes       yes yes   yes          yes       -          -
REDEL         yes          yes          yes          yes       yes yes   yes          yes       -          -
CLEAN         yes          yes          yes          yes       yes yes   yes          yes       -          -
TX            yes          yes          yes          yes       yes yes   yes          yes       -          -
REP           yes          yes          yes          yes       yes yes   yes          yes       -          -
ONCE          yes          yes          yes          yes       yes yes   yes          yes       -          -
IDEMPOTENT    yes          yes          yes          yes       yes yes   yes          yes       yes        -
"""


def _read(table: str) -> dict[str, dict[str, Promise]]:
    """Return disk -> invariant -> promise; ValueError if a row or a column is missing, or there is one too many."""
    header, *rows = (line.split() for line in table.strip().splitlines())
    promises = {row[0]: row[1:] for row in rows}
    for kind, expected, found in (("disks", DISK_MODELS, header), ("invariants", INVARIANTS, promises)):
        if set(found) != set(expected):
            raise ValueError(f"promises: {kind}: expected {', '.join(expected)}, found {', '.join(found)}")
    return {
        disk: {invariant: Promise(promises[invariant][column]) for invariant in INVARIANTS}
        for column, disk in enumerate(header)
    }


PROMISED: dict[str, dict[str, Promise]] = _read(_TABLE)
"""Disk -> invariant -> how far it is promised there."""


def promised_text(disk: str) -> str:
    """Return what is promised on a disk, for a reader: all, or what is not."""
    promises = PROMISED[disk]
    missing = [invariant for invariant, promise in promises.items() if promise is Promise.NONE]
    intact = [invariant for invariant, promise in promises.items() if promise is Promise.INTACT]
    if not missing and not intact:
        return "every invariant"
    kept = len(promises) - len(missing) - len(intact)
    return f"{kept} of {len(promises)}; {', '.join(intact)} in front of damage; not {', '.join(missing)}"
