"""A sector at the end of the log is lost while the store is off."""

from ..plan import Ranges
from ..scenario import Scenario

SCENARIO = Scenario(
    "lost-tail-is-cut-with-its-entries",
    "a log that lost its end after a clean stop is cut there, and no queue leads behind the cut",
    Ranges(endings=("stop and damage",), lives=(1, 2), consumers=(0,)),
)
