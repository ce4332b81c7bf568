"""Options of a client's message: a tag and a tier, by which consumers filter, and how long it is to wait.

Who wants a message is computed here from what was drawn for it, and not by the store's filters.
"""

from collections.abc import Callable
from typing import NamedTuple

from ....sim.choices import Stream
from ....store.broker.subscriptions import SQL92, TAG
from ...claims.machine import DELAYS_MS
from ...claims.plan import Plan

_TAGS = ("", "TagA", "TagB", "TagC")
_TIERS = 4


class MessageOptions(NamedTuple):
    """What one message has beside its head; by default nothing."""

    tag: str = ""
    tier: int | None = None
    delay_level: int = 0
    """0: it is delivered at once."""

    @property
    def properties(self) -> str:
        """Return it as a send has it."""
        named = {"TAGS": self.tag, "tier": "" if self.tier is None else str(self.tier)}
        if self.delay_level:
            named["DELAY"] = str(self.delay_level)
        return "".join(f"{name}\x01{value}\x02" for name, value in named.items() if value)

    @property
    def delay_ms(self) -> int:
        """Return for how long it has to wait."""
        return DELAYS_MS[self.delay_level] if self.delay_level else 0


PLAIN_OPTIONS = MessageOptions()


class Subscription(NamedTuple):
    """What a group wants of every topic."""

    kind: str
    text: str
    wants: Callable[[MessageOptions], bool]


EVERYTHING = Subscription(TAG, "*", lambda options: True)
_SUBSCRIPTIONS = (
    Subscription(TAG, "TagA || TagB", lambda options: options.tag in ("TagA", "TagB")),
    Subscription(TAG, "TagC", lambda options: options.tag == "TagC"),
    Subscription(SQL92, "tier BETWEEN 1 AND 2", lambda options: options.tier in (1, 2)),
    Subscription(SQL92, "TAGS = 'TagA' OR tier IS NULL", lambda options: options.tag == "TagA" or options.tier is None),
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
