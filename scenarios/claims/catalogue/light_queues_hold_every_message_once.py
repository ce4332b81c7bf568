"""Several producers put to several queues, and their messages enter light queues that all of them share."""

from ..plan import Ranges
from ..scenario import Scenario

SCENARIO = Scenario(
    "light-queues-hold-every-message-once",
    "a message is in each light queue that it names exactly once, and light queues have no gaps, whatever crashes",
    Ranges(
        light_chance=(0.4, 0.9),
        transient_pool=(False, False, True),
        delay_chance=(0.0, 0.0, 0.2),
        producers=(2, 3),
        consumers=(0, 1, 2),
        topics=(2,),
        queues_per_topic=(1, 2),
        batch_chance=(0.0, 0.2),
        endings=("crash in traffic", "crash in traffic", "crash at rest", "crash in load", "stop"),
    ),
)
