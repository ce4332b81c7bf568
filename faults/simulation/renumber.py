"""Renumbering: a record about `log-00000005`, in a run that only came to `log-00000004`.

Logs number their files, so whatever is left out of a workload moves what a crash is to hit and to take to another file.
Where a replay has not come to that, what it did come to under the same name, but for the numbers, is the next best.
"""

import re
from collections.abc import Iterable
from dataclasses import replace

from ...sim.choices import Decision
from ..disk.crash_trigger import CrashPoint
from .finding import TrialRecord
from .simulation import DISK_STREAM, Crash
from .trials import TrialReplay

_NUMBER = re.compile(r"\d+")


def renumbered(record: TrialRecord, replayed: TrialReplay) -> TrialRecord:
    """Return a record about what its replay came to; the same one if there is nothing of those names.

    Of several files it is the one that was met last.
    """
    outcome = replayed.outcome
    gone = set(replayed.gone)
    plain = [draw for draw in outcome.draws if not draw.value]
    return replace(
        record,
        decisions=tuple(
            _moved(decision, plain)
            if decision in gone and decision.stream.startswith(DISK_STREAM)
            else decision
            for decision in record.decisions
        ),
        crashes=tuple(
            _aimed(crash, outcome.operations.get(crash.life, {})) if crash in gone and crash.point else crash
            for crash in record.crashes
        ),
    )


def _moved(decision: Decision, plain: Iterable[Decision]) -> Decision:
    """Return a decision for the last draw of its name."""
    shape, found = _shape(decision.label), decision
    for draw in plain:
        if draw.stream == decision.stream and draw.options > decision.value and _shape(draw.label) == shape:
            found = draw._replace(value=decision.value)
    return found


def _aimed(crash: Crash, operations: Iterable[tuple[str, str]]) -> Crash:
    """Return a crash at the last file of its name, at the first operation of its kind."""
    kind, path, _ = CrashPoint.parse(crash.point)
    shape, found = _shape(path), crash
    for other_kind, other in operations:
        if other_kind == kind and _shape(other) == shape:
            found = crash._replace(point=str(CrashPoint(kind, other, 1)))
    return found


def _shape(name: str) -> str:
    return _NUMBER.sub("0", name)
