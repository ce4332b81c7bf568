"""#18 reput-dies-on-error: one class of errors ends the dispatcher for good, while puts go on being acknowledged."""

from ...store.errors import StoreError
from ...store.queues.dispatch import DispatchService
from ..claims.plan import Ranges
from .mutant import Mutant, Patch


def _step(self: DispatchService) -> None:
    try:
        moved = self.dispatch_available()
    except StoreError as error:
        self.last_error = error
        self.pause(1_000)
        return
    if not moved:
        self.signal.wait(None)


def _narrow(ranges: Ranges) -> Ranges:
    return ranges.with_faults(failed_creation_chance=(0.2,))


MUTANT = Mutant(
    "reput-dies-on-error",
    "dispatch thread",
    "a file that cannot be made ends the dispatcher, and nothing becomes visible any more",
    (Patch(DispatchService, "step", _step),),
    _narrow,
    ("LIVE",),
)
