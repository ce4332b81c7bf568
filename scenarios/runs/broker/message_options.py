"""Options of a client's message: a tag and a tier, by which consumers filter, and how long it is to wait.

Whether a group wants a message is computed here from its properties, and not by the store's filters. Each time that a
producer sends a message it makes another put of it, with a name of its own.
"""

from collections.abc import Callable
from typing import NamedTuple

from ....sim.choices import Stream
from ....store.broker.subscriptions import SQL92, TAG
from ...claims.machine import DELAYS_MS
from ...claims.plan import Plan
from ...oracle.reader import property_of

_TAGS = ("", "TagA", "TagB", "TagC")
_TIERS = 4


class MessageOptions(NamedTuple):
    """What one message has beside its head; by default nothing."""

    tag: str = ""
    tier: int | None = None
    delay_level: int = 0
    """0: it is delivered at once."""

    @property
    def properties(self) -> dict[str, str]:
        """Return the properties that a message has of them."""
        named = {"TAGS": self.tag, "tier": "" if self.tier is None else str(self.tier)}
        if self.delay_level:
            named["DELAY"] = str(self.delay_level)
        return {name: value for name, value in named.items() if value}


class Subscription(NamedTuple):
    """What a group wants of every topic."""

    kind: str
    text: str
    wants: Callable[[bytes], bool]
    """Says so by a message's properties."""


def _tag(properties: bytes) -> bytes:
    return property_of(properties, b"TAGS")


def _tier(properties: bytes) -> bytes:
    return property_of(properties, b"tier")


EVERYTHING = Subscription(TAG, "*", lambda _: True)
_SUBSCRIPTIONS = (
    Subscription(TAG, "TagA || TagB", lambda has: _tag(has) in (b"TagA", b"TagB")),
    Subscription(TAG, "TagC", lambda has: _tag(has) == b"TagC"),
    Subscription(SQL92, "tier BETWEEN 1 AND 2", lambda has: _tier(has) in (b"1", b"2")),
    Subscription(SQL92, "TAGS = 'TagA' OR tier IS NULL", lambda has: _tag(has) == b"TagA" or not _tier(has)),
)


def draw_options(stream: Stream, plan: Plan, *, is_half: bool) -> MessageOptions:
    """Draw the options of one message; none that waits to be decided waits for a time, too."""
    tag, tier, delay_level = "", None, 0
    if plan.consuming.filtered:
        tag = stream.pick(_TAGS, "tag")
        tier = stream.pick((None, *range(_TIERS)), "tier")
    if not is_half and stream.chance(plan.delay.chance, "is delayed"):
        delay_level = stream.between(1, len(DELAYS_MS), "delay level")
    return MessageOptions(tag, tier, delay_level)


def draw_subscription(stream: Stream, plan: Plan) -> Subscription:
    """Draw what the group wants."""
    return stream.pick(_SUBSCRIPTIONS, "subscription") if plan.consuming.filtered else EVERYTHING


def body_of(name: str, size_bytes: int) -> bytes:
    """Return a body that begins with the message's name and differs from all others."""
    head = f"{name}|".encode()
    return (head * (size_bytes // len(head) + 1))[: max(size_bytes, len(head))]


def put_name(message: str, tries: int) -> str:
    """Return the name of the put for one send of a message, counted from 1."""
    return message if tries == 1 else f"{message}~{tries}"


def message_of(put: str) -> str:
    """Return the name of the message that a put sends."""
    return put.partition("~")[0]


def topic_of_users(number: int) -> str:
    """Return the name of a topic that producers send to."""
    return f"T{number}"
