"""Reads and syncs fail, writes go astray, sectors rot: the store may give up, but not give up what is there."""

from ..plan import Ranges
from ..scenario import Scenario

SCENARIO = Scenario(
    "a-dying-disk-is-never-made-worse",
    "whatever a dying disk does, what lies in front of the first damage is there, and nothing hangs or dies of it",
    Ranges(
        disk=("dying-disk",),
        lives=(1, 2, 3),
        messages_each=(8, 16),
        consumers=(0, 1),
    ),
)
