"""From what runs of clusters are drawn: what of a store alone the other scenarios are about is left out."""

from dataclasses import replace

from .plan import Ranges

CLUSTER = Ranges(
    endings=("crash in traffic", "crash in traffic", "crash at rest", "crash in load", "stop"),
    lives=(1, 2, 2, 3),
    producers=(1, 2),
    consumers=(0, 0, 1),
    messages_each=(3, 8, 12),
    pause_ms_max=(1, 30, 2000),
    warm_files=(False,),
    transient_pool=(False, False, True),
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

TROUBLED = replace(
    CLUSTER,
    network={
        **CLUSTER.network,
        "partition_chance": (0.0, 0.02, 0.1),
        "one_way_chance": (0.0, 0.02, 0.1),
        "partition_ms_max": (500, 5_000, 30_000),
        "slow_link_chance": (0.0, 0.0, 0.05),
        "broken_chance": (0.0, 0.02, 0.1),
        "half_open_chance": (0.0, 0.0, 0.02, 0.1),
        "refused_chance": (0.0, 0.2),
        "silent_death_chance": (0.0, 0.5),
        "reset_at_death_chance": (0.0, 0.5),
    },
)
"""With a network that is not to be relied on."""
