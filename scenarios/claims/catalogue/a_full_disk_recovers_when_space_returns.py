"""The disk fills up, somebody finds room for it after a while, or the store makes some by deleting what is old."""

from ..plan import Ranges
from ..scenario import Scenario

SCENARIO = Scenario(
    "a-full-disk-recovers-when-space-returns",
    "a disk that fills up costs the puts it has no room for, and as soon as it has room again nothing at all",
    Ranges(
        capacity_bytes=(10_000, 16_000, 24_000),
        retention=(False, True),
        commit_log_bytes=(1024, 2048),
        consume_queue_bytes=(100, 200),
        body_bytes_max=(300, 700),
        property_bytes_max=(0,),
        messages_each=(16, 24),
        pause_chance=(0.5,),
        pause_ms_max=(300, 3000),
        consumers=(0, 0, 1),
        lives=(1, 2),
        endings=("stop", "crash at rest", "crash in traffic"),
    ),
)
