"""Who has to have done something by when, all with the same time to do it: a queue in order of the moments."""

from collections import OrderedDict
from collections.abc import Iterator
from typing import Generic, TypeVar

_Who = TypeVar("_Who")


class Deadlines(Generic[_Who]):
    """Deadlines that are each after_ms from when they are set. Costs nothing while none has come."""

    __slots__ = ("_after_ns", "_due_ns")

    def __init__(self, after_ms: int) -> None:
        self._after_ns = after_ms * 1_000_000
        self._due_ns: OrderedDict[_Who, int] = OrderedDict()
        """In order of the moments, as all have the same time; a dict would pass over who has left to find the first."""

    def __contains__(self, who: _Who) -> bool:
        return who in self._due_ns

    def __iter__(self) -> Iterator[_Who]:
        """Iterate over who is waited for, the longest first."""
        return iter(self._due_ns)

    def since_ns(self, who: _Who) -> int:
        """Return the moment since which who is waited for. KeyError if nobody waits."""
        return self._due_ns[who] - self._after_ns

    def set(self, who: _Who, from_ns: int) -> None:
        """Give who after_ms from a moment, which is not before that of the last call."""
        self._due_ns[who] = from_ns + self._after_ns
        self._due_ns.move_to_end(who)

    def drop(self, who: _Who) -> None:
        """Wait for who no more."""
        self._due_ns.pop(who, None)

    @property
    def next_due_ns(self) -> int | None:
        """Return the next moment, None if nobody is waited for."""
        return next(iter(self._due_ns.values()), None)

    def pop_due(self, now_ns: int, count_max: int) -> list[_Who]:
        """Take out and return those whose moment has come, the earliest first."""
        due: list[_Who] = []
        for who, due_ns in self._due_ns.items():
            if due_ns > now_ns or len(due) == count_max:
                break
            due.append(who)
        for who in due:
            del self._due_ns[who]
        return due
