"""Real versions of RocketMQ: the bugs that one has, put into the store together.

Beside the version itself, under its id, there are its bugs alone, each under its own, and the version without one of
them: `rocketmq-4.9.8-without-stale-tail-after-truncate`. Comparing these is how a broken promise finds its cause.
"""

from functools import cache

from ..mutant import Mutant
from .rocketmq_4_9_8 import ROCKETMQ_4_9_8
from .version import BugPresence, Fact, Version

__all__ = ["VERSIONS", "BugPresence", "Fact", "Version", "find_in_versions"]

VERSIONS: dict[str, Version] = {version.id: version for version in (ROCKETMQ_4_9_8,)}
"""By id."""

_WITHOUT = "-without-"


@cache
def find_in_versions(name: str) -> Mutant | None:
    """Return a version as one mutant, one without a member, or a member that the catalogue does not have."""
    version = VERSIONS.get(name)
    if version is not None:
        return version.mutant()
    head, _, member = name.partition(_WITHOUT)
    if head in VERSIONS and member in VERSIONS[head].members:
        return VERSIONS[head].mutant(without=member)
    return next((mutant for version in VERSIONS.values() for mutant in version.deviations if mutant.id == name), None)
