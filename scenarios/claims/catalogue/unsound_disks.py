"""Unsound disks: one that lies about its syncs, one that is dying."""

from ..scenario import Scenario

SCENARIOS: tuple[Scenario, ...] = (
    # The drive acknowledges syncs out of a cache that forgets; nothing is durable, though every sync was acknowledged.
    Scenario.of(
        "a-lying-disk-leaves-one-store",
        "what a lying disk leaves opens, or is refused by name, and leads to every record that is there",
        disk=("lying-disk",),
        endings=("crash in traffic", "crash at rest", "crash in load", "stop"),
        lives=(1, 2, 3, 4),
        consumers=(0, 1),
        retention={"deletes_segments": (False, True)},
    ),
    # Reads and syncs fail, writes go astray, sectors rot: the store may give up, but not give up what is there.
    Scenario.of(
        "a-dying-disk-is-never-made-worse",
        "whatever a dying disk does, what lies in front of the first damage is there, and nothing hangs or dies of it",
        disk=("dying-disk",),
        lives=(1, 2, 3),
        messages_each=(8, 16),
        consumers=(0, 1),
    ),
)
