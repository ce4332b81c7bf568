"""Unsound disks: claims for a lying disk and a dying disk."""

from ..scenario import Scenario

SCENARIOS: tuple[Scenario, ...] = (
    # The drive acknowledges syncs from a volatile cache, so synced data may be lost.
    Scenario.of(
        "a-lying-disk-leaves-one-store",
        "after crashes on a lying disk the store opens, or names the bad file, and its queues and index cover every "
        "record that is left",
        disk=("lying-disk",),
        endings=("crash in traffic", "crash at rest", "crash in load", "stop"),
        lives=(1, 2, 3, 4),
        consumers=(0, 1),
        retention={"deletes_segments": (False, True)},
    ),
    # Reads and syncs fail, writes are misdirected, and sectors rot. The store may refuse to start but must not drop
    # records.
    Scenario.of(
        "a-dying-disk-is-never-made-worse",
        "after any fault of a dying disk every record before the first damage is present, and no task hangs or dies",
        disk=("dying-disk",),
        lives=(1, 2, 3),
        messages_each=(8, 16),
        consumers=(0, 1),
    ),
)
