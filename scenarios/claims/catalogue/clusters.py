"""Clusters: claims about a master, its slaves and their network."""

from collections.abc import Mapping
from typing import Any

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

RECONNECTS = TROUBLED.replace(
    producers=(2, 3),
    messages_each=(8, 16),
    lives=(1, 2),
    endings=("crash in traffic", "stop", "stop in traffic", "stop in traffic"),
    memory={"transient_pool": (False,)},
    consumers=(0,),
    index={"slots": (0,)},
    pauses={"ms_max": (30, 2000, 2000)},
    cluster={
        "slaves": (1, 2, 2),
        "sync_master": (True, True, True, False),
        "slave_timeout_ms": (200, 1000, 3000),
        "transfer_batch_bytes": (50, 64, 500, 32_768),
        "gathers": (True, False),
    },
    network={
        "split_chance": (0.0, 0.2, 0.5),
        "late_chance": (0.0, 0.02),
        "partition_chance": (0.0, 0.01),
        "one_way_chance": (0.0, 0.01),
        "partition_ms_max": (500, 5_000),
        "broken_chance": (0.0, 0.05, 0.2),
        "half_open_chance": (0.0, 0.05, 0.2),
        "slow_link_chance": (0.0, 0.02),
    },
    settings={
        "ha_send_heartbeat_interval_ms": (200, 500),
        "ha_housekeeping_interval_ms": (1_500, 3_000, 20_000),
        "ha_slave_fallbehind_max": (1_500, 4_000, 256 << 20),
    },
    broker={"buffer_bytes": (100, 700, 65_536)},
)

STEADY_TRAFFIC: Mapping[str, Any] = {
    "pauses": {"chance": (1.0,), "ms_max": (450,)},
    "network": {"broken_chance": (0.0,), "half_open_chance": (0.0,)},
    "settings": {"ha_send_heartbeat_interval_ms": (500,), "ha_housekeeping_interval_ms": (1_500,)},
}
"""Messages come so often that a master needs no heartbeat for longer than the interval of a silence."""

LONG_WAITS: Mapping[str, Any] = {
    "pauses": {"chance": (1.0,), "ms_max": (2_000,)},
    "cluster": {
        "slaves": (1,),
        "sync_master": (True,),
        "slave_timeout_ms": (12_000,),
        "transfer_batch_bytes": (32_768,),
    },
    "broker": {"buffer_bytes": (65_536,)},
    "network": {
        "broken_chance": (0.15,),
        "half_open_chance": (0.0,),
        "one_way_chance": (0.0,),
        "partition_chance": (0.0,),
    },
    "settings": {"ha_slave_fallbehind_max": (256 << 20,)},
}
"""A put whose report was lost with its connection still waits while later puts are reported over the next one."""
FAILED_ACCEPTS: Mapping[str, Any] = {"network": {"failed_accept_chance": (0.1, 0.3)}}
_EQUAL_RECORD_BYTES = 158
"""Of a message with a body of 40 bytes and no more properties than every message of equal size."""
_LEFTOVERS: Mapping[str, Any] = {
    "commit_log_bytes": (1024,),
    "messages": {"body_bytes_max": (700,)},
    "cluster": {"sync_master": (False,), "gathers": (False,)},
    "pauses": {"chance": (0.5,), "ms_max": (2_000,)},
    "faults": {"failed_extend_chance": (0.6,), "failed_removal_chance": (0.6,)},
}
"""Empty files remain, because their creation and their removal failed. Meanwhile the master begins its next file."""
EXACT_LAGS: Mapping[str, Any] = {
    "sync_ms_max": (10,),
    "cluster": {"sync_master": (True,), "slave_sync_flush": (True,)},
    "messages": {
        "equal_sizes": (True,),
        "body_bytes_max": (40,),
        "property_bytes_max": (0,),
        "batch_chance": (0.0,),
        "illegal_chance": (0.0,),
    },
    "settings": {"ha_slave_fallbehind_max": (_EQUAL_RECORD_BYTES, 2 * _EQUAL_RECORD_BYTES, 3 * _EQUAL_RECORD_BYTES)},
}
"""A slave often lags exactly haSlaveFallbehindMax, for which puts do not wait."""

FREEZES = CLUSTER.replace(
    producers=(2,),
    messages_each=(8,),
    lives=(1,),
    endings=("crash in traffic", "stop", "stop in traffic", "stop in traffic"),
    consumers=(0,),
    index={"slots": (0,)},
    pauses={"chance": (0.5, 1.0), "ms_max": (450, 2_000)},
    memory={"transient_pool": (False,)},
    attribute_points=(True,),
    heals=(False, False, False, True),
    cluster={
        "slaves": (3,),
        "sync_master": (True,),
        "slave_timeout_ms": (200, 1000, 3000),
        "transfer_batch_bytes": (500, 32_768),
        "gathers": (True, True, False),
    },
    network={"split_chance": (0.0,)},
    disturbances={"paused_machine_chance": (0.3,)},
    settings={"ha_send_heartbeat_interval_ms": (500,), "ha_housekeeping_interval_ms": (1_500,)},
)

ROLE_CHANGES: Mapping[str, Any] = {"cluster": {"slaves": (2,), "changes_roles": (True,)}, "delay": {"chance": (0.0,)}}
"""The first slave becomes the master while the former master runs, and the second slave follows one after the other.

Without delayed messages: if both masters deliver the same one in the same millisecond, after records that differ, a
slave cannot notice the difference.
"""
_ROLE_CHANGES_CHANCE = 0.05
"""A change of roles with a second slave doubles the cost of a run."""

HANDOVER = CLUSTER.replace(
    endings=("stop in traffic",),
    lives=(1, 2),
    producers=(2, 3),
    messages_each=(8, 16),
    consumers=(0,),
    index={"slots": (0,)},
    pauses={"chance": (0.0, 0.5), "ms_max": (1, 30)},
    delay={"chance": (0.0, 0.5)},
    cluster={"slaves": (1,), "gathers": (True,)},
    network={"late_chance": (0.0,)},
)

SCENARIOS: tuple[Scenario, ...] = (
    # The master's disk is lost at the end of the run. Syncs may fail on all machines.
    Scenario(
        "sync-replication-master-lost",
        "after a sync master is lost, every message that it acknowledged is on a slave that reports only flushed data",
        CLUSTER.replace(
            cluster={"sync_master": (True,), "slave_sync_flush": (True,)},
            faults={"failed_sync_chance": (0.0, 0.0, 0.1)},
            disk=("strict-posix", "strict-posix", "ext4-ordered", "xfs", "btrfs", "process-kill"),
        ),
        stream="sync-replication-survives-a-lost-master",
    ),
    # Combines all roles and flush modes with crashes and failed syncs of masters and slaves.
    Scenario(
        "replica-prefix-of-master",
        "after any machine crashes, a slave's log is a prefix of its master's log, and the slave's queues cover every "
        "message in it",
        CLUSTER.replace(
            cluster={"flipped_bit_chance": (0.0, 0.5)}, faults={"failed_sync_chance": (0.0, 0.0, 0.1)}
        ).with_late_optional(_ROLE_CHANGES_CHANCE, role_changes=ROLE_CHANGES),
        stream="a-replica-is-a-prefix-of-its-master",
    ),
    Scenario(
        "replica-ahead-of-master",
        "after a master loses the end of its log, a slave with a longer log confirms no put, changes no file and "
        "reports the conflict",
        CLUSTER.replace(
            sync_flush=(False,),
            endings=("crash in traffic", "crash at rest"),
            lives=(2, 3),
            disk=("strict-posix", "ext4-ordered", "xfs", "btrfs"),
            cluster={"slaves": (1,), "sync_master": (True, True, False)},
        )
        .with_late_optional(0.25, second_slave={"heals": (True,), "cluster": {"slaves": (2,), "gathers": (True,)}})
        .with_late_optional(_ROLE_CHANGES_CHANCE, role_changes=ROLE_CHANGES),
        stream="a-longer-replica-is-never-believed",
    ),
    # The network has partitions, one-way links and broken or silent connections. Meanwhile machines crash.
    Scenario(
        "replication-network-faults",
        "after network faults, no acknowledged message is missing, and slaves catch up once the network works",
        TROUBLED.with_late_optional(0.5, failed_accepts=FAILED_ACCEPTS).with_late_optional(
            _ROLE_CHANGES_CHANCE, role_changes=ROLE_CHANGES
        ),
        stream="network-trouble-costs-time-not-messages",
    ),
    # While a slave catches up, disks fail or are slow and connections break. The slave then resumes, or starts at
    # another offset.
    Scenario(
        "slave-disk-errors",
        "after disk errors or stalls during catch-up, a slave has the same log as its master as soon as its disk works",
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
        ).with_late_optional(0.2, leftovers=_LEFTOVERS),
        stream="a-slave-on-a-failing-disk-follows-its-master",
    ),
    # Connections end often, at one end or at both, and become silent. Intervals are short, and sends are partial.
    Scenario(
        "replication-reconnects",
        "whenever connections of slaves end, each frame, report and answer is the one that its connection permits, and "
        "each end notices a silence in time",
        RECONNECTS.with_late_optional(0.2, steady=STEADY_TRAFFIC)
        .with_late_optional(0.25, lags=EXACT_LAGS)
        .with_late_optional(0.5, failed_accepts=FAILED_ACCEPTS)
        .with_late_optional(0.4, long_waits=LONG_WAITS),
    ),
    # The master or the slave stops while producers put messages and delayed messages become due, without other faults.
    Scenario(
        "planned-handover",
        "after a master stops under load, its slave has the whole log, so that they can change their roles",
        HANDOVER.with_late_optional(_ROLE_CHANGES_CHANCE, role_changes=ROLE_CHANGES).with_late_optional(
            0.1, second_slave={"cluster": {"slaves": (2,)}}
        ),
    ),
    # All machines freeze for longer than the interval of a silence. The master then ends several connections at once.
    Scenario(
        "slaves-leave-together",
        "when several slaves leave and connect at the same moment, puts wait for exactly the slaves that are connected",
        FREEZES,
    ),
)
