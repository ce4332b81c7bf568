"""Somebody has old segments deleted, again and again, and the machine dies in the midst of it."""

from ..plan import Ranges
from ..scenario import Scenario

SCENARIO = Scenario(
    "retention-takes-only-the-oldest",
    "what has expired goes from the front, whole segments at a time, and nothing else goes or comes back wrong",
    Ranges(
        retention=(True,),
        queues_removed=(True, True, False),
        queues_per_topic=(1, 2, 4),
        commit_log_bytes=(1024, 2048),
        consume_queue_bytes=(100, 200),
        body_bytes_max=(300, 700),
        property_bytes_max=(0,),
        messages_each=(8, 16, 24),
        pause_chance=(0.2, 0.5),
        pause_ms_max=(30, 100, 3000),
        consumers=(0, 1, 2),
        faults={"failed_directory_sync_chance": (0.0, 0.0, 0.0, 0.1)},
        disturbances={"paused_task_chance": (0.0, 0.0, 0.2)},
        starved_steps_max=(0, 500),
        lives=(1, 2, 3),
        endings=(
            *("crash in traffic", "crash in traffic", "crash at rest", "crash in load"),
            *("stop", "stop and returned file"),
        ),
    ),
)
