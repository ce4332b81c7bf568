"""Choices: everything left to chance, drawn from one stream per component and recorded.

The record is the truth, the seed only its origin: a replay reads the record. Draws carry labels, so that a
record that no longer fits says where. Only `random.Random.random()` is used, the one generator Python
promises to keep. A draw with a single possible outcome is no draw and leaves no record.
"""

from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any, TypeVar

from .errors import ReplayDivergedError as ReplayDivergedError

T = TypeVar("T")


class Stream:
    """The draws of one component, in order.

    `unrecorded` draws a float in [0, 1) past the record, for those who keep a record of their own (policies:
    the schedule). A replay has none to give and raises ReplayDivergedError.
    """

    __slots__ = ("_draws", "_random", "name", "unrecorded")

    unrecorded: Callable[[], float]

    def __init__(self, name: str, source: Random) -> None:
        self.name = name
        self._draws: list[tuple[str, int | float, int]] = []
        self._random: Callable[[], float] = source.random
        self.unrecorded = source.random

    def below(self, options: int, label: str) -> int:
        """Draw 0 <= x < options. options is at most 2**53."""
        assert 0 < options <= 1 << 53, options
        if options == 1:
            return 0
        value = int(self._random() * options)
        self._draws.append((label, options, value))
        return value

    def between(self, low: int, high: int, label: str) -> int:
        """Draw low <= x <= high."""
        return low + self.below(high - low + 1, label)

    def chance(self, probability: float, label: str) -> bool:
        """Draw True with the given probability; 0 and 1 are no draws."""
        if probability <= 0.0:
            return False
        if probability >= 1.0:
            return True
        value = self._random() < probability
        self._draws.append((label, probability, int(value)))
        return value

    def pick(self, options: Sequence[T], label: str) -> T:
        """Draw one of options, which must not be empty."""
        return options[self.below(len(options), label)]

    def recorded(self) -> list[list[Any]]:
        """Return [label, options, value] of every draw; of a chance, options is the probability."""
        return [list(draw) for draw in self._draws]


class ReplayedStream(Stream):
    """A stream that reads its draws from a record."""

    __slots__ = ("_choices", "_record")

    def __init__(self, name: str, record: Sequence[Sequence[Any]], choices: "Choices") -> None:
        super().__init__(name, Random(name))
        self._record = record
        self._choices = choices
        self.unrecorded = self._refuse_unrecorded

    def below(self, options: int, label: str) -> int:
        """Return the recorded draw. Raises ReplayDivergedError if label or options differ from the record's."""
        return 0 if options == 1 else self._next(label, options)

    def chance(self, probability: float, label: str) -> bool:
        """Return the recorded draw. Raises ReplayDivergedError as below() does."""
        return self._next(label, probability) == 1 if 0.0 < probability < 1.0 else probability >= 1.0

    def _next(self, label: str, options: int | float) -> int:
        index = len(self._draws)
        if index >= len(self._record):
            raise self._diverged(index, "the end", (label, options))
        recorded_label, recorded_options, value = self._record[index]
        if recorded_label != label or recorded_options != options:
            raise self._diverged(index, (recorded_label, recorded_options), (label, options))
        self._draws.append((label, options, value))
        return int(value)

    def _refuse_unrecorded(self) -> float:
        raise self._diverged(len(self._draws), "nothing", "an unrecorded draw")

    def _diverged(self, index: int, recorded: object, found: object) -> ReplayDivergedError:
        error = ReplayDivergedError(f"stream {self.name}", index, recorded, found)
        if self._choices.divergence is None:
            self._choices.divergence = error
        return error


class Choices:
    """All streams of one run.

    `divergence` keeps the first ReplayDivergedError, for code under test may swallow it.
    """

    def __init__(self, seed: str) -> None:
        self.divergence: ReplayDivergedError | None = None
        self._seed = seed
        self._record: Mapping[str, list[list[Any]]] | None = None
        self._streams: dict[str, Stream] = {}

    @classmethod
    def replaying(cls, recorded: Mapping[str, list[list[Any]]]) -> "Choices":
        """Make choices that repeat what `recorded()` returned, also after a journey through JSON."""
        choices = cls("")
        choices._record = recorded
        return choices

    def stream(self, name: str) -> Stream:
        """Return the stream of that name: the same object each time."""
        stream = self._streams.get(name)
        if stream is None:
            if self._record is None:
                stream = Stream(name, Random(f"{self._seed}/{name}"))
            else:
                stream = ReplayedStream(name, self._record.get(name, []), self)
            self._streams[name] = stream
        return stream

    def recorded(self) -> dict[str, list[list[Any]]]:
        """Return every draw so far as name -> [[label, options, value], ...], ready for JSON."""
        return {name: stream.recorded() for name, stream in self._streams.items()}
