"""The crash comes in the middle of recovering from the last crash."""

from ..plan import Ranges
from ..scenario import Scenario

SCENARIO = Scenario(
    "crash-in-recovery",
    "recovery that is cut short, again and again, ends where an undisturbed one would",
    Ranges(
        endings=("crash in load", "crash in load", "crash in traffic"),
        lives=(2, 3, 4),
        messages_each=(3, 8),
        consumers=(0,),
    ),
)
