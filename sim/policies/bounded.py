"""Bounded: the default schedule but for some given deviations, and a note of where else it could have deviated.

The default schedule lets each task run until it blocks; the next is then the one that has been runnable for longest.
A deviation is named by where it happens, and prints as

    118:1       at point 118, the first of those who could go instead of the running task
    204~1:2     at the first forced switch behind point 204, the second of those behind the default one

A run is never slowed down by points at which it does not deviate: from one decision to the next who could run stays the
same, so that a quantum is noted as one decision. `search` goes through all that is noted.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

from ..errors import ReplayDivergedError
from ..machine import SimTask
from ..schedule import FORCED
from .replay import default_choice

_FOR_GOOD = 1 << 60
_ENTRY = re.compile(r"(\d+)(?:~([1-9]\d*))?:([1-9]\d*)")


class ScheduleDeviation(NamedTuple):
    """At this decision, somebody else than the default."""

    step: int
    """Scheduling points passed so far, with the one that is decided at."""
    forced: int
    """0: the running task could go on; 1, 2, …: the number of a forced switch since that point."""
    option: int
    """1, 2, …: who runs instead, the others counted in the order of becoming runnable."""

    def __str__(self) -> str:
        place = f"{self.step}~{self.forced}" if self.forced else f"{self.step}"
        return f"{place}:{self.option}"


def parse_deviations(text: str) -> tuple[ScheduleDeviation, ...]:
    """Return the deviations that a text lists between spaces; ValueError naming the entry that is none."""
    deviations = []
    for entry in text.split():
        found = _ENTRY.fullmatch(entry)
        if found is None:
            raise ValueError(f"expected STEP:OPTION or STEP~SWITCH:OPTION, found {entry[:40]}")
        deviations.append(ScheduleDeviation(int(found[1]), int(found[2] or 0), int(found[3])))
    return tuple(deviations)


class SwitchPoint(NamedTuple):
    """One decision between several tasks, and the points behind it that could have been decisions among as many."""

    step: int
    forced: int
    options: int
    """How many tasks could run, the default among them."""
    option: int
    """Who was chosen: 0 for the default, else as in a deviation."""
    silent_to: int
    """The last point the chosen task passed in its quantum: at each from step + 1 on it could have been another."""


class Bounded:
    """Invariant: the first `_taken` deviations have happened, each in its place.

    From a decision to the next time it is asked, what this policy grants is the quantum of one task.
    """

    name = "bounded"
    interrupts_on_wake = True  # so that nobody becomes runnable within a quantum

    def __init__(self, deviations: Sequence[ScheduleDeviation] = ()) -> None:
        self._deviations = deviations
        self._taken = 0
        self._decisions: list[SwitchPoint] = []
        self._open: SwitchPoint | None = None  # the latest, while its quantum runs
        self._is_contested = False
        self._granted: SimTask | None = None
        self._granted_parks = 0
        self._forced_at = (0, 0)  # a step, and how many forced decisions there have been at it

    @property
    def untaken(self) -> Sequence[ScheduleDeviation]:
        """Return the deviations that have not happened; none after a whole run of the code they were made for."""
        return self._deviations[self._taken :]

    def decisions(self) -> list[SwitchPoint]:
        """Return every decision of a run that is over."""
        if self._granted is not None:
            self._close(self._granted, self._granted.machine.kernel.steps)
        return self._decisions

    def choose(self, runnable: Sequence[SimTask], current: SimTask | None, label: str, step: int) -> int:
        """Return the default, or who a deviation says; ReplayDivergedError if there is nobody of that number."""
        if self._granted is not None:
            self._close(self._granted, step)
        forced = 0
        if label.startswith(FORCED):
            at, count = self._forced_at
            forced = count + 1 if at == step else 1
            self._forced_at = (step, forced)
        option = self._option(step, forced, len(runnable))
        self._open = SwitchPoint(step, forced, len(runnable), option, step)
        self._is_contested = True
        default = default_choice(runnable, current, label)
        if option == 0:
            return default
        return option - 1 if option <= default else option

    def quantum(self, chosen: SimTask, step: int) -> int:
        """Grant everything up to the next deviation."""
        if not self._is_contested and self._granted is not None:
            self._close(self._granted, step)
        self._is_contested = False
        self._granted, self._granted_parks = chosen, chosen.park_number
        if self._taken < len(self._deviations):
            deviation = self._deviations[self._taken]
            if not deviation.forced:  # a forced switch comes by itself
                return max(0, deviation.step - step - 1)
        return _FOR_GOOD

    def _option(self, step: int, forced: int, options: int) -> int:
        """Return who is to run here, and check that no deviation has been passed by."""
        if self._taken == len(self._deviations):
            return 0
        deviation = self._deviations[self._taken]
        if (step, forced) < deviation[:2]:
            return 0
        if (step, forced) > deviation[:2] or deviation.option >= options:
            found = f"{options} options at {step}~{forced}"
            raise ReplayDivergedError("deviations", self._taken, str(deviation), found)
        self._taken += 1
        return deviation.option

    def _close(self, granted: SimTask, step: int) -> None:
        """Note how far the quantum of the latest decision went, now that step points have been passed."""
        if self._open is None:
            return
        stands_there = not granted.ended and granted.park_number == self._granted_parks
        passed = (
            step - 1 if stands_there else step
        )  # standing at a point, it is asked about, or lost to a kill
        self._decisions.append(self._open._replace(silent_to=max(passed, self._open.step)))
        self._open = None
