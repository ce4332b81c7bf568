"""Messages are put to be seen later; the store dies while they wait and while they are delivered, and puts fail."""

from ..plan import Ranges
from ..scenario import Scenario

SCENARIO = Scenario(
    "delayed-messages-arrive-and-never-early",
    "every delayed message that is stored arrives, never before it is due, and again only after a crash",
    Ranges(
        delay_chance=(0.3, 0.8),
        consumers=(0, 1),
        endings=(
            "crash in traffic",
            "crash in traffic",
            "crash in persist",
            "crash at rest",
            "crash in load",
            "stop",
            "stop and damage",
        ),
        faults={"failed_creation_chance": (0.0, 0.0, 0.3), "slow_sync_chance": (0.0, 0.0, 0.2)},
    ),
)
