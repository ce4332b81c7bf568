"""What goes wrong on one disk while it runs, and how often. Everything is off unless told otherwise.

Chances are per operation of the kind that the fault strikes; times are ms of virtual time. What each fault means is
said in `kinds`; what a crash takes is said in `profiles`.
"""

from dataclasses import dataclass, replace
from typing import Any

FAILING_SYNCS = ("ext4-ordered", "ext4-data", "xfs", "btrfs")
"""Whose way a sync fails in."""

_PASSING = (
    "failed_sync_chance",
    "failed_directory_sync_chance",
    "slow_sync_chance",
    "failed_write_chance",
    "short_write_chance",
    "failed_read_chance",
    "failed_map_chance",
    "failed_lookup_chance",
    "failed_creation_chance",
    "failed_extend_chance",
    "slow_io_chance",
    "stall_chance",
)
"""What an operation meets or does not, and the next one need not."""


@dataclass(frozen=True, slots=True)
class FaultPlan:
    """The faults of a running disk."""

    failed_sync_chance: float = 0.0
    """Of a file's sync."""
    failing_sync: str = "ext4-ordered"
    """What a failed sync leaves: one of FAILING_SYNCS, as `syncs` has them."""
    failed_directory_sync_chance: float = 0.0
    stopped_file_system_chance: float = 0.0
    """Of a sync that fails, of files and directories, to stop the whole file system, as when the journal fails."""
    lying_sync_chance: float = 0.0
    """Of a sync, of files and directories, to be acknowledged by a cache that forgets when the power goes."""
    slow_sync_chance: float = 0.0
    slow_sync_ms_max: int = 3000
    failed_write_chance: float = 0.0
    """Of a write through a descriptor."""
    short_write_chance: float = 0.0
    failed_read_chance: float = 0.0
    """Of reading a small file."""
    failed_map_chance: float = 0.0
    """Of opening a file to map it."""
    failed_lookup_chance: float = 0.0
    """Of listing a directory, or asking what is at a path."""
    refused_lock_chance: float = 0.0
    """Of a map, not to be kept in memory by the system."""
    failed_creation_chance: float = 0.0
    """Of a new file, for want of space."""
    failed_extend_chance: float = 0.0
    """Of a file that grows, for want of space."""
    sparse: bool = False
    """Whether a file that is made longer gets its blocks only when they are first written to."""
    slow_io_chance: float = 0.0
    """Of a read, a map, a look-up or a write through a descriptor, to take its time."""
    slow_io_ms_max: int = 1000
    stall_chance: float = 0.0
    """Of one of these or a sync, to find the whole device standing still."""
    stall_ms_max: int = 5000
    lost_write_chance: float = 0.0
    """Of a page that a sync writes, never to arrive though the device says so."""
    misdirected_write_chance: float = 0.0
    """Of a page that a sync writes, to arrive at another page's place."""
    torn_bytes_chance: float = 0.0
    """Of a page torn by a power cut, to be torn inside a sector."""
    garbage_chance: float = 0.0
    """Of a sector that a power cut met in flight, to hold neither the old nor the new bytes."""

    def healed(self) -> "FaultPlan":
        """Return what is left once operations neither fail nor are slow any more: lies, and what crashes do."""
        passing: dict[str, Any] = dict.fromkeys(_PASSING, 0.0)
        return replace(self, **passing)

    def __post_init__(self) -> None:
        if self.failing_sync not in FAILING_SYNCS:
            raise ValueError(
                f"failing_sync: expected one of {', '.join(FAILING_SYNCS)}, found {self.failing_sync}"
            )
