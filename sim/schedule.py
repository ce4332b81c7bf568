"""Schedules as a person reads, edits and pastes them: where they deviate from running each task until it blocks.

The default schedule never interrupts: at a point where it could go on, a task does; where it blocks, the one that has
been runnable for longest is next. An entry is one deviation from that, named by where it happens:

    life-0/producer-1 @ store #3 -> life-0/flush

As producer-1 stands before its third `store`, flush goes first. A label that begins with ~ is what the task has just
blocked on, so that it could not have gone on anyway. Counted are all times that a task stood there, whoever else could
run. Empty lines, and what stands behind a # at the beginning of a line, are nothing.
"""

import re
from typing import NamedTuple

_LINE = re.compile(r"(?P<task>\S.*?) @ (?P<label>\S.*?) #(?P<nth>[1-9]\d*) -> (?P<chosen>\S.*)")
FORCED = "~"
"""What the label of a point begins with at which a task could not go on."""


class ScheduleError(ValueError):
    """A line that is no entry of a schedule."""


class Switch(NamedTuple):
    """One deviation: as task stands at label for the nth time, counted from 1, chosen runs next."""

    task: str
    label: str
    nth: int
    chosen: str

    @property
    def is_preemption(self) -> bool:
        """Return whether the task could have gone on."""
        return not self.label.startswith(FORCED)

    def __str__(self) -> str:
        return f"{self.task} @ {self.label} #{self.nth} -> {self.chosen}"


def parse_switch(line: str) -> Switch:
    """Return the entry that a line is. Raises ScheduleError if it is none."""
    found = _LINE.fullmatch(line.strip())
    if found is None:
        raise ScheduleError(f"expected TASK @ LABEL #N -> TASK, found {line.strip()[:80]}")
    return Switch(found["task"], found["label"], int(found["nth"]), found["chosen"])


def parse_schedule(text: str) -> list[Switch]:
    """Return the entries of a text, one a line. Raises ScheduleError naming the line that is none, or comes twice."""
    schedule: list[Switch] = []
    places = set()
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        try:
            entry = parse_switch(line)
        except ScheduleError as error:
            raise ScheduleError(f"line {number}: {error}") from error
        if entry[:3] in places:
            raise ScheduleError(f"line {number}: {entry.task} @ {entry.label} #{entry.nth} is there already")
        places.add(entry[:3])
        schedule.append(entry)
    return schedule
