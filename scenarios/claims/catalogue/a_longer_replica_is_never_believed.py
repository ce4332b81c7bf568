"""The master loses its tail, the slave does not."""

from dataclasses import replace

from ..cluster_ranges import CLUSTER
from ..scenario import Scenario

SCENARIO = Scenario(
    "a-longer-replica-is-never-believed",
    "a slave that has what its master lost is no answer to any put, changes nothing, and says what is wrong",
    replace(
        CLUSTER,
        sync_flush=(False,),
        endings=("crash in traffic", "crash at rest"),
        lives=(2, 3),
        disk=("strict-posix", "ext4-ordered", "xfs", "btrfs"),
        cluster={**CLUSTER.cluster, "slaves": (1,), "sync_master": (True, True, False)},
    ),
)
