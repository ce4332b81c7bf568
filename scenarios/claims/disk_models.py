"""Disk models: the crash losses and the faults of each kind of disk.

Each seed uses one of its scenario's disk models. `scenarios.oracle.guarantees` lists the guarantees of each model.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class DiskModel:
    """A kind of disk with a kind of file system."""

    name: str
    meaning: str
    crashes: Sequence[str]
    """Possible crashes, by name in `PROFILES`. A repeated name is more likely."""
    faults: Mapping[str, Sequence[float | str]] = field(default_factory=dict)
    """Faults during operation: fields of FaultPlan, each with its possible values."""
    rot: Mapping[str, Sequence[float | str]] = field(default_factory=dict)
    """Damage while the machine is off: fields of RotPlan, each with its possible values."""
    needs_whole_log: bool = False
    """The checkpoint may cover lost data, so recovery must compare the queues with the whole log."""
    capacity_bytes: Sequence[int] = ()
    """The capacity during traffic; empty: unlimited."""
    is_sound: bool = True
    """Whether the disk has space, honours syncs and preserves data. Runs of several machines need such disks."""


DISK_MODELS: dict[str, DiskModel] = {
    disk_model.name: disk_model
    for disk_model in (
        DiskModel("nothing-lost", "a machine that stops; the disk loses no data", ("nothing-lost",)),
        DiskModel("process-kill", "a killed process; the page cache survives", ("process-kill",)),
        DiskModel(
            "ext4-ordered",
            "ext4 with data=ordered: metadata in order, appended data before its size",
            ("ext4-ordered", "ext4-ordered", "process-kill"),
        ),
        DiskModel(
            "strict-posix",
            "any file system POSIX allows: any combination of unsynced changes is lost",
            ("strict-posix", "strict-posix", "os-crash", "process-kill"),
            {"torn_bytes_chance": (0.0, 0.0, 0.5)},
        ),
        DiskModel(
            "ext4-data",
            "ext4 with data=journal: writes survive in order, a page whole",
            ("ext4-data", "ext4-data", "process-kill"),
        ),
        DiskModel(
            "xfs",
            "XFS: metadata in order, sizes only after the data",
            ("xfs", "xfs", "process-kill"),
            {"failing_sync": ("xfs",)},
        ),
        DiskModel(
            "btrfs",
            "btrfs: whole transactions, and a log of later syncs",
            ("btrfs", "btrfs", "process-kill"),
            {"failing_sync": ("btrfs",)},
        ),
        DiskModel(
            "full-disk",
            "ext4 with little or no room left",
            ("ext4-ordered", "process-kill"),
            {
                "failed_creation_chance": (0.0, 0.0, 0.2),
                "failed_extend_chance": (0.0, 0.0, 0.2),
                "sparse": (False, False, True),
            },
            capacity_bytes=(20_000, 40_000, 80_000),
            is_sound=False,
        ),
        DiskModel(
            "lying-disk",
            "a drive that acknowledges syncs from a volatile cache",
            ("strict-posix", "ext4-ordered", "process-kill"),
            {
                "lying_sync_chance": (0.0, 0.1, 0.5, 1.0),
                "failing_sync": ("ext4-data",),
                "failed_sync_chance": (0.0, 0.0, 0.05),
            },
            needs_whole_log=True,
            is_sound=False,
        ),
        DiskModel(
            "dying-disk",
            "a drive that loses, misplaces and changes data, and returns errors",
            ("ext4-ordered", "strict-posix", "process-kill"),
            {
                "failing_sync": ("ext4-ordered", "xfs", "btrfs"),
                "failed_sync_chance": (0.0, 0.0, 0.02),
                "failed_write_back_chance": (0.0, 0.0, 0.02),
                "failed_directory_sync_chance": (0.0, 0.0, 0.05),
                "stopped_file_system_chance": (0.0, 0.3),
                "failed_read_chance": (0.0, 0.0, 0.1),
                "failed_map_chance": (0.0, 0.0, 0.05),
                "failed_lookup_chance": (0.0, 0.0, 0.02),
                "failed_write_chance": (0.0, 0.0, 0.05),
                "lost_write_chance": (0.0, 0.0, 0.02, 0.1),
                "misdirected_write_chance": (0.0, 0.0, 0.05),
                "garbage_chance": (0.0, 0.0, 0.5),
                "slow_sync_chance": (0.0, 0.1),
                "slow_io_chance": (0.0, 0.0, 0.1),
                "stall_chance": (0.0, 0.0, 0.01),
            },
            {
                "bit_rot_chance": (0.0, 0.0, 0.1),
                "zeroed_sector_chance": (0.0, 0.0, 0.1),
                "swapped_pages_chance": (0.0, 0.0, 0.3),
                "latent_sector_error_chance": (0.0, 0.0, 0.1),
            },
            is_sound=False,
        ),
    )
}
