"""How full a disk counts as: RocketMQ's UtilAll.getDiskPartitionSpaceUsedPercent. And which error says that it is."""

from errno import EDQUOT, ENOSPC

from ..world import DiskSpace


def used_ratio(space: DiskSpace) -> float:
    """Return the used part of what an ordinary user could use in all, from 0 to 1, rounded up to whole percents."""
    all_bytes = space.used_bytes + space.usable_bytes
    return -(-100 * space.used_bytes // all_bytes) / 100 if all_bytes else 1.0


def is_disk_full(error: Exception) -> bool:
    """Return whether an error says that there is no room for a file, or none left for this user."""
    return isinstance(error, OSError) and error.errno in (ENOSPC, EDQUOT)
