"""The crash comes while one segment ends and the next begins."""

from ..plan import Ranges
from ..scenario import Scenario

SCENARIO = Scenario(
    "rollover-at-a-crash",
    "a crash around the end of a segment loses nothing acknowledged, on either side of it",
    Ranges(
        commit_log_bytes=(1024, 2048),
        body_bytes_max=(300, 700),
        property_bytes_max=(0,),
        messages_each=(6, 12),
        endings=("crash in traffic",),
        consumers=(0,),
    ),
)
