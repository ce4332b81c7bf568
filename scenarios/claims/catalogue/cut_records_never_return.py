"""Crash over crash, with records of one size."""

from ..plan import Ranges
from ..scenario import Scenario

SCENARIO = Scenario(
    "cut-records-never-return",
    "a record that one recovery has cut never comes back in a later one",
    Ranges(
        sync_flush=(False, False, True),
        disk=("ext4-ordered", "xfs", "btrfs", "strict-posix"),
        equal_sizes=(True,),
        batch_chance=(0.0,),
        property_bytes_max=(0,),
        body_bytes_max=(40, 300),
        topics=(1,),
        lives=(2, 3, 4),
        endings=("crash in traffic", "crash at rest"),
        consumers=(0,),
    ),
)
