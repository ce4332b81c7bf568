"""What sweeps came to, for their page."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .results import FailureLinks

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class SweepResults:
    """What one sweep came to, or several that were analysed together; tables are those of `reports.analysis`."""

    command_name: str
    """Of the command: sweep, or analyze."""
    command: str
    """The command line."""
    seconds: float
    pass_rates: Sequence[Row]
    put_latency: Sequence[Row]
    detections: Sequence[Row]
    fired: Mapping[str, int]
    marks: Mapping[str, int]
    judged: Mapping[str, int] = field(default_factory=dict)
    """Seeds that came to a verdict, by disk."""
    tried: Mapping[tuple[str, str], int] = field(default_factory=dict)
    """Those of them that tried a promise, by invariant and disk."""
    broken: Mapping[tuple[str, str], int] | None = None
    """Seeds that broke a promise, by invariant and disk; None if nobody counted."""
    signatures: Mapping[str, int] = field(default_factory=dict)
    """How often each failure was met, by its signature."""
    failures: Mapping[str, FailureLinks] = field(default_factory=dict)
    """The smallest failure of each signature, by that."""
    left: int = 0
    """Seeds that were asked for and have no row."""
    damaged: int = 0
    """Files of rows that could not be read."""
