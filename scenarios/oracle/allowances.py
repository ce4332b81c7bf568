"""Allowances: the disk errors and delays after which the store may fail a check.

`faults.kinds` lists the failures that each fault permits after it was injected. Pauses are the exception, because no
record shows which operation a pause delayed. An error permits the failure of its operation, and refused requests until
that operation succeeds. Only a permanent error (see `needs_restart`) permits failures until the next restart. After the
last error, the store must reach the same state as without errors.
"""

from ...faults.disk.disk import Disk
from ...faults.kinds import Excuse, FaultKind
from ..claims.plan import Plan
from .invariants.live import may_disturb


def _kinds_with_excuse(excuse: Excuse) -> tuple[FaultKind, ...]:
    return tuple(kind for kind in FaultKind if excuse in kind.row.excuses)


SYNC_ERRORS, OTHER_ERRORS = _kinds_with_excuse(Excuse.SYNC_ERROR), _kinds_with_excuse(Excuse.ERROR)
OUT_OF_SPACE, DELAYS = _kinds_with_excuse(Excuse.NO_SPACE), _kinds_with_excuse(Excuse.DELAY)
_LASTING, _REVERTING = _kinds_with_excuse(Excuse.LASTING), _kinds_with_excuse(Excuse.REVERTED)


def count_sync_errors(disk: Disk) -> int:
    """Count failed syncs. Data written before a failed sync may not be durable."""
    return _count_kinds(disk, SYNC_ERRORS)


def count_errors(disk: Disk) -> int:
    """Count failed operations, except those on a full disk."""
    return _count_kinds(disk, SYNC_ERRORS) + _count_kinds(disk, OTHER_ERRORS)


def count_out_of_space(disk: Disk) -> int:
    """Count failed attempts to create or extend a file on a full disk."""
    return _count_kinds(disk, OUT_OF_SPACE)


def count_delays(disk: Disk, plan: Plan) -> int:
    """Count slow disk operations, plus one if tasks may have been paused."""
    return _count_kinds(disk, DELAYS) + may_disturb(plan)


def must_recover_without_restart(plan: Plan, disk: Disk) -> bool:
    """Return whether the store must recover from disk errors without a restart after the last request."""
    return plan.heals and plan.errors_stop and not (disk.has_transient_faults or needs_restart(disk))


def has_any_fault(disk: Disk) -> bool:

    return count_errors(disk) + count_out_of_space(disk) > 0


def has_only_space_errors(disk: Disk) -> bool:
    """Return whether a full disk caused every error. A store must open on such a disk."""
    return disk.injected["disk full"] == count_out_of_space(disk) + count_errors(disk) > 0


def needs_restart(disk: Disk) -> bool:
    """Return whether a disk had an error that lasts until the store restarts.

    A file system that shut down and a service that ended do not restart. Bytes that are unreadable or that a failed
    sync dropped stay lost until the store restarts.
    """
    return disk.is_stopped or has_reverted_data(disk) or _count_kinds(disk, _LASTING) > 0


def has_reverted_data(disk: Disk, path: str | None = None) -> bool:
    """Return whether a failed sync reverted data that readers had seen in the page cache."""
    return any(damage.kind in _REVERTING and path in (None, damage.path) for damage in disk.damage)


def _count_kinds(disk: Disk, kinds: tuple[FaultKind, ...]) -> int:
    injected = disk.injected
    return sum(injected[kind] for kind in kinds)
