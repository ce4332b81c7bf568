"""Which kinds of fault may happen: those that a plan switches on, by what `kinds` says of each; those of crashes."""

from collections.abc import Collection, Iterator
from dataclasses import fields

from .crashes.profiles import CrashProfile
from .disk.changes import (
    Create,
    Empty,
    Extend,
    Link,
    MakeDirectory,
    RemoveDirectory,
    Rename,
    Truncate,
    Unlink,
)
from .kinds import KINDS
from .network_plan import NetworkPlan
from .plan import FaultPlan

_CHANGES = (Create, Extend, Empty, Truncate, Unlink, Rename, Link, MakeDirectory, RemoveDirectory)
_WRITES = ("store", "pwrite", "write")


def enabled_kinds(plan: FaultPlan | NetworkPlan) -> Iterator[str]:
    """Yield the names of the kinds of fault that a plan has happen.

    One that only comes with another, as a late sync error does with failed syncs, is not among them.
    """
    for field in fields(plan):
        if getattr(plan, field.name):
            yield from (kind.name for kind in KINDS if f"({field.name})" in kind.model)


def crash_kinds(operations: Collection[str], profiles: Collection[CrashProfile]) -> Iterator[str]:
    """Yield the names of what crashes may do to a disk on which there were operations of these kinds.

    profiles: those that crashes may be of. A kind may be yielded twice.
    """
    cuts = [profile for profile in profiles if not profile.page_cache_survives]
    if not cuts:
        return
    yield from (change.lost for change in _CHANGES if change.kind in operations)
    if any(kind in operations for kind in _WRITES):
        yield "page lost"
        if not all(profile.whole_pages for profile in cuts):
            yield "torn page"
        if any(profile.torn_bytes_chance for profile in cuts):
            yield "torn sector"
