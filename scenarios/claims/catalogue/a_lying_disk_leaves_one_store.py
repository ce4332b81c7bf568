"""The drive acknowledges syncs out of a cache that forgets; nothing is durable, and everybody was told otherwise."""

from ..plan import Ranges
from ..scenario import Scenario

SCENARIO = Scenario(
    "a-lying-disk-leaves-one-store",
    "what a lying disk leaves opens, or is refused by name, and leads to every record that is there",
    Ranges(
        disk=("lying-disk",),
        endings=("crash in traffic", "crash at rest", "crash in load", "stop"),
        lives=(1, 2, 3, 4),
        consumers=(0, 1),
        retention=(False, True),
    ),
)
