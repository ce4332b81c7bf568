"""A bit of a record rots that the next start takes for durable, and its queues are made anew or not."""

from ..plan import Ranges
from ..scenario import Scenario

SCENARIO = Scenario(
    "damage-hides-nothing-behind-it",
    "a damaged record in the midst of a log costs that record, and none before or behind it in its segment",
    Ranges(
        endings=("stop and damaged record",),
        lives=(1,),
        recover_whole_log=(True,),
        messages_each=(16, 24),
        commit_log_bytes=(1024, 2048, 4096),
        body_bytes_max=(40, 300),
        property_bytes_max=(0, 300),
        illegal_chance=(0.0,),
        index_slots=(0,),
        consumers=(0, 1),
    ),
)
