"""Disk usage: how full the store's disks are, and what follows. RocketMQ's isSpaceToDelete.

    used                                   what follows
    over disk_space_warning_level_ratio    puts are refused until it is back under the next mark; delete at once
    over disk_space_clean_forcibly_ratio   delete at once, whatever its age
    over disk_max_used_space_ratio         delete what has expired, whatever the hour

The log may lie on several disks: the one with the most room counts. The queues' disk counts on its own.
Source: RocketMQ UtilAll.getDiskPartitionSpaceUsedPercent, CleanCommitLogService.isSpaceToDelete.
"""

from errno import EDQUOT, ENOSPC
from typing import NamedTuple

from ..config import StoreConfig
from ..running_flags import Refusal, RunningFlags
from ..world import DiskSpace, Files

_UNKNOWN = -1.0
_PERCENT_MIN, _PERCENT_MAX = 10, 95


def used_ratio(space: DiskSpace) -> float:
    """Return the used part of what an ordinary user could use in all, from 0 to 1, rounded up to whole percents."""
    all_bytes = space.used_bytes + space.usable_bytes
    return -(-100 * space.used_bytes // all_bytes) / 100 if all_bytes else 1.0


def is_disk_full(error: Exception) -> bool:
    """Return whether an error says that there is no room for a file, or none left for this user."""
    return isinstance(error, OSError) and error.errno in (ENOSPC, EDQUOT)


class Pressure(NamedTuple):
    """What the disks ask for."""

    delete: bool
    """To delete what has expired, now."""
    at_once: bool
    """To delete whatever there is, the oldest first."""


class DiskWatermark:
    """Measures, and sets and takes back DISK_FULL, whose only other finder is a commit that has met no room."""

    def __init__(self, files: Files, config: StoreConfig, flags: RunningFlags) -> None:
        self._files = files
        self._config = config
        self._flags = flags

    def measure(self) -> Pressure:
        """Measure once. A disk that does not say how full it is asks for what has expired, and for no more."""
        config = self._config
        ratios = (
            min(self._ratio(directory) for directory in config.commit_log_directories),
            self._ratio(config.consume_queue_directory),
        )
        if max(ratios) > config.disk_space_warning_level_ratio:
            self._flags.refuse(Refusal.DISK_FULL)
        elif max(ratios) <= config.disk_space_clean_forcibly_ratio:
            self._flags.allow(Refusal.DISK_FULL)
        percent = min(max(config.disk_max_used_space_ratio, _PERCENT_MIN), _PERCENT_MAX)
        return Pressure(
            delete=any(ratio < 0 or ratio > percent / 100 for ratio in ratios),
            at_once=max(ratios) > config.disk_space_clean_forcibly_ratio,
        )

    def _ratio(self, path: str) -> float:
        try:
            return used_ratio(self._files.space(path))
        except OSError:
            return _UNKNOWN
