"""Messages share keys, users look them up, and the index is small: its files are often full."""

from ..plan import Ranges
from ..scenario import Scenario

SCENARIO = Scenario(
    "every-key-is-found",
    "after any crash the index leads to every key of every record, exactly once, and to nothing else",
    Ranges(
        index_slots=(3, 7, 40),
        index_entries=(4, 9, 60),
        keys_chance=(0.3, 0.7),
        equal_sizes=(False,),
        seekers=(0, 1, 2),
        consumers=(0,),
        topics=(1, 2),
        batch_chance=(0.0, 0.2),
        faults={"failed_creation_chance": (0.0, 0.0, 0.0, 0.2)},
        lives=(1, 2, 3),
    ),
)
