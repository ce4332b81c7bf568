"""The master's disk is gone for good in the end."""

from dataclasses import replace

from ..cluster_ranges import CLUSTER
from ..scenario import Scenario

SCENARIO = Scenario(
    "sync-replication-survives-a-lost-master",
    "what a sync master has acknowledged is on a slave that flushes before it reports, whatever becomes of the master",
    replace(
        CLUSTER,
        cluster={**CLUSTER.cluster, "sync_master": (True,), "slave_sync_flush": (True,)},
        disk=("strict-posix", "strict-posix", "ext4-ordered", "xfs", "btrfs", "process-kill"),
    ),
)
