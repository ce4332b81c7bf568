"""Consumer groups commit how far they came, delivery does too, and the machine dies while that is persisted."""

from ..plan import Ranges
from ..scenario import Scenario

SCENARIO = Scenario(
    "progress-survives-every-crash",
    "progress once persisted is found again after any crash, and consumers go on from where it says",
    Ranges(
        offsets=(True,),
        delay_chance=(0.0, 0.4),
        consumers=(1, 2),
        topics=(1,),
        queues_per_topic=(1, 2),
        pause_chance=(0.5,),
        pause_ms_max=(1000, 3000),
        lives=(2, 3, 4),
        endings=(
            *("crash in persist",) * 3,
            *("crash in traffic", "crash in load", "stop"),
            *("stop and damaged progress",) * 2,
        ),
        faults={"failed_sync_chance": (0.0, 0.0, 0.03)},
    ),
)
