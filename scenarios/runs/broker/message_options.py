"""Subscriptions: select messages for a consumer group by tag and tier.

The code evaluates subscriptions on a message's properties, without the store's filters.
"""

from collections.abc import Callable
from typing import NamedTuple

from ....sim.choices import Stream
from ....store.broker.subscriptions import SQL92, TAG
from ...claims.plan import Plan
from ...oracle.reader import property_of


class Subscription(NamedTuple):
    """A group's subscription, the same for every topic."""

    kind: str
    text: str
    wants: Callable[[bytes], bool]


def _tag_of(properties: bytes) -> bytes:
    return property_of(properties, b"TAGS")


def _tier_of(properties: bytes) -> bytes:
    return property_of(properties, b"tier")


def _number_of(properties: bytes) -> int | None:
    """Return the tier if it is a number. An expression that compares another text with a number matches no message."""
    tier = _tier_of(properties)
    return int(tier) if tier.removeprefix(b"-").isdigit() else None


EVERYTHING = Subscription(TAG, "*", lambda _: True)
SUBSCRIPTIONS = (
    Subscription(TAG, "TagA || TagB", lambda has: _tag_of(has) in (b"TagA", b"TagB")),
    Subscription(TAG, "TagC", lambda has: _tag_of(has) == b"TagC"),
    Subscription(SQL92, "tier BETWEEN 1 AND 2", lambda has: _number_of(has) in (1, 2)),
    Subscription(SQL92, "tier > 2 AND tier <= 11", lambda has: _number_of(has) in range(3, 12)),
    Subscription(SQL92, "NOT (tier >= 2)", lambda has: (number := _number_of(has)) is not None and number < 2),
    Subscription(SQL92, "tier IN ('1', '10') OR tier = 'gold'", lambda has: _tier_of(has) in (b"1", b"10", b"gold")),
    Subscription(SQL92, "TAGS = 'TagA' OR tier IS NULL", lambda has: _tag_of(has) == b"TagA" or not _tier_of(has)),
)


def draw_subscription(stream: Stream, plan: Plan) -> Subscription:
    return stream.choice(SUBSCRIPTIONS, "subscription") if plan.consuming.filtered else EVERYTHING


def put_name(message: str, tries: int) -> str:
    """tries: the number of the send, from 1."""
    return message if tries == 1 else f"{message}~{tries}"


def message_name_of(put: str) -> str:
    return put.partition("~")[0]
