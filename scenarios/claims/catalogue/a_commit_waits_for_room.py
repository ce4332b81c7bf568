"""Segments of a sparse disk get their blocks when the pool's buffers are committed, which may be too late for some."""

from ..plan import Ranges
from ..scenario import Scenario

SCENARIO = Scenario(
    "a-commit-waits-for-room",
    "what no room is left for stays in the pool's buffers and is committed as soon as there is some: nothing is lost",
    Ranges(
        sync_flush=(False,),
        transient_pool=(True,),
        faults={"sparse": (True,)},
        capacity_bytes=(10_000, 16_000, 24_000),
        commit_log_bytes=(2048, 8192, 16_384),
        body_bytes_max=(300, 700),
        property_bytes_max=(0,),
        messages_each=(16, 24),
        pause_chance=(0.2, 0.5),
        pause_ms_max=(300, 3000),
        index_slots=(0,),
        consumers=(0, 0, 1),
        warm_files=(False,),
        lives=(1, 2),
        endings=("stop", "stop", "stop in traffic", "crash at rest"),
    ),
)
