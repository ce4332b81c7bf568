"""What a disk has done that excuses a store: errors it was given, and waits.

An excuse counts once the fault has fired, not because it might; but for pauses, which leave no trace where they strike.
"""

from ...faults.disk import Disk
from ..plan import Plan

SYNC_ERRORS = ("failed sync", "late sync error", "failed directory sync", "stopped file system")
OTHER_ERRORS = (
    "failed write",
    "failed read",
    "failed map",
    "failed look-up",
    "latent sector error",
    "hole without room",
)
WANTS_OF_SPACE = ("failed creation", "failed extend", "disk full")
DELAYS = ("slow sync", "slow IO", "stalled device")


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
    return _sum(disk, DELAYS) + (not plan.disturbances.is_quiet or plan.starved_steps_max > 0)


def has_reverted(disk: Disk, path: str | None = None) -> bool:
    """Return whether a failed sync has taken back what readers had seen in the page cache, of one file or of any."""
    return any(damage.kind == "failed sync" and path in (None, damage.path) for damage in disk.damage)


def _sum(disk: Disk, kinds: tuple[str, ...]) -> int:
    fired = disk.fired
    return sum(fired[kind] for kind in kinds)
