"""Dispatch that never tries again: one error of the disk, and what is put from then on is seen by nobody.

Nothing says so, and puts go on being acknowledged. Its sibling, reput-dies-on-error, ends at what cannot be made;
this one at any error but want of space, which the disk need not ever show again.
"""

from ...store.errors import StoreError
from ...store.queues.dispatch import DispatchService
from ...store.retention.disk_usage import is_disk_full
from ..claims.plan import Ranges
from .mutant import Mutant, Patch


def _step(self: DispatchService) -> None:
    if self.last_error is not None and not is_disk_full(self.last_error):
        self.signal.wait(None)
        return
    try:
        moved = self.dispatch_available()
    except (StoreError, OSError) as error:
        self.last_error = error
        self.pause(1_000)
        return
    if not moved:
        self.signal.wait(None)


def _narrow(ranges: Ranges) -> Ranges:
    return ranges.with_faults(failed_map_chance=(0.1,))


MUTANT = Mutant(
    "reput-never-retries",
    "dispatch thread",
    "one error of the disk ends the dispatcher for good, though the next attempt would do",
    (Patch(DispatchService, "step", _step),),
    _narrow,
    ("LIVE",),
)
