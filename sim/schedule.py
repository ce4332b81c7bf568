"""Schedules as text: deviations from the default schedule.

The default schedule never preempts: a task runs until it blocks, and the next task is the one that became runnable
first. An entry describes one deviation:

    life-0/producer-1 @ store #3 -> life-0/flush

Before producer-1 executes its third `store`, flush runs. A label that begins with ~ is the reason for which the task
blocked. The number also counts the times at which no other task could run. Empty lines and lines that begin with # are
ignored.
"""

import re
from typing import NamedTuple

_LINE = re.compile(r"(?P<task>\S.*?) @ (?P<label>\S.*?) #(?P<nth>[1-9]\d*) -> (?P<chosen>\S.*)")
FORCED = "~"
"""Prefix of a label at which the task blocked or ended."""


class ScheduleError(ValueError):
    """A line is not a valid entry."""


class TaskSwitch(NamedTuple):
    """One deviation: when task is at label for the nth time, from 1, chosen runs next."""

    task: str
    label: str
    nth: int
    chosen: str

    @property
    def is_preemption(self) -> bool:
        return not self.label.startswith(FORCED)

    def __str__(self) -> str:
        return f"{self.task} @ {self.label} #{self.nth} -> {self.chosen}"


def parse_switch(line: str) -> TaskSwitch:
    """Raises ScheduleError if the entry is invalid."""
    found = _LINE.fullmatch(line.strip())
    if found is None:
        raise ScheduleError(f"expected TASK @ LABEL #N -> TASK, found {line.strip()[:80]}")
    return TaskSwitch(found["task"], found["label"], int(found["nth"]), found["chosen"])


def parse_schedule(text: str) -> list[TaskSwitch]:
    """Parse one entry per line. Raises ScheduleError naming an invalid or duplicate line."""
    schedule: list[TaskSwitch] = []
    places = set()
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        try:
            entry = parse_switch(line)
        except ScheduleError as error:
            raise ScheduleError(f"line {number}: {error}") from error
        if entry[:3] in places:
            raise ScheduleError(f"line {number}: {entry.task} @ {entry.label} #{entry.nth} is a duplicate")
        places.add(entry[:3])
        schedule.append(entry)
    return schedule
