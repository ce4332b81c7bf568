"""What a campaign has never reached: faults that never fired and marks that were never hit prove nothing by silence."""

from collections import Counter
from collections.abc import Iterable

from ..faults.kinds import FAULTS as FAULTS
from .marks import MARKS as MARKS
from .runner import Tally


def never_fired(tallies: Iterable[Tally]) -> list[str]:
    """Return the kinds of fault that never fired."""
    fired: Counter[str] = sum((tally.fired for tally in tallies), Counter())
    return [kind for kind in FAULTS if not fired[kind]]


def never_hit(tallies: Iterable[Tally]) -> list[str]:
    """Return the marks that were never hit."""
    marks: Counter[str] = sum((tally.marks for tally in tallies), Counter())
    return [mark for mark in MARKS if not marks[mark]]
