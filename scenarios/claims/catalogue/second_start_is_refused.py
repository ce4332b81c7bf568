"""Someone starts the store again while it runs."""

from ..plan import Ranges
from ..scenario import Scenario

SCENARIO = Scenario(
    "second-start-is-refused",
    "a second start on a live directory is refused, and changes nothing in it",
    Ranges(second_start=(True,), consumers=(0,), lives=(1, 2)),
)
