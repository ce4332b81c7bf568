"""The store is told to stop, under traffic that has ended."""

from ..plan import Ranges
from ..scenario import Scenario

SCENARIO = Scenario(
    "clean-stop-loses-nothing",
    "a clean stop loses nothing, in any flush mode, and the next start finds no marker and changes nothing",
    Ranges(endings=("stop",), lives=(1, 2), consumers=(0, 1)),
)
