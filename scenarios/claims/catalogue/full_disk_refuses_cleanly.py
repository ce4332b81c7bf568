"""Now and then the disk has no room for another file."""

from ..plan import Ranges
from ..scenario import Scenario

SCENARIO = Scenario(
    "full-disk-refuses-cleanly",
    "a segment that cannot be made costs the puts that need it, and nothing that was acknowledged",
    Ranges(
        faults={"failed_creation_chance": (0.2, 0.5)},
        commit_log_bytes=(1024, 2048),
        body_bytes_max=(300, 700),
        property_bytes_max=(0,),
        endings=("stop", "crash at rest", "crash in traffic"),
        consumers=(0,),
    ),
)
