"""Spread of faults: orders calls so that few runs reach many files and code locations.

files in turn, by first appearance
code locations of one file: each once (the system call, and its stack if stacks are recorded)
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
    """The calls to which one kind of fault applies, and the calls at which it was injected."""

    calls: Sequence[MatchedCall]
    reached: list[MatchedCall] = field(default_factory=list)

    @property
    def order(self) -> list[int]:
        """Return the indexes of all calls, in the order of injection."""
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
        """Return whether calls were omitted, by the limit or because a run has no record."""
        return len(self.reached) < len(self.calls)

    @property
    def files(self) -> list[str]:
        """Return the files that faults can reach, by first appearance."""
        return _file_names(self.calls)

    @property
    def missed_files(self) -> list[str]:
        """Return the files that no fault has reached."""
        reached = set(_file_names(self.reached))
        return [name for name in self.files if name not in reached]


def _file_names(calls: Sequence[MatchedCall]) -> list[str]:
    return list(dict.fromkeys(named(call.path) if call.path else "a file without a name" for call in calls))


def _bisection_order(numbers: Sequence[int]) -> list[int]:
    """Return the middle number, then the middle of each half, and so on."""
    found, parts = [], deque([numbers])
    while parts:
        part = parts.popleft()
        if part:
            middle = len(part) // 2
            found.append(part[middle])
            parts += (part[:middle], part[middle + 1 :])
    return found
