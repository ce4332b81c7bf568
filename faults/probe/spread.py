"""Spread of faults: selects the calls for few runs so that they reach many files and places of a program.

files: each once, by its first appearance, then each again
places of one file: each once (the system call, and its stack if stacks are recorded)
other calls of one file: the middle one of the run, then the middle of each half, of each quarter, ...
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain, zip_longest

from .story import named
from .tracing.control import MatchedCall


@dataclass(slots=True)
class FaultCoverage:
    """The calls of a program to which one kind of fault applies, and those at which it was injected."""

    calls: Sequence[MatchedCall]
    reached: list[MatchedCall] = field(default_factory=list)

    @property
    def order(self) -> list[int]:
        """Return the indexes of all calls, in the order in which faults are injected at them."""
        of_file: dict[str, list[int]] = {}
        for number, call in enumerate(self.calls):
            of_file.setdefault(call.path, []).append(number)
        rounds = zip_longest(*(self._order_in_file(numbers) for numbers in of_file.values()))
        found = [number for number in chain.from_iterable(rounds) if number is not None]
        assert len(found) == len(self.calls), (len(found), len(self.calls))
        return found

    def _order_in_file(self, numbers: Sequence[int]) -> list[int]:
        firsts: dict[tuple[str, int], int] = {}
        for number in numbers:
            firsts.setdefault((self.calls[number].call, self.calls[number].stack), number)
        places = set(firsts.values())
        return [*firsts.values(), *_bisection_order([number for number in numbers if number not in places])]

    @property
    def is_partial(self) -> bool:
        """Return whether calls were left out, by the limit or because a run could not be recorded."""
        return len(self.reached) < len(self.calls)

    @property
    def files(self) -> list[str]:
        """Return the names of the files that faults can reach, by their first appearance."""
        return _file_names(self.calls)

    @property
    def missed_files(self) -> list[str]:
        """Return the names of the files that no fault has reached."""
        reached = set(_file_names(self.reached))
        return [name for name in self.files if name not in reached]


def _file_names(calls: Sequence[MatchedCall]) -> list[str]:
    return list(dict.fromkeys(named(call.path) if call.path else "a file without a name" for call in calls))


def _bisection_order(numbers: Sequence[int]) -> list[int]:
    """Return the middle number, then the middles of both halves, and so on."""
    found, parts = [], deque([numbers])
    while parts:
        part = parts.popleft()
        if part:
            middle = len(part) // 2
            found.append(part[middle])
            parts += (part[:middle], part[middle + 1 :])
    return found
