"""Choices: random draws from one recorded stream per component.

A seeded run records its draws, and a replay reads the record. Stream, label and the label's occurrence number identify
a draw, so a record stays valid when other code makes more or fewer draws. 0 is the plain outcome: no fault, or the
smallest size. The record omits draws of 0, and a replay returns 0 for missing entries. A draw with one possible outcome
is not recorded.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from random import Random
from typing import Any, NamedTuple, Self, TypeVar

T = TypeVar("T")


class Decision(NamedTuple):
    """One recorded draw, 0 < value < options. nth counts the stream's draws with this label, from 1."""

    stream: str
    label: str
    nth: int
    options: int
    value: int

    def __str__(self) -> str:
        return f"{self.stream}: {self.label} #{self.nth}: {self.value} of {self.options}"


class Stream:
    """The random draws of one component.

    `raw_random` draws a float in [0, 1) without recording it. The caller records the result as a schedule or with
    `record_draw`. In a replay these floats are meaningless.
    """

    __slots__ = ("_draws", "_random", "_subject", "name", "raw_random")

    raw_random: Callable[[], float]

    def __init__(self, name: str, source: Random) -> None:
        self.name = name
        self._subject = ""
        self._draws: list[tuple[str, int, int]] = []
        # Python guarantees the same numbers for a seed in every version only for `random()`.
        self._random: Callable[[], float] = source.random
        self.raw_random = source.random

    @property
    def draw_count(self) -> int:
        return len(self._draws)

    def randbelow(self, options: int, label: str) -> int:
        assert 0 < options <= 1 << 53, options  # a float in [0, 1) has no more than 2**53 values
        if options == 1:
            return 0
        value = int(self._random() * options)
        self._draws.append((self._subject + label, options, value))
        return value

    def randint(self, low: int, high: int, label: str) -> int:
        """Draw low <= x <= high. The plain outcome is low."""
        return low + self.randbelow(high - low + 1, label)

    def chance(self, probability: float, label: str) -> bool:
        """Draw True with the given probability. The plain outcome is False."""
        if probability <= 0.0:
            return False
        if probability >= 1.0:
            return True
        value = self._random() < probability
        self._draws.append((self._subject + label, 2, int(value)))
        return value

    def choice(self, options: Sequence[T], label: str) -> T:
        """Draw one of options, at least one. The plain outcome is the first."""
        return options[self.randbelow(len(options), label)]

    def record_draw(self, options: int, label: str, proposed: int) -> int:
        """Record 0 <= proposed < options, drawn with `raw_random`. A replay returns the recorded value.

        Use this for decisions that depend on one another, so that a record can change each decision alone.
        """
        assert 0 <= proposed < options, (label, proposed, options)
        if options > 1:
            self._draws.append((self._subject + label, options, proposed))
        return proposed

    def with_subject(self, subject: str) -> Self:
        """Return a view of this stream that prefixes each label with the subject.

        Draws for one subject then do not shift draws for another. The view shares the source and record of this stream.
        """
        within = self.__class__.__new__(self.__class__)
        self._share_record_with(within)
        within._subject = f"{self._subject}{subject} "
        return within

    def _share_record_with(self, other: Self) -> None:
        other.name, other.raw_random = self.name, self.raw_random
        other._random, other._draws = self._random, self._draws

    def decisions(self) -> list[Decision]:
        """Return the draws that were not 0, in time order."""
        return list(self._numbered_decisions(plain=False))

    def draws(self) -> Iterator[Decision]:
        return self._numbered_decisions(plain=True)

    def _numbered_decisions(self, *, plain: bool) -> Iterator[Decision]:
        times: dict[str, int] = {}
        for label, options, value in self._draws:
            nth = times[label] = times.get(label, 0) + 1
            if value or plain:
                yield Decision(self.name, label, nth, options, value)


class ReplayedStream(Stream):
    """A stream that reads its draws from a record. Invariant: `_left` contains the unused decisions."""

    __slots__ = ("_left", "_times", "changed")

    def __init__(self, name: str, record: Iterable[Decision]) -> None:
        super().__init__(name, Random(name))
        self._left = {(decision.label, decision.nth): decision for decision in record}
        self._times: dict[str, int] = {}
        self.changed: list[tuple[Decision, int]] = []
        """(recorded draw, new number of options) of each draw with a changed number of options."""

    def randbelow(self, options: int, label: str) -> int:
        """Return the recorded value, 0 if it is missing or not below options."""
        return 0 if options == 1 else self._take_recorded_value(label, options)

    def chance(self, probability: float, label: str) -> bool:
        return self._take_recorded_value(label, 2) == 1 if 0.0 < probability < 1.0 else probability >= 1.0

    def record_draw(self, options: int, label: str, proposed: int) -> int:
        return 0 if options == 1 else self._take_recorded_value(label, options)

    def _share_record_with(self, other: Self) -> None:
        super()._share_record_with(other)
        other._left, other._times, other.changed = self._left, self._times, self.changed

    def unused_decisions(self) -> list[Decision]:
        """Return the decisions without a draw, or with too few options in it."""
        return list(self._left.values())

    def _take_recorded_value(self, label: str, options: int) -> int:
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
    def for_replay(cls, decisions: Iterable[Decision]) -> "Choices":
        """Make choices that replay these decisions. All other draws return the plain outcome."""
        choices = cls("")
        choices._record = {}
        for decision in decisions:
            choices._record.setdefault(decision.stream, []).append(decision)
        return choices

    def stream(self, name: str) -> Stream:
        stream = self._streams.get(name)
        if stream is None:
            if self._record is None:
                stream = Stream(name, Random(f"{self._seed}/{name}"))
            else:
                stream = ReplayedStream(name, self._record.get(name, ()))
            self._streams[name] = stream
        return stream

    def decisions(self) -> list[Decision]:
        return [decision for name in sorted(self._streams) for decision in self._streams[name].decisions()]

    def draws(self) -> Iterator[Decision]:
        for name in sorted(self._streams):
            yield from self._streams[name].draws()

    def unused_decisions(self) -> list[Decision]:
        found = []
        for name, record in sorted((self._record or {}).items()):
            stream = self._streams.get(name)
            found += stream.unused_decisions() if isinstance(stream, ReplayedStream) else record
        return found

    def changed_draws(self) -> list[tuple[Decision, int]]:
        """Return (decision, new number of options) of each draw with a changed number of options."""
        streams = (self._streams[name] for name in sorted(self._streams))
        replayed = [stream for stream in streams if isinstance(stream, ReplayedStream)]
        return [change for stream in replayed for change in stream.changed]

    def to_record(self) -> dict[str, list[list[Any]]]:
        return decisions_to_record(self.decisions())


def decisions_to_record(decisions: Iterable[Decision]) -> dict[str, list[list[Any]]]:
    """Return decisions for JSON: stream -> [[label, nth, options, value], ...]."""
    found: dict[str, list[list[Any]]] = {}
    for stream, *entry in decisions:
        found.setdefault(stream, []).append(entry)
    return found


def decisions_from_record(record: Mapping[str, Iterable[Sequence[Any]]]) -> list[Decision]:
    return [Decision(stream, *entry) for stream, entries in record.items() for entry in entries]
