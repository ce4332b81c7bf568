"""Needed parts: which crashes, faults and task switches a failing run needs, and where a run without one departs.

Each part is removed alone, and the run is replayed. A part is *needed* if the run without it does not have the same
violation. Of the needed parts, one that a user can least expect is compared: a task switch before a fault or a loss,
and these before a crash. The comparison names the first operation after which a crash could leave other files.
"""

import re
import sys
from collections.abc import Iterator
from dataclasses import replace
from itertools import zip_longest
from typing import Any, NamedTuple

from ....faults.crashes.profiles import NOTHING_LOST
from ....faults.disk.disk import Disk
from ....faults.disk.fault_injector import CrashPhase
from ....faults.simulation.shrink import replace_crash
from ....faults.simulation.simulation import STEP_LIMIT, Crash, WorldTrace
from ....faults.simulation.story import shorten_paths
from ....sim.errors import LeakError
from ....sim.machine import Machine
from ....sim.process import STALL_SECONDS, CpuLimitReached, stall_limit
from .failure import RunRecord
from .observer import code_place
from .replay import replay

PARTS_MAX = 24
"""Maximum number of replays for one failure."""
_NAMED_MAX = 4
_OF_FAULTS = re.compile(
    r"disk|network|disturbances|forced branches|power after stops|strays|lost tail|damaged|flipped|missing segment"
    r"|/rot$|/memory$|/skipped numbers$"
)
"""Matches the streams of random choices that inject faults. Other streams make the workload."""
_DURATION = " ns"
"""The end of the label of an ordinary sync's duration."""
_CRASH, _LOSS, _SWITCH = 0, 1, 2


class Part(NamedTuple):
    """A crash, a fault or a task switch of a run, and the record of the run without it."""

    text: str
    surprise: int
    """The part with the highest number is compared."""
    without: RunRecord


def parts_of(record: RunRecord) -> Iterator[Part]:
    for crash in record.crashes:
        milder = Crash(crash.life, NOTHING_LOST, CrashPhase.AFTER, "")
        if crash != milder:
            yield Part(f"crash of {crash}", _CRASH, replace_crash(record, milder))
    for decision in record.decisions:
        if _OF_FAULTS.search(decision.stream) and not decision.label.endswith(_DURATION):
            others = tuple(one for one in record.decisions if one is not decision)
            stream = "" if decision.stream.startswith("disk") else f"{decision.stream}: "
            yield Part(f"{stream}{decision.label} #{decision.nth}", _LOSS, replace(record, decisions=others))
    for switch in record.schedule:
        rest = tuple(one for one in record.schedule if one is not switch)
        yield Part(f"switch {switch}", _SWITCH, replace(record, schedule=rest))


def violates(record: RunRecord, signature: str, trace: WorldTrace | None = None, step_limit: int = STEP_LIMIT) -> bool:
    """Return whether a replay has a violation with this signature, or ends in a harness error, which is no evidence."""
    try:
        with stall_limit(STALL_SECONDS):
            outcome = replay(record, trace, step_limit=step_limit).result
    except LeakError:
        raise
    except (Exception, CpuLimitReached):
        return True
    return any(violation.signature == signature for violation in outcome.violations)


def needed_parts(record: RunRecord, signature: str, step_limit: int = STEP_LIMIT) -> list[str]:
    """Return lines about the parts of a failing run: needed, not needed, not tried, and the first departure."""
    parts = list(parts_of(record))
    if not parts:
        return ["needed: no crash, fault or task switch"]
    needed, free = list[Part](), list[Part]()
    for part in parts[:PARTS_MAX]:
        (free if violates(part.without, signature, step_limit=step_limit) else needed).append(part)
    named = ("needed", needed), ("not needed", free), ("not tried", parts[PARTS_MAX:])
    lines = [_line(name, found) for name, found in named if found]
    if needed:
        compared = max(needed, key=lambda part: part.surprise)
        lines.append(f"without {compared.text}: {_first_departure(record, compared)}")
    return [shorten_paths(line, record.setup.directories.root) for line in lines]


def _line(name: str, parts: list[Part]) -> str:
    more = len(parts) - _NAMED_MAX
    texts = [part.text for part in parts[:_NAMED_MAX]] + [f"{more} more"] * (more > 0)
    return f"{name}: {'; '.join(texts)}"


def _first_departure(failing: RunRecord, part: Part) -> str:
    """Describe where the run without a part departs. Without a loss, files differ at once, so operations count."""
    first, second = (_states_of(record) for record in (failing, part.without))
    for one, other in zip_longest(first, second):
        if one is None or other is None:
            return f"the {'failing' if other is None else 'other'} run continues after the same operations"
        if one.event != other.event:
            return f"the first different operation is {other.event} instead of {one.event}"
        if one.state != other.state and part.surprise == _SWITCH:
            return f"the durable files first differ after {one.event}"
    return "both runs have the same operations; only answers or times differ"


class _DurableState(NamedTuple):
    event: str
    state: str
    """A digest of the states that a crash could leave after the event."""


class _StateTrace(WorldTrace):
    """Records, after each operation of a disk, the states that a crash could leave."""

    def __init__(self) -> None:
        super().__init__()
        self.states: list[_DurableState] = []
        self._disk: Disk | None = None
        self._pending = ""

    def watch(self, machine: Machine, disk: Disk, tasks: Any, files: Any) -> tuple[Any, Any]:
        self._disk = disk
        return tasks, files

    def add_event(self, kind: str, text: str) -> None:
        self._close_operation()
        if kind not in ("switch", "start", "end"):
            assert self._kernel is not None, "a trace belongs to a kernel"
            place = code_place(sys._getframe(1))
            self._pending = f"{self._kernel.current.name}: {kind} {text}  [{place}]"

    def emit(self, fact: object) -> None:
        """Facts are not compared."""

    def _close_operation(self) -> None:
        if self._pending and self._disk is not None:
            self.states.append(_DurableState(self._pending, self._disk.fingerprint()))
        self._pending = ""


def _states_of(record: RunRecord) -> list[_DurableState]:
    trace = _StateTrace()
    violates(record, "", trace)
    return trace.states
