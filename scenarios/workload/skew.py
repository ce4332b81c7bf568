"""Skew: the uneven spread of messages over queues, keys, delay levels and producers.

    even          every queue is equally likely, every producer puts all its messages, keys are of all kinds
    hot queue     most messages go to one queue
    silent queue  one queue gets no message until the next restart, but may have earlier ones
    lazy producer one producer puts only one in every few of its messages
    same key      all messages with a shared key have the same one
    same level    all delayed messages have the same delay level

Code that works per queue or per hash reaches its limits if one queue or hash has no entries or far more than others.
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
_KEYS_MAX = 64  # more than the number of keys, because the remainder is used
_LEVELS_MAX = 16  # likewise

Place = tuple[int, int]
"""Topic number and queue number."""


@dataclass(frozen=True, slots=True)
class Skew:
    """The skew of the messages until the next stop. A field of -1 or None means an even distribution."""

    hot: Place | None = None
    silent: Place | None = None
    lazy: int = -1
    same_key: int = -1
    same_level: int = -1

    def draw_place(self, stream: Stream, plan: Plan) -> Place:
        if self.hot is not None and stream.chance(_HOT_CHANCE, "hot"):
            return self.hot
        place = (stream.randbelow(plan.topics, "topic"), stream.randbelow(plan.queues_per_topic, "queue"))
        return _place_in_turn(place, plan) if place == self.silent else place

    def names_to_put(self, producer: int, names: Sequence[str]) -> Sequence[str]:
        return names[::_LAZY_TAKES_ONE_OF] if producer == self.lazy else names

    def key(self, stream: Stream, keys: Sequence[str]) -> str:
        return keys[self.same_key % len(keys)] if self.same_key >= 0 else stream.choice(keys, "shared key")

    def level(self, stream: Stream, levels: Sequence[int]) -> int:
        return levels[self.same_level % len(levels)] if self.same_level >= 0 else stream.choice(levels, "level")


EVEN = Skew()


def draw_skew(stream: Stream, plan: Plan) -> Skew:
    hot = silent = None
    if plan.topics * plan.queues_per_topic > 1 and stream.chance(_UNEVEN_CHANCE, "uneven queues"):
        is_silent = stream.chance(0.5, "silent queue")
        place = (stream.randbelow(plan.topics, "topic"), stream.randbelow(plan.queues_per_topic, "queue"))
        hot, silent = (None, place) if is_silent else (place, None)
    lazy = same_key = same_level = -1
    if plan.producers > 1 and stream.chance(_LAZY_CHANCE, "lazy producer"):
        lazy = stream.randbelow(plan.producers, "producer")
    if plan.index.keys_chance and stream.chance(_SAME_KEY_CHANCE, "same key"):
        same_key = stream.randbelow(_KEYS_MAX, "key")
    if plan.delay.chance and stream.chance(_SAME_LEVEL_CHANCE, "same level"):
        same_level = stream.randbelow(_LEVELS_MAX, "level")
    return Skew(hot, silent, lazy, same_key, same_level)


def _place_in_turn(place: Place, plan: Plan) -> Place:
    number = (place[0] * plan.queues_per_topic + place[1] + 1) % (plan.topics * plan.queues_per_topic)
    return divmod(number, plan.queues_per_topic)
