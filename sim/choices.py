"""Choices: everything left to chance, drawn from one stream per component and recorded.

The record is the truth, the seed only its origin: a replay reads the record. A draw is known by its stream, its label
and the occurrence of that label, so that a record outlives code that draws more, or less, elsewhere. By custom 0 is
the plainest outcome, in which nothing goes wrong and everything is as small as it can be: the record leaves it out, and
a replay gives it wherever the record has nothing. A draw with a single outcome is no draw and leaves no record.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from random import Random
from typing import Any, NamedTuple, Self, TypeVar

T = TypeVar("T")


class Decision(NamedTuple):
    """One recorded draw that was not 0: the nth, from 1, of its label in its stream, 0 < value < options."""

    stream: str
    label: str
    nth: int
    options: int
    value: int

    def __str__(self) -> str:
        return f"{self.stream}: {self.label} #{self.nth}: {self.value} of {self.options}"


class Stream:
    """The draws of one component, in order.

    `raw_random` draws a float in [0, 1) past the record, for those who keep a record of their own: policies, whose
    record is the schedule, and what leads to a `record`. What it gives in a replay means nothing.
    """

    __slots__ = ("_draws", "_random", "_subject", "name", "raw_random")

    raw_random: Callable[[], float]

    def __init__(self, name: str, source: Random) -> None:
        self.name = name
        self._subject = ""
        self._draws: list[tuple[str, int, int]] = []
        # Only `random()` is used: of all methods, the one whose numbers Python promises to keep for a seed.
        self._random: Callable[[], float] = source.random
        self.raw_random = source.random

    @property
    def drawn(self) -> int:
        """How many draws there were so far, those that gave 0 included."""
        return len(self._draws)

    def below(self, options: int, label: str) -> int:
        """Draw 0 <= x < options. options is at most 2**53."""
        assert 0 < options <= 1 << 53, options  # a float in [0, 1) has no more steps
        if options == 1:
            return 0
        value = int(self._random() * options)
        self._draws.append((self._subject + label, options, value))
        return value

    def between(self, low: int, high: int, label: str) -> int:
        """Draw low <= x <= high; low is the plain one."""
        return low + self.below(high - low + 1, label)

    def chance(self, probability: float, label: str) -> bool:
        """Draw True with the given probability; 0 and 1 are no draws. False is the plain one."""
        if probability <= 0.0:
            return False
        if probability >= 1.0:
            return True
        value = self._random() < probability
        self._draws.append((self._subject + label, 2, int(value)))
        return value

    def pick(self, options: Sequence[T], label: str) -> T:
        """Draw one of options, which must not be empty; the first is the plain one."""
        return options[self.below(len(options), label)]

    def record(self, options: int, label: str, proposed: int) -> int:
        """Record 0 <= proposed < options, which the caller drew from `raw_random`; a replay gives what was recorded.

        For decisions that hang together: how they were come by is not recorded, so each can be changed on its own.
        """
        assert 0 <= proposed < options, (label, proposed, options)
        if options > 1:
            self._draws.append((self._subject + label, options, proposed))
        return proposed

    def within(self, subject: str) -> Self:
        """Return this stream for draws about one subject, which then begins their labels.

        So the draws about one thing do not shift when those about another are left out. Both draw from one source into
        one record.
        """
        within = self.__class__.__new__(self.__class__)
        self._share(within)
        within._subject = f"{self._subject}{subject} "
        return within

    def _share(self, other: Self) -> None:
        """Let another stream draw from the same source into the same record."""
        other.name, other.raw_random = self.name, self.raw_random
        other._random, other._draws = self._random, self._draws

    def decisions(self) -> list[Decision]:
        """Return every draw so far that was not 0, in order."""
        return list(self._numbered(plain=False))

    def draws(self) -> Iterator[Decision]:
        """Yield every draw so far, those that gave 0 included, in order."""
        return self._numbered(plain=True)

    def _numbered(self, *, plain: bool) -> Iterator[Decision]:
        times: dict[str, int] = {}
        for label, options, value in self._draws:
            nth = times[label] = times.get(label, 0) + 1
            if value or plain:
                yield Decision(self.name, label, nth, options, value)


class ReplayedStream(Stream):
    """A stream that reads its draws from a record.

    Invariant: `_left` has the decisions that no draw has followed yet, by label and number.
    """

    __slots__ = ("_left", "_times", "changed")

    def __init__(self, name: str, record: Iterable[Decision]) -> None:
        super().__init__(name, Random(name))
        self._left = {(decision.label, decision.nth): decision for decision in record}
        self._times: dict[str, int] = {}
        self.changed: list[tuple[Decision, int]] = []
        """Decisions that were followed out of another number of options than was recorded, and out of how many."""

    def below(self, options: int, label: str) -> int:
        """Return what was recorded, 0 if nothing was or if it is not below options any more."""
        return 0 if options == 1 else self._next(label, options)

    def chance(self, probability: float, label: str) -> bool:
        """Return what was recorded, False if nothing was."""
        return self._next(label, 2) == 1 if 0.0 < probability < 1.0 else probability >= 1.0

    def record(self, options: int, label: str, proposed: int) -> int:
        """Return what was recorded, whatever is proposed; 0 as below() does."""
        return 0 if options == 1 else self._next(label, options)

    def _share(self, other: Self) -> None:
        super()._share(other)
        other._left, other._times, other.changed = self._left, self._times, self.changed

    def unmet(self) -> list[Decision]:
        """Return the decisions that no draw has followed: none asked, or had room for them."""
        return list(self._left.values())

    def _next(self, label: str, options: int) -> int:
        label = self._subject + label
        nth = self._times[label] = self._times.get(label, 0) + 1
        recorded = self._left.get((label, nth))
        value = 0
        if recorded is not None and recorded.value < options:
            value = recorded.value
            del self._left[label, nth]
            if recorded.options != options:
                self.changed.append((recorded, options))
        self._draws.append((label, options, value))
        return value


class Choices:
    """All streams of one run."""

    def __init__(self, seed: str) -> None:
        self._seed = seed
        self._record: dict[str, list[Decision]] | None = None
        self._streams: dict[str, Stream] = {}

    @classmethod
    def replaying(cls, decisions: Iterable[Decision]) -> "Choices":
        """Make choices that follow decisions wherever they are asked for, and are plain everywhere else."""
        choices = cls("")
        choices._record = {}
        for decision in decisions:
            choices._record.setdefault(decision.stream, []).append(decision)
        return choices

    def stream(self, name: str) -> Stream:
        """Return the stream of that name: the same object each time."""
        stream = self._streams.get(name)
        if stream is None:
            if self._record is None:
                stream = Stream(name, Random(f"{self._seed}/{name}"))
            else:
                stream = ReplayedStream(name, self._record.get(name, ()))
            self._streams[name] = stream
        return stream

    def decisions(self) -> list[Decision]:
        """Return every draw so far that was not 0, stream by stream in the order of their names."""
        return [decision for name in sorted(self._streams) for decision in self._streams[name].decisions()]

    def draws(self) -> Iterator[Decision]:
        """Yield every draw so far, those that gave 0 included, as decisions() has them."""
        for name in sorted(self._streams):
            yield from self._streams[name].draws()

    def unmet(self) -> list[Decision]:
        """Return the decisions of a replay that no draw has followed so far, in the order of decisions()."""
        found = []
        for name, record in sorted((self._record or {}).items()):
            stream = self._streams.get(name)
            found += stream.unmet() if isinstance(stream, ReplayedStream) else record
        return found

    def changed(self) -> list[tuple[Decision, int]]:
        """Return the decisions that a replay has followed out of another number of options, and out of how many."""
        streams = (self._streams[name] for name in sorted(self._streams))
        replayed = [stream for stream in streams if isinstance(stream, ReplayedStream)]
        return [change for stream in replayed for change in stream.changed]

    def recorded(self) -> dict[str, list[list[Any]]]:
        """Return decisions() for JSON: name -> [[label, nth, options, value], ...]; none for streams without any."""
        return recorded(self.decisions())


def recorded(decisions: Iterable[Decision]) -> dict[str, list[list[Any]]]:
    """Return decisions for JSON: stream -> [[label, nth, options, value], ...]."""
    found: dict[str, list[list[Any]]] = {}
    for stream, *entry in decisions:
        found.setdefault(stream, []).append(entry)
    return found


def decisions_of(record: Mapping[str, Iterable[Sequence[Any]]]) -> list[Decision]:
    """Return the decisions that `recorded` wrote down."""
    return [Decision(stream, *entry) for stream, entries in record.items() for entry in entries]
