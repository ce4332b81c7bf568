"""Every role, every way to flush, crashes of either side."""

from dataclasses import replace

from ..cluster_ranges import CLUSTER
from ..scenario import Scenario

SCENARIO = Scenario(
    "a-replica-is-a-prefix-of-its-master",
    "whichever machine dies, and however, a slave's log is what its master's was, and leads to every message in it",
    replace(CLUSTER, cluster={**CLUSTER.cluster, "flipped_bit_chance": (0.0, 0.5)}),
)
