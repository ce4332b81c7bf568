"""Counts of a run: each is declared here once, and every report and the sweep's table show it."""

from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple


def counted(meaning: str, *, column: str = "", bits: int = 64) -> Any:
    """Return the field of a count that begins at 0. column, bits: its column in a sweep's table, if named otherwise."""
    return field(default=0, metadata={"meaning": meaning, "column": column, "bits": bits})


@dataclass(slots=True, kw_only=True)
class RunCounts:
    """Counts of one run, or their sums over several."""

    crash_points: int = counted("crash points", column="crashes", bits=32)
    messages: int = counted("messages")
    steps: int = counted("steps")

    def add_counts(self, other: "RunCounts") -> None:
        for one in COUNTED:
            setattr(self, one.name, getattr(self, one.name) + getattr(other, one.name))

    def counts(self) -> dict[str, int]:
        return {one.meaning: getattr(self, one.name) for one in COUNTED}


class Count(NamedTuple):
    """A field of `RunCounts`."""

    name: str
    meaning: str
    column: str
    bits: int


COUNTED = [
    Count(one.name, one.metadata["meaning"], one.metadata["column"] or one.name, one.metadata["bits"])
    for one in fields(RunCounts)
]
