"""The plug is pulled under SYNC_FLUSH."""

from ..plan import Ranges
from ..scenario import Scenario

SCENARIO = Scenario(
    "sync-flush-survives-power-loss",
    "after a power cut, every message that was answered OK under sync flush is there",
    Ranges(
        sync_flush=(True,),
        disk=("ext4-ordered", "xfs", "btrfs", "strict-posix"),
        endings=("crash in traffic",),
        consumers=(0,),
    ),
)
