"""What goes wrong on one disk while it runs, and how often. Everything is off unless told otherwise.

Chances are per operation of the kind that the fault strikes; times are ms of virtual time. What each fault means is
said in `kinds`; what a crash takes is said in `profiles`.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FaultPlan:
    """The faults of a running disk."""

    failed_sync_chance: float = 0.0
    """Of a file's sync."""
    failed_directory_sync_chance: float = 0.0
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
    refused_lock_chance: float = 0.0
    """Of a map, not to be kept in memory by the system."""
    failed_creation_chance: float = 0.0
    """Of a new file, for want of space."""
    failed_extend_chance: float = 0.0
    """Of a file that grows, for want of space."""
    slow_io_chance: float = 0.0
    """Of a read, a map or a write through a descriptor, to take its time."""
    slow_io_ms_max: int = 1000
    stall_chance: float = 0.0
    """Of any operation that reaches the device, to stop the whole device for a while."""
    stall_ms_max: int = 5000
    lost_write_chance: float = 0.0
    """Of a page that a sync writes, never to arrive though the device says so."""
    misdirected_write_chance: float = 0.0
    """Of a page that a sync writes, to arrive at another page's place."""
    torn_bytes_chance: float = 0.0
    """Of a page torn by a power cut, to be torn inside a sector."""
    garbage_chance: float = 0.0
    """Of a sector that a power cut met in flight, to hold neither the old nor the new bytes."""
