"""Schedules as text: deviations from the default schedule.

In the default schedule each task runs until it blocks, and the next task is the one that became runnable first. An
entry describes one deviation:

    life-0/producer-1 @ store #3 -> life-0/flush

Before producer-1 executes its third `store`, flush runs. A label that begins with ~ is the reason why the task blocked.
The number also counts occurrences at which no other task could run. Empty lines and lines that begin with # are
ignored.
"""

import re
from typing import NamedTuple

_LINE = re.compile(r"(?P<task>\S.*?) @ (?P<label>\S.*?) #(?P<nth>[1-9]\d*) -> (?P<chosen>\S.*)")
FORCED = "~"
"""Prefix of a label at which the task blocked or ended."""


class ScheduleError(ValueError):
    """A line of a schedule is not a valid entry."""


class TaskSwitch(NamedTuple):
    """One deviation: when `task` is at `label` for the nth time, from 1, `chosen` runs next."""

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
    """Parse one entry. Raises ScheduleError if it is invalid."""
    found = _LINE.fullmatch(line.strip())
    if found is None:
        raise ScheduleError(f"expected TASK @ LABEL #N -> TASK, found {line.strip()[:80]}")
    return TaskSwitch(found["task"], found["label"], int(found["nth"]), found["chosen"])


def parse_schedule(text: str) -> list[TaskSwitch]:
    """Parse one entry per line. ScheduleError names an invalid or duplicate line."""
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
