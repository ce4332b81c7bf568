"""The disk takes its time."""

from ..plan import Ranges
from ..scenario import Scenario

SCENARIO = Scenario(
    "slow-sync-times-out-truthfully",
    "under a slow disk, OK still means durable, and a time-out means that the time was up",
    Ranges(
        sync_flush=(True,),
        faults={"slow_sync_chance": (0.1, 0.4), "slow_sync_ms_max": (100, 3000)},
        sync_flush_timeout_ms=(20, 200),
        endings=("crash in traffic", "stop"),
        consumers=(0,),
    ),
)
