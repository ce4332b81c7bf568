"""Consumers read as close behind the producers as they are let."""

from ..plan import Ranges
from ..scenario import Scenario

SCENARIO = Scenario(
    "consumers-never-see-what-can-vanish",
    "what a consumer was given under sync flush, no power cut takes back",
    Ranges(
        sync_flush=(True,),
        disk=("ext4-ordered", "xfs", "btrfs", "strict-posix"),
        consumers=(1, 2),
        no_wait_chance=(0.0, 0.5),
        sync_ms_max=(10,),
        endings=("crash in traffic",),
    ),
)
