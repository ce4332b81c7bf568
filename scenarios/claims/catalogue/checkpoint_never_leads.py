"""Recovery begins where the checkpoint says, and no earlier."""

from ..plan import Ranges
from ..scenario import Scenario

SCENARIO = Scenario(
    "checkpoint-never-leads",
    "the checkpoint may lag behind the disk and never leads it, so recovery rebuilds all that was lost",
    Ranges(
        recover_whole_log=(False,),
        disk=("ext4-ordered", "xfs", "btrfs", "strict-posix"),
        commit_log_bytes=(1024, 2048),
        consume_queue_bytes=(100, 1000),
        pause_chance=(0.5,),
        pause_ms_max=(3000,),
        thorough_interval_ms=(2000,),
        endings=("crash at rest", "crash in traffic"),
        lives=(1, 2),
    ),
)
