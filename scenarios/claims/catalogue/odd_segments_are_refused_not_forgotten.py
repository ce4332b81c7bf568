"""While the store is off, a segment in front of others loses its last sector; somebody starts, and then mends it."""

from ..plan import Ranges
from ..scenario import Scenario

SCENARIO = Scenario(
    "odd-segments-are-refused-not-forgotten",
    "a log with a segment of a wrong size in front of others is refused untouched, and whole once that is mended",
    Ranges(
        endings=("stop and odd file",),
        commit_log_bytes=(1024, 2048),
        body_bytes_max=(300, 700),
        lives=(1, 2),
    ),
)
