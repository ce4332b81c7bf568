"""Clusters: a master, its slaves, and the network between them.

What of a store alone the other themes are about is left out.
"""

from ..ranges import Ranges
from ..scenario import Scenario

CLUSTER = Ranges(
    endings=("crash in traffic", "crash in traffic", "crash at rest", "crash in load", "stop"),
    lives=(1, 2, 2, 3),
    producers=(1, 2),
    consumers=(0, 0, 1),
    messages_each=(3, 8, 12),
    pauses={"ms_max": (1, 30, 2000)},
    memory={"warm_files": (False,), "transient_pool": (False, False, True)},
    cluster={
        "slaves": (1, 1, 2),
        "sync_master": (True, True, False),
        "slave_sync_flush": (True, False),
        "slave_timeout_ms": (200, 3000),
        "transfer_batch_bytes": (64, 500, 32_768),
        "gathers": (True, True, False),
    },
    network={
        "latency_us_min": (20, 50, 500),
        "latency_us_max": (500, 1000, 20_000),
        "split_chance": (0.0, 0.0, 0.2),
        "late_chance": (0.0, 0.0, 0.05),
    },
)

TROUBLED = CLUSTER.replace(
    network={
        "partition_chance": (0.0, 0.02, 0.1),
        "one_way_chance": (0.0, 0.02, 0.1),
        "partition_ms_max": (500, 5_000, 30_000),
        "slow_link_chance": (0.0, 0.0, 0.05),
        "broken_chance": (0.0, 0.02, 0.1),
        "half_open_chance": (0.0, 0.0, 0.02, 0.1),
        "refused_chance": (0.0, 0.2),
        "silent_death_chance": (0.0, 0.5),
        "reset_at_death_chance": (0.0, 0.5),
    }
)
"""With a network that is not to be relied on."""

SCENARIOS: tuple[Scenario, ...] = (
    # The master's disk is gone for good in the end; syncs may fail on either side.
    Scenario(
        "sync-replication-survives-a-lost-master",
        "what a sync master has acknowledged is on a slave that flushes before it reports, "
        "whatever becomes of the master",
        CLUSTER.replace(
            cluster={"sync_master": (True,), "slave_sync_flush": (True,)},
            faults={"failed_sync_chance": (0.0, 0.0, 0.1)},
            attribute_points=(False, False, False, True),
            disk=("strict-posix", "strict-posix", "ext4-ordered", "xfs", "btrfs", "process-kill"),
        ),
    ),
    # Every role, every way to flush, crashes of either side, syncs that fail.
    Scenario(
        "a-replica-is-a-prefix-of-its-master",
        "whichever machine dies, and however, a slave's log is what its master's was, and leads to every message in it",
        CLUSTER.replace(cluster={"flipped_bit_chance": (0.0, 0.5)}, faults={"failed_sync_chance": (0.0, 0.0, 0.1)}),
    ),
    # The master loses its tail, the slave does not.
    Scenario(
        "a-longer-replica-is-never-believed",
        "a slave that has what its master lost is no answer to any put, changes nothing, and says what is wrong",
        CLUSTER.replace(
            sync_flush=(False,),
            endings=("crash in traffic", "crash at rest"),
            lives=(2, 3),
            disk=("strict-posix", "ext4-ordered", "xfs", "btrfs"),
            cluster={"slaves": (1,), "sync_master": (True, True, False)},
        ),
    ),
    # Partitions, one-way links, connections that break or fall silent, and crashes between.
    Scenario(
        "network-trouble-costs-time-not-messages",
        "however the network misbehaves, no acknowledged message is lost, and slaves catch up when it is well again",
        TROUBLED,
    ),
    # Disks fail and are slow while a slave is behind, and its connection goes: it begins again, or elsewhere.
    Scenario(
        "a-slave-on-a-failing-disk-follows-its-master",
        "a slave whose disk fails or stalls while it catches up is what its master is, as soon as it is well again",
        TROUBLED.replace(
            commit_log_bytes=(1024, 1024, 2048),
            messages_each=(8, 16),
            lives=(1, 2),
            faults={
                "failed_map_chance": (0.1, 0.3),
                "failed_creation_chance": (0.0, 0.0, 0.2),
                "slow_sync_chance": (0.0, 0.5, 0.5),
                "slow_sync_ms_max": (3_000, 12_000, 12_000),
            },
        ),
    ),
)
