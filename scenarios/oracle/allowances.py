"""Allowances: the errors and delays of a disk that excuse the store. `faults.kinds` says which fault excuses what.

A fault excuses the store only after it was injected. Pauses are the exception: they leave no record at the operation
that they delay. An error excuses the operation that returned it, and refusals until that operation succeeds. It excuses
the rest of a life only if the error is permanent in that life (see `cannot_pass`). Once errors stop, the store must
reach the same final state as without them.
"""

from ...faults.disk.disk import Disk
from ...faults.kinds import Excuse, FaultKind
from ..claims.plan import Plan
from .invariants.live import may_disturb


def _excusing(excuse: Excuse) -> tuple[FaultKind, ...]:
    return tuple(kind for kind in FaultKind if excuse in kind.row.excuses)


SYNC_ERRORS, OTHER_ERRORS = _excusing(Excuse.SYNC_ERROR), _excusing(Excuse.ERROR)
WANTS_OF_SPACE, DELAYS = _excusing(Excuse.NO_SPACE), _excusing(Excuse.DELAY)
_LASTING, _REVERTING = _excusing(Excuse.LASTING), _excusing(Excuse.REVERTED)


def sync_errors(disk: Disk) -> int:
    """Return how many syncs have failed: after one, nothing that was written before it is known to be durable."""
    return _sum(disk, SYNC_ERRORS)


def errors(disk: Disk) -> int:
    """Return how many operations have failed for another reason than want of space."""
    return _sum(disk, SYNC_ERRORS) + _sum(disk, OTHER_ERRORS)


def wants_of_space(disk: Disk) -> int:
    """Return how often something could not be made or grow."""
    return _sum(disk, WANTS_OF_SPACE)


def delays(disk: Disk, plan: Plan) -> int:
    """Return how many operations have taken far longer than they should; one, if tasks may have been paused."""
    return _sum(disk, DELAYS) + may_disturb(plan)


def must_recover(plan: Plan, disk: Disk) -> bool:
    """Return whether a store has to recover from what its disk has done in the same life, once its users are done."""
    return plan.heals and plan.errors_stop and not cannot_pass(disk)


def has_met_any(disk: Disk) -> bool:
    """Return whether an operation has failed, for whatever reason."""
    return errors(disk) + wants_of_space(disk) > 0


def is_only_full(disk: Disk) -> bool:
    """Return whether a disk has been full, and has met no other error. A store has to open on it."""
    return disk.injected["disk full"] == wants_of_space(disk) + errors(disk) > 0


def cannot_pass(disk: Disk) -> bool:
    """Return whether a disk has done what no store gets over in the same life.

    A stopped file system stays so, and a service that has ended; bytes that a failed sync took out of the page cache,
    or that cannot be read, do not come back.
    """
    return disk.is_stopped or has_reverted(disk) or _sum(disk, _LASTING) > 0


def has_reverted(disk: Disk, path: str | None = None) -> bool:
    """Return whether a failed sync has taken back what readers had seen in the page cache, of one file or of any."""
    return any(damage.kind in _REVERTING and path in (None, damage.path) for damage in disk.damage)


def _sum(disk: Disk, kinds: tuple[FaultKind, ...]) -> int:
    injected = disk.injected
    return sum(injected[kind] for kind in kinds)
