"""Fault plans: what goes wrong on one disk and on one network, and how often. Everything is off by default.

Chances are per operation of the kind that the fault strikes, on a network per transmission over a link: bytes handed
over at once, one direction of making a connection or of ending it. Times are of virtual time. What each fault means is
said in `kinds`; what a crash takes is said in `crashes.profiles`.
"""

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from typing import Any

from .kinds import FaultKind

FAILING_SYNCS = ("ext4-ordered", "ext4-data", "xfs", "btrfs")
"""Whose way a sync fails in."""
_PASSING = (
    *("failed_sync_chance", "failed_write_back_chance", "failed_directory_sync_chance", "slow_sync_chance"),
    *("failed_write_chance", "short_write_chance", "failed_read_chance", "failed_map_chance", "failed_lookup_chance"),
    *("failed_removal_chance", "failed_rename_chance", "failed_page_in_chance", "slow_page_in_chance"),
    *("failed_creation_chance", "failed_extend_chance", "slow_io_chance", "stall_chance"),
)
"""What an operation meets or does not, and the next one need not."""


@dataclass(frozen=True, slots=True)
class FaultPlan:
    """The faults of a running disk."""

    failed_sync_chance: float = 0.0
    """Of a file's sync."""
    failing_sync: str = "ext4-ordered"
    """What a failed sync leaves: one of FAILING_SYNCS, as `syncs` has them."""
    failed_write_back_chance: float = 0.0
    """Of a file's sync, to be the first that hears of a page that could not be written back before."""
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
    failed_page_in_chance: float = 0.0
    """Of a look through a map at pages that the system may have let go, by those whom it is to strike."""
    failed_removal_chance: float = 0.0
    """Of removing a file's name."""
    failed_rename_chance: float = 0.0
    """Of giving a file another name."""
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
    slow_page_in_chance: float = 0.0
    """As failed_page_in_chance, to take its time: log-uniform, up to slow_io_ms_max."""
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
            expected = ", ".join(FAILING_SYNCS)
            raise ValueError(f"failing_sync: expected one of {expected}, found {self.failing_sync}")


@dataclass(frozen=True, slots=True)
class NetworkPlan:
    """The condition of a network's links, and the faults that happen to them."""

    latency_us_min: int = 50
    latency_us_max: int = 50
    """How long what meets no trouble is under way, one way."""
    split_chance: float = 0.0
    """Of bytes sent at once, to arrive in two pieces, the second a delay later."""
    late_chance: float = 0.0
    late_ms_max: int = 3_000
    partition_chance: float = 0.0
    """Of a transmission, to meet a partition that begins with it, in both directions."""
    one_way_chance: float = 0.0
    """Of a transmission, to find its direction of the link blocked from now on, while the other goes on."""
    partition_ms_max: int = 30_000
    """Of both."""
    slow_link_chance: float = 0.0
    """Of a transmission, to be the first over a link that has slowed down."""
    slow_link_ms_max: int = 10_000
    slow_link_bytes_per_s: int = 2_000
    broken_chance: float = 0.0
    """Of bytes sent, to meet somebody who resets the connection."""
    half_open_chance: float = 0.0
    """Of bytes sent, to be the first that are lost for good, without a word to either end."""
    refused_chance: float = 0.0
    """Of a connection that could be made."""
    failed_poll_chance: float = 0.0
    """Of a wait for many connections at once."""
    silent_death_chance: float = 0.0
    """Of a machine that dies, to be off, where nobody has said how it dies."""
    reset_at_death_chance: float = 0.0
    """Of a connection whose process dies, to be reset rather than ended."""

    def __post_init__(self) -> None:
        if not 0 < self.latency_us_min <= self.latency_us_max:
            found = f"{self.latency_us_min} and {self.latency_us_max}"
            raise ValueError(f"latency_us: expected 0 < min <= max, found {found}")
        if self.slow_link_bytes_per_s <= 0:
            found = str(self.slow_link_bytes_per_s)
            raise ValueError(f"slow_link_bytes_per_s: expected more than 0, found {found}")


def enabled_kinds(plan: FaultPlan | NetworkPlan) -> Iterator[str]:
    """Yield the names of the kinds of fault that a plan has happen.

    One that only comes with another, as a late sync error does with failed syncs, is not among them.
    """
    for field in fields(plan):
        if getattr(plan, field.name):
            yield from (kind.value for kind in FaultKind if f"({field.name})" in kind.model)
