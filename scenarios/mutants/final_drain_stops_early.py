"""#46 final-drain-stops-early: a stop commits what is there and ends the committer before puts are refused.

A put that is answered between the two has its bytes in the buffer only; the exit is not clean, or the put is lost.
"""

from dataclasses import replace

from ...store.message_store import MessageStore
from ..claims.plan import Ranges
from .mutant import Mutant, Patch

shutdown = MessageStore.shutdown


def _shutdown(self: MessageStore) -> bool:
    if self.commit is not None:
        self.commit.shutdown()
    return shutdown(self)


def _narrow(ranges: Ranges) -> Ranges:
    return replace(
        ranges,
        sync_flush=(False,),
        transient_pool=(True,),
        producers=(2, 3),
        messages_each=(8, 16),
        endings=("stop in traffic",),
    )


MUTANT = Mutant(
    "final-drain-stops-early",
    "shutdown",
    "with a buffer in front of the log, the last commit of a stop comes before the last put",
    (Patch(MessageStore, "shutdown", _shutdown),),
    _narrow,
    ("DUR", "LIVE"),
)
