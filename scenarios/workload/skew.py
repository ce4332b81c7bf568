"""Skew: how unevenly the users of one life spread over queues, keys and each other.

    even          every queue is as likely as any other, every producer puts all it has, keys are of all kinds
    hot queue     most messages go to one queue
    silent queue  one queue gets none in this life; others go on, and it has what earlier lives left in it
    lazy producer one producer puts the first of every few of its messages only
    same key      all messages that share a key share the same one
    same level    all messages that are delayed are delayed for as long

Real traffic is rarely even. Code that handles each queue, or the entries of one hash, meets its limits if one of them
is empty or has far more than the others.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from ...sim.choices import Stream
from ..claims.plan import Plan

_UNEVEN_CHANCE = 0.4
_LAZY_CHANCE = 0.2
_SAME_KEY_CHANCE = 0.5
_SAME_LEVEL_CHANCE = 0.4
_HOT_CHANCE = 0.85
_LAZY_TAKES_ONE_OF = 4
_KEYS_MAX = 64  # more than there are: the remainder counts
_LEVELS_MAX = 16  # likewise

Place = tuple[int, int]
"""The numbers of a topic and of a queue."""


@dataclass(frozen=True, slots=True)
class Skew:
    """How the users of one life are skewed. Each is as it says, or -1 and None for even ones."""

    hot: Place | None = None
    silent: Place | None = None
    lazy: int = -1
    """The number of a producer."""
    same_key: int = -1
    """The number of a key."""
    same_level: int = -1
    """The number of a delay level."""

    def place(self, stream: Stream, plan: Plan) -> Place:
        """Draw where a message goes."""
        if self.hot is not None and stream.chance(_HOT_CHANCE, "hot"):
            return self.hot
        place = (stream.below(plan.topics, "topic"), stream.below(plan.queues_per_topic, "queue"))
        return _next_place(place, plan) if place == self.silent else place

    def taken(self, producer: int, names: Sequence[str]) -> Sequence[str]:
        """Return which of its messages a producer puts."""
        return names[::_LAZY_TAKES_ONE_OF] if producer == self.lazy else names

    def key(self, stream: Stream, keys: Sequence[str]) -> str:
        """Draw one of the keys that messages share."""
        return keys[self.same_key % len(keys)] if self.same_key >= 0 else stream.pick(keys, "shared key")

    def level(self, stream: Stream, levels: Sequence[int]) -> int:
        """Draw one of the delay levels."""
        return levels[self.same_level % len(levels)] if self.same_level >= 0 else stream.pick(levels, "level")


EVEN = Skew()


def draw_skew(stream: Stream, plan: Plan) -> Skew:
    """Draw the skew of one life; the plain one is even."""
    hot = silent = None
    if plan.topics * plan.queues_per_topic > 1 and stream.chance(_UNEVEN_CHANCE, "uneven queues"):
        is_silent = stream.chance(0.5, "silent queue")
        place = (stream.below(plan.topics, "topic"), stream.below(plan.queues_per_topic, "queue"))
        hot, silent = (None, place) if is_silent else (place, None)
    lazy = same_key = same_level = -1
    if plan.producers > 1 and stream.chance(_LAZY_CHANCE, "lazy producer"):
        lazy = stream.below(plan.producers, "producer")
    if plan.index.keys_chance and stream.chance(_SAME_KEY_CHANCE, "same key"):
        same_key = stream.below(_KEYS_MAX, "key")
    if plan.delay.chance and stream.chance(_SAME_LEVEL_CHANCE, "same level"):
        same_level = stream.below(_LEVELS_MAX, "level")
    return Skew(hot, silent, lazy, same_key, same_level)


def _next_place(place: Place, plan: Plan) -> Place:
    number = (place[0] * plan.queues_per_topic + place[1] + 1) % (plan.topics * plan.queues_per_topic)
    return divmod(number, plan.queues_per_topic)
