"""#41 group-commit-lost-wakeup: the service clears its notice after it has taken the requests, not before.

A request that comes between the two is noticed with the next put, or never. RocketMQ's poll of 10 ms would hide it.
"""

from dataclasses import replace

from ...store.log.flush import GroupCommitService
from ..claims.plan import Ranges
from .mutant import Mutant, Patch


def _step(self: GroupCommitService) -> None:
    self.signal.wait(None)
    requests = self.take_requests()
    self.signal.wait(0)
    self.commit(requests)


def _narrow(ranges: Ranges) -> Ranges:
    return replace(
        ranges,
        sync_flush=(True,),
        producers=(2, 3),
        messages_each=(3,),
        pause_chance=(0.0,),
        lives=(3,),
        endings=("crash at rest",),
    )


MUTANT = Mutant(
    "group-commit-lost-wakeup",
    "group commit",
    "a put that arrives while the service takes its batch waits for the next put",
    (Patch(GroupCommitService, "step", _step),),
    _narrow,
    ("LIVE",),
)
