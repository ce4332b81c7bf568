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


def _sql(text: str, *tiers: str) -> Subscription:
    """tiers: the values of `tier` in the messages that match by RocketMQ's rules; empty: no such property."""
    wanted = frozenset(tier.encode() for tier in tiers)
    return Subscription(SQL92, text, lambda has: _tier_of(has) in wanted)


EVERYTHING = Subscription(TAG, "*", lambda _: True)
_TAGS = (
    Subscription(TAG, "TagA || TagB", lambda has: _tag_of(has) in (b"TagA", b"TagB")),
    Subscription(TAG, " TagC|| ||", lambda has: _tag_of(has) == b"TagC"),
)
_SQL = (
    Subscription(SQL92, "tier BETWEEN 1 AND 2", lambda has: _number_of(has) in (1, 2)),
    Subscription(SQL92, "tier > 2 AND tier <= 11", lambda has: _number_of(has) in range(3, 12)),
    Subscription(SQL92, "NOT (tier >= 2)", lambda has: (number := _number_of(has)) is not None and number < 2),
    Subscription(SQL92, "tier IN ('1', '10') OR tier = 'gold'", lambda has: _tier_of(has) in (b"1", b"10", b"gold")),
    Subscription(SQL92, "TAGS = 'TagA' OR tier IS NULL", lambda has: _tag_of(has) == b"TagA" or not _tier_of(has)),
    _sql("tier NOT IN ('1', 'gold')", "-3", "0", "2", "10", "12"),
    _sql("tier NOT BETWEEN 0 AND 10", "-3", "12"),
    _sql("tier BETWEEN -3 AND 1.5", "-3", "0", "1"),
    _sql("tier IS NOT NULL AND tier <> '2'", "-3", "0", "1", "10", "12", "gold"),
    _sql("tier = 2.0 OR tier >= 1.05E1", "2", "12"),
    _sql("tier >= +0 AND (tier < .2E1 OR tier > 10)", "0", "1", "12"),
    _sql("tier > -2147483649 AND tier <= tier AND tier <> 12", "-3", "0", "1", "2", "10"),
    _sql("(tier > 1) = TRUE", "2", "10", "12"),
    # Boolean.valueOf regards each of these texts as false.
    _sql("tier = FALSE", "-3", "0", "1", "2", "10", "12", "gold"),
    # An unknown value on the right differs from a value. On the left, the comparison is unknown.
    _sql("NOT (2 = tier)", "", "-3", "0", "1", "10", "12"),
    _sql("tier OR tier = 'gold'", "gold"),  # a property alone is never true
    _sql("tier in ('it''s', 'gold') /* in lower case */ or False -- and a comment", "gold"),
)
SUBSCRIPTIONS = _TAGS + _SQL
_TAGS_CHANCE = 0.3

WRONG_SQL = (
    *("tier IN", "tier IN (1)", "1 IN ('1')", "tier NOT = 1", "tier IS 5", "tier = NULL", "TRUE = 1", "'a' AND tier"),
    *("tier > 'gold'", "tier < TRUE", "tier BETWEEN 2 AND 1", "tier BETWEEN 1 AND 'b'", "tier = 1 2", "(tier = 1"),
    *("tier > 9223372036854775808", "tier > 10000000000000000000", "tier < 0.0", "tier # 1", "NOT " * 65 + "tier = 1"),
)
"""Expressions that a broker refuses."""


def draw_subscription(stream: Stream, plan: Plan) -> Subscription:
    if not plan.consuming.filtered:
        return EVERYTHING
    return stream.choice(_TAGS if stream.chance(_TAGS_CHANCE, "by tags") else _SQL, "subscription")


def put_name(message: str, tries: int) -> str:
    """tries: the number of the send, from 1."""
    return message if tries == 1 else f"{message}~{tries}"


def message_name_of(put: str) -> str:
    return put.partition("~")[0]
