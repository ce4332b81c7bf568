"""A service meets an error that nobody foresaw, and its task ends."""

from ..plan import Ranges
from ..scenario import Scenario

SCENARIO = Scenario(
    "a-service-that-ends-says-so",
    "a store one of whose services has ended names it, takes no more puts, and has lost nothing when it starts again",
    Ranges(
        out_of_memory_chance=(0.8,),
        transient_pool=(False, True),
        delay_chance=(0.0, 0.0, 0.3),
        offsets=(False, True),
        pause_ms_max=(30, 300, 3000),
        endings=("crash at rest", "crash in traffic", "stop", "stop"),
    ),
)
