"""Real versions of RocketMQ: all bugs of a version, applied together.

A version has three kinds of mutants: the whole version, each of its bugs alone, and the version without one bug
(`rocketmq-4.9.8-without-stale-tail-after-truncate`). Comparing runs of these mutants reveals the cause of a violation.
"""

from functools import cache

from ..mutant import Mutant
from ..version import Version
from .rocketmq_4_9_8 import ROCKETMQ_4_9_8

VERSIONS: dict[str, Version] = {version.id: version for version in (ROCKETMQ_4_9_8,)}

_WITHOUT = "-without-"


@cache
def find_in_versions(name: str) -> Mutant | None:
    version = VERSIONS.get(name)
    if version is not None:
        return version.mutant()
    head, _, member = name.partition(_WITHOUT)
    if head in VERSIONS and member in VERSIONS[head].members:
        return VERSIONS[head].mutant(without=member)
    return next((mutant for version in VERSIONS.values() for mutant in version.deviations if mutant.id == name), None)
