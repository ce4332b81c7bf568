"""Disk models: what crashes of each kind of disk leave, and what else goes wrong on them.

A scenario names the disks it may run on, and every seed draws one. What is still promised on it is one table, in
`scenarios.oracle.guarantees`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class DiskModel:
    """One kind of disk under one kind of file system."""

    name: str
    meaning: str
    crashes: Sequence[str]
    """What a life may end with, names in `PROFILES`; a more likely one is there more often."""
    faults: Mapping[str, Sequence[float | str]] = field(default_factory=dict)
    """What goes wrong beside that: fields of FaultPlan with the values to draw from."""
    rot: Mapping[str, Sequence[float | str]] = field(default_factory=dict)
    """What becomes of files while the machine is off: fields of RotPlan."""
    needs_whole_log: bool = False
    """Whether what the checkpoint vouches for may be wrong, so that recovery must compare queues with the whole log."""
    capacity_bytes: Sequence[int] = ()
    """How much it holds while there is traffic, if that is not more than anyone needs."""
    is_sound: bool = True
    """Whether it has room, does what it says, and keeps what it holds: what runs of several machines are judged on."""


DISK_MODELS: dict[str, DiskModel] = {
    disk_model.name: disk_model
    for disk_model in (
        DiskModel("nothing-lost", "a machine that stops and keeps everything", ("nothing-lost",)),
        DiskModel("process-kill", "a process that is killed; the system lives on", ("process-kill",)),
        DiskModel(
            "ext4-ordered",
            "ext4 with data=ordered: metadata in order, appended data before its size",
            ("ext4-ordered", "ext4-ordered", "process-kill"),
        ),
        DiskModel(
            "strict-posix",
            "any file system POSIX allows: what was not synced is lost in any combination",
            ("strict-posix", "strict-posix", "os-crash", "process-kill"),
            {"torn_bytes_chance": (0.0, 0.0, 0.5)},
        ),
        DiskModel(
            "ext4-data",
            "ext4 with data=journal: what was written survives in order, a page whole",
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
            "btrfs: whole transactions, and a log of what was synced since",
            ("btrfs", "btrfs", "process-kill"),
            {"failing_sync": ("btrfs",)},
        ),
        DiskModel(
            "full-disk",
            "ext4 with hardly any room left, or none",
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
            "a drive that acknowledges syncs out of a cache that forgets when the power goes",
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
            "a drive that loses, misplaces and changes what it holds, and answers with errors",
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
