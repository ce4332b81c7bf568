"""Unsound disks: claims for a lying disk and a dying disk."""

from ..scenario import Scenario

SCENARIOS: tuple[Scenario, ...] = (
    # The drive acknowledges syncs from a volatile cache, so synced data may be lost.
    Scenario.define(
        "recovery-on-lying-disk",
        "after crashes on a lying disk, the store opens or names the damaged file, and its queues and index cover "
        "every remaining record",
        stream="a-lying-disk-leaves-one-store",
        disk=("lying-disk",),
        endings=("crash in traffic", "crash at rest", "crash in load", "stop"),
        lives=(1, 2, 3, 4),
        consumers=(0, 1),
        retention={"deletes_segments": (False, True)},
    ),
    # Reads and syncs fail, writes are misdirected, and sectors rot. The store may refuse to start but must not remove
    # records.
    Scenario.define(
        "recovery-on-dying-disk",
        "after any fault of a dying disk, every record before the first damage is present, and no task hangs or dies",
        stream="a-dying-disk-is-never-made-worse",
        disk=("dying-disk",),
        lives=(1, 2, 3),
        messages_each=(8, 16),
        consumers=(0, 1),
    ),
)
