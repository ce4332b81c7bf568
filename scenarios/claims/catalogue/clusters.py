"""Clusters: a master, its slaves, and the network between them."""

from dataclasses import replace

from ..cluster_ranges import CLUSTER, TROUBLED
from ..scenario import Scenario

SCENARIOS: tuple[Scenario, ...] = (
    # The master's disk is gone for good in the end.
    Scenario(
        "sync-replication-survives-a-lost-master",
        "what a sync master has acknowledged is on a slave that flushes before it reports, "
        "whatever becomes of the master",
        replace(
            CLUSTER,
            cluster={**CLUSTER.cluster, "sync_master": (True,), "slave_sync_flush": (True,)},
            disk=("strict-posix", "strict-posix", "ext4-ordered", "xfs", "btrfs", "process-kill"),
        ),
    ),
    # Every role, every way to flush, crashes of either side.
    Scenario(
        "a-replica-is-a-prefix-of-its-master",
        "whichever machine dies, and however, a slave's log is what its master's was, and leads to every message in it",
        replace(CLUSTER, cluster={**CLUSTER.cluster, "flipped_bit_chance": (0.0, 0.5)}),
    ),
    # The master loses its tail, the slave does not.
    Scenario(
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
    ),
    # Partitions, one-way links, connections that break or fall silent, and crashes between.
    Scenario(
        "network-trouble-costs-time-not-messages",
        "however the network misbehaves, no acknowledged message is lost, and slaves catch up when it is well again",
        TROUBLED,
    ),
)
