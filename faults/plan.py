"""Fault plans: chances of faults on one disk or one network, 0 by default.

`kinds` explains each fault. On a disk, a chance is per operation to which the fault applies, see `kinds`. On a network,
a chance is per transmission over a link: bytes sent at once, or one direction of opening or closing a connection. Times
are virtual.

Maximum durations are fields, because stored plans contain them, and tests and users' scenarios need stalls shorter and
longer than a timeout.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from typing import Any, TypeVar

from .kinds import FaultKind

AnyPlan = TypeVar("AnyPlan", "FaultPlan", "NetworkPlan")
FAILING_SYNCS = ("ext4-ordered", "ext4-data", "xfs", "btrfs")
"""File systems with a model of failed syncs."""
SYNC_ERRORS = ("EIO", "ENOSPC", "EDQUOT")
"""Errors of failed syncs, by their names in `errno`."""
SPACE_ERRORS = ("ENOSPC", "EDQUOT")
"""Errors of operations without space, by their names in `errno`."""


@dataclass(frozen=True, slots=True)
class FaultPlan:
    """The faults of one disk."""

    failed_sync_chance: float = 0.0
    failing_sync: str = "ext4-ordered"
    """The file system, one of FAILING_SYNCS, whose rules apply after a failed sync (`disk.syncs`)."""
    sync_error: str = "EIO"
    """The error of failed syncs, one of SYNC_ERRORS. A full disk or quota can fail the allocation in a write-back."""
    space_error: str = "ENOSPC"
    """The error of operations that find no space, one of SPACE_ERRORS. EDQUOT: the user's quota is full."""
    failed_write_back_chance: float = 0.0
    """Chance per sync of a file, which then reports a failed background write-back of a page."""
    failed_directory_sync_chance: float = 0.0
    stopped_file_system_chance: float = 0.0
    lying_sync_chance: float = 0.0
    slow_sync_chance: float = 0.0
    slow_sync_ms_max: int = 3000
    failed_write_chance: float = 0.0
    short_write_chance: float = 0.0
    failed_read_chance: float = 0.0
    failed_map_chance: float = 0.0
    failed_lookup_chance: float = 0.0
    failed_space_query_chance: float = 0.0
    failed_page_in_chance: float = 0.0
    """Chance per view of clean mapped pages, in tasks selected by `limit_page_ins_to` or `with_page_ins`."""
    failed_removal_chance: float = 0.0
    failed_rename_chance: float = 0.0
    refused_lock_chance: float = 0.0
    failed_creation_chance: float = 0.0
    failed_extend_chance: float = 0.0
    sparse: bool = False
    """Whether a growing file gets a block only when data is first written there."""
    slow_io_chance: float = 0.0
    slow_io_ms_max: int = 1000
    slow_page_in_chance: float = 0.0
    """Chance as for failed_page_in_chance. The delay is at most slow_io_ms_max."""
    stall_chance: float = 0.0
    """Chance per sync, and per operation that slow_io_chance can slow."""
    stall_ms_max: int = 5000
    lost_write_chance: float = 0.0
    misdirected_write_chance: float = 0.0
    torn_bytes_chance: float = 0.0
    garbage_chance: float = 0.0

    def __post_init__(self) -> None:
        for name, found, known in (
            ("failing_sync", self.failing_sync, FAILING_SYNCS),
            ("sync_error", self.sync_error, SYNC_ERRORS),
            ("space_error", self.space_error, SPACE_ERRORS),
        ):
            if found not in known:
                raise ValueError(f"{name}: expected one of {', '.join(known)}, found {found}")


NO_FAULTS = FaultPlan()


@dataclass(frozen=True, slots=True)
class NetworkPlan:
    """Latency and faults of the links of a network."""

    latency_us_min: int = 50
    latency_us_max: int = 50
    """Maximum one-way latency of a message without a fault."""
    split_chance: float = 0.0
    late_chance: float = 0.0
    late_ms_max: int = 3_000
    partition_chance: float = 0.0
    one_way_chance: float = 0.0
    partition_ms_max: int = 30_000
    """Maximum duration of partitions and one-way outages, in virtual ms."""
    slow_link_chance: float = 0.0
    slow_link_ms_max: int = 10_000
    slow_link_bytes_per_s: int = 2_000
    broken_chance: float = 0.0
    half_open_chance: float = 0.0
    refused_chance: float = 0.0
    failed_accept_chance: float = 0.0
    failed_poll_chance: float = 0.0
    silent_death_chance: float = 0.0
    """Chance per death of a machine, unless the caller specifies the kind of death."""
    reset_at_death_chance: float = 0.0

    def __post_init__(self) -> None:
        if not 0 < self.latency_us_min <= self.latency_us_max:
            found = f"{self.latency_us_min} and {self.latency_us_max}"
            raise ValueError(f"latency_us: expected 0 < min <= max, found {found}")
        if self.slow_link_bytes_per_s <= 0:
            found = str(self.slow_link_bytes_per_s)
            raise ValueError(f"slow_link_bytes_per_s: expected more than 0, found {found}")


def without_transient_faults(plan: AnyPlan) -> AnyPlan:
    """Return the plan without transient faults. Lies, lost writes and effects of crashes remain."""
    names = {field.name for field in fields(plan)}
    passing: dict[str, Any] = {kind.row.knob: 0.0 for kind in FaultKind if kind.row.passes and kind.row.knob in names}
    return replace(plan, **passing)


@lru_cache(maxsize=64)  # each new disk asks, mostly for one of a few plans
def chances_of(plan: FaultPlan | NetworkPlan) -> Mapping[FaultKind, float]:
    """Return the chances, other than 0, by kind."""
    on = {field.name: value for field in fields(plan) if (value := getattr(plan, field.name))}
    return {kind: on[kind.row.knob] for kind in FaultKind if kind.row.knob in on}


def enabled_kinds(plan: FaultPlan | NetworkPlan) -> Iterator[str]:
    yield from (kind.value for kind in chances_of(plan))
