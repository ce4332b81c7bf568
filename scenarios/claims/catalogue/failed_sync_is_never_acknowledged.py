"""A sync fails once, and the kernel forgets the pages."""

from ..plan import Ranges
from ..scenario import Scenario

SCENARIO = Scenario(
    "failed-sync-is-never-acknowledged",
    "after a sync that failed, no put is answered OK that the disk does not have",
    Ranges(
        sync_flush=(True, True, False),
        faults={"failed_sync_chance": (0.02, 0.1)},
        endings=("crash in traffic", "crash at rest", "stop"),
        consumers=(0,),
    ),
)
