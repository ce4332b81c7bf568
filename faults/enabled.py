"""Which kinds of fault a plan switches on, by what `kinds` says of each."""

from collections.abc import Iterator
from dataclasses import fields

from .kinds import KINDS
from .network_plan import NetworkPlan
from .plan import FaultPlan


def enabled_kinds(plan: FaultPlan | NetworkPlan) -> Iterator[str]:
    """Yield the names of the kinds of fault that a plan has happen.

    One that only comes with another, as a late sync error does with failed syncs, is not among them.
    """
    for field in fields(plan):
        if getattr(plan, field.name):
            yield from (kind.name for kind in KINDS if f"({field.name})" in kind.model)
