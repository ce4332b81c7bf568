"""Tasks and machines stand still, one task starves, the wall clock jumps: only time may be lost by it."""

from ..plan import Ranges
from ..scenario import Scenario

SCENARIO = Scenario(
    "pauses-and-clock-steps-change-no-answer",
    "pauses, starvation and a jumping clock cost time, and neither messages nor the truth of an answer",
    Ranges(
        disturbances={
            "paused_task_chance": (0.0, 0.1, 0.5),
            "paused_machine_chance": (0.0, 0.05),
            "clock_step_chance": (0.0, 0.1, 0.5),
        },
        starved_steps_max=(0, 50, 2000),
        faults={"stall_chance": (0.0, 0.0, 0.01), "slow_io_chance": (0.0, 0.0, 0.05)},
        consumers=(0, 1, 2),
        sync_flush_timeout_ms=(500, 5000),
    ),
)
