"""Damage as a column: struct<field, expected, found> of strings; null where nothing is wrong.

A store that lives writes while it is read. What looks like damage where it may be writing is looked at again, after
a pause in which any write that was under way has ended: what stays as it was is damage, what changed was not there yet.

The fields are those of `CorruptFileError`, under RocketMQ's names; where they are is in the row's own columns.
"""

import time
from collections.abc import Sequence
from typing import NamedTuple

import pyarrow as pa

from ....store.errors import CorruptFileError

DAMAGE = pa.field(
    "damage",
    pa.struct([pa.field(name, pa.string()) for name in ("field", "expected", "found")]),
)


LOOKS_MAX = 25
"""How often one task looks again: so many pauses, and from then on it believes what it sees."""
_PAUSE_SECONDS = 0.02
"""A write into a map takes some microseconds, or a time slice if its thread has to wait for one."""


def pause() -> None:
    """Let a write end that may be under way."""
    time.sleep(_PAUSE_SECONDS)


class Reason(NamedTuple):
    """Why something is damage."""

    field: str
    expected: str
    found: str

    @classmethod
    def of(cls, error: CorruptFileError) -> "Reason":
        """Return what a decoder complained about."""
        return cls(error.field, str(error.expected), str(error.found))

    def __str__(self) -> str:
        return f"{self.field}: expected {self.expected}, found {self.found}"


def damage_array(reasons: Sequence[Reason | None]) -> pa.Array:
    """Return the column for some rows."""
    return pa.array([None if one is None else one._asdict() for one in reasons], DAMAGE.type)


def damage_of(reason: Reason | None) -> dict[str, str] | None:
    """Return the column's value in one row, as Arrow takes it."""
    return None if reason is None else reason._asdict()
