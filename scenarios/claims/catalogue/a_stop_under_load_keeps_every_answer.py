"""The store is told to stop while producers put, consumers walk and users look messages up."""

from ..plan import Ranges
from ..scenario import Scenario

SCENARIO = Scenario(
    "a-stop-under-load-keeps-every-answer",
    "a clean stop loses no put that was answered OK, however close to its end, and keeps none that was refused",
    Ranges(
        transient_pool=(False, True, True),
        producers=(2, 3),
        consumers=(0, 1, 2),
        seekers=(0, 1),
        no_wait_chance=(0.0, 0.3),
        disturbances={"paused_task_chance": (0.0, 0.0, 0.3)},
        faults={"short_write_chance": (0.0, 0.3)},
        warm_files=(False, True),
        endings=("stop in traffic",),
        lives=(1, 2),
    ),
)
