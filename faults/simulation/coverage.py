"""What many seeds of a scenario came to together: how often each fault happened, and which never did.

    coverage = Coverage()
    find(scenario, range(1000), coverage.add)
    print(coverage)

That nothing was found proves nothing about a fault that never happened.
"""

from collections import Counter
from typing import Protocol


class NeverFired(UserWarning):
    """Nothing was found, in seeds in which some fault that could have happened never did."""


class Ran(Protocol):
    """What is asked of one run."""

    @property
    def fired(self) -> dict[str, int]:
        """Return how often each fault really happened, by the names in `kinds`."""

    @property
    def enabled(self) -> tuple[str, ...]:
        """Return the faults that could have happened."""


class Coverage:
    """The sum of the runs added so far."""

    def __init__(self) -> None:
        self.seeds = 0
        self.fired: Counter[str] = Counter()
        """How often each fault happened; `crash` is how often a life ended in one."""
        self._enabled: dict[str, None] = {}

    def add(self, seed: int, outcome: Ran) -> None:
        """Take another run, as `on_run` of `find` is told of it."""
        self.seeds += 1
        self.fired.update(outcome.fired)
        self._enabled.update(dict.fromkeys(outcome.enabled))

    @property
    def never_fired(self) -> list[str]:
        """Return the faults that could have happened in some run, and never did."""
        return [name for name in self._enabled if not self.fired[name]]

    def __str__(self) -> str:
        """Return what happened and what never did, in lines."""
        faults = [(name, times) for name, times in self.fired.items() if not name.startswith("crash")]
        told = ", ".join(
            f"{name} {times:,}" for name, times in sorted(faults, key=lambda one: (-one[1], one[0]))
        )
        return (
            f"{self.seeds:,} seed{'' if self.seeds == 1 else 's'}, {self.fired['crash']:,} crashes\n"
            f"  fired        {told or 'nothing'}\n"
            f"  never fired  {', '.join(self.never_fired) or 'nothing that could have'}"
        )
