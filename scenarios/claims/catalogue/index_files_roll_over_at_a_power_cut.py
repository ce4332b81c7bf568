"""The plug is pulled while index files become full one after the other, and the checkpoint says which are durable."""

from ..plan import Ranges
from ..scenario import Scenario

SCENARIO = Scenario(
    "index-files-roll-over-at-a-power-cut",
    "an index file that the checkpoint vouches for is whole after any power cut, and what it lacks is built again",
    Ranges(
        disk=("ext4-ordered", "xfs", "btrfs", "strict-posix"),
        recover_whole_log=(False, False, True),
        index_slots=(3, 40),
        index_entries=(4, 30, 60),
        keys_chance=(0.5,),
        equal_sizes=(False,),
        seekers=(0, 1),
        consumers=(0,),
        commit_log_bytes=(2048, 4096),
        body_bytes_max=(40, 300),
        property_bytes_max=(0,),
        messages_each=(8, 16),
        pause_chance=(0.5,),
        pause_ms_max=(1000, 3000),
        thorough_interval_ms=(2000,),
        lives=(1, 2, 3),
        endings=("crash in traffic", "crash at rest", "crash in load"),
    ),
)
