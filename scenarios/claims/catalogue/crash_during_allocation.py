"""The crash comes while segments are created, extended and made durable."""

from ..plan import Ranges
from ..scenario import Scenario

SCENARIO = Scenario(
    "crash-during-allocation",
    "a crash inside the making of a segment leaves a directory that opens by itself",
    Ranges(
        disk=("strict-posix", "ext4-ordered", "xfs", "process-kill"),
        commit_log_bytes=(1024,),
        body_bytes_max=(800,),
        property_bytes_max=(0,),
        batch_chance=(0.0,),
        equal_sizes=(True,),
        messages_each=(2, 5),
        endings=("crash in traffic", "crash in load"),
        lives=(1, 2),
    ),
)
