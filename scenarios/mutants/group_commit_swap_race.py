"""#6 group-commit-swap-race: both sides lock a list, but one lays hold of it before that, and the other swaps it.

A producer that is overtaken by the swap waits until the walk is over and adds to a list that nobody looks at again.
"""

from dataclasses import replace

from ...store.log.flush import GroupCommitRequest, GroupCommitService
from ..claims.plan import Ranges
from .mutant import Mutant, Patch

commit = GroupCommitService.commit


def _submit(self: GroupCommitService, request: GroupCommitRequest) -> None:
    requests = self._requests
    with self._lock:
        closed = self._closed
        if not closed:
            requests.append(request)
    if closed:
        request.complete(self.flush_to(request.end_offset))
    else:
        self.signal.notify()


def _take_requests(self: GroupCommitService) -> list[GroupCommitRequest]:
    taken, self._requests = self._requests, []
    return taken


def _commit(self: GroupCommitService, requests: list[GroupCommitRequest]) -> None:
    with self._lock:
        commit(self, requests)
        requests.clear()


def _narrow(ranges: Ranges) -> Ranges:
    return replace(ranges, sync_flush=(True,), producers=(3,))


MUTANT = Mutant(
    "group-commit-swap-race",
    "group commit",
    "a request added to the list of the last round is forgotten",
    (
        Patch(GroupCommitService, "submit", _submit),
        Patch(GroupCommitService, "take_requests", _take_requests),
        Patch(GroupCommitService, "commit", _commit),
    ),
    _narrow,
    ("LIVE",),
)
