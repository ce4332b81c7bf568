"""#37 ack-before-flush: a put is answered when its request is queued, not when the sync has covered it."""

from dataclasses import replace

from ...store.log.flush import GroupCommitRequest, GroupCommitService
from ..claims.plan import Ranges
from .mutant import Mutant, Patch


def _submit(self: GroupCommitService, request: GroupCommitRequest) -> None:
    with self._lock:
        self._requests.append(request)
    self.signal.notify()
    request.complete(True)


def _narrow(ranges: Ranges) -> Ranges:
    return replace(ranges, sync_flush=(True,))


MUTANT = Mutant(
    "ack-before-flush",
    "group commit",
    "a put is answered before anything was synced for it",
    (Patch(GroupCommitService, "submit", _submit),),
    _narrow,
    ("STATUS", "DUR"),
)
