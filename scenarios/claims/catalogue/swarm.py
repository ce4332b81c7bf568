"""Swarms: random mixes of features and faults; each seed omits half or more of them.

A seed first chooses the enabled features and faults, then their values. Omitted features leave more opportunities to
enabled features (swarm testing, Groce et al., ISSTA 2012). Probabilities are so high that an enabled fault usually
occurs. Lying disks, dying disks, and files that are altered while the store is off have their own swarms, because the
large mix would rarely combine them.
"""

from collections.abc import Mapping
from typing import Any

from ....faults.kinds import Excuse, FaultKind
from ..disk_models import DISK_MODELS
from ..ranges import Options, Ranges
from ..scenario import Scenario
from . import brokers, clusters
from .brokers import BROKER
from .clusters import CLUSTER
from .disturbances import NAME_CRASHES, UNQUEUED

_FEATURES: Mapping[str, Mapping[str, Any]] = {
    "batches": {"messages": {"batch_chance": (0.2,)}},
    "unawaited puts": {"messages": {"no_wait_chance": (0.2,)}},
    "odd messages": {"messages": {"illegal_chance": (0.1,)}},
    "key index": {"index": {"slots": (5, 40), "keys_chance": (0.0, 0.3), "seekers": (0, 1)}},
    "warm files": {"memory": {"warm_files": (True,)}},
    "transient pool": {"memory": {"transient_pool": (True,)}, "sync_flush": (False,)},
    "delayed messages": {"delay": {"chance": (0.1, 0.4)}},
    "transactions": {"transactions": {"chance": (0.1, 0.4)}},
    "light queues": {"light_queues": {"chance": (0.3,)}},
    "filters": {"consuming": {"filtered": (True,)}},
    "group progress": {"consuming": {"commits_offsets": (True,)}},
}
_RETENTION: Mapping[str, Any] = {
    "retention": {"deletes_segments": (True,)},
    "commit_log_bytes": (1024, 2048),
    "consume_queue_bytes": (100, 200),
    "queues_per_topic": (2, 4),
    "messages": {"body_bytes_max": (300, 700)},
    "messages_each": (8, 16),
    "pauses": {"chance": (0.2, 0.5), "ms_max": (30, 100, 3000)},
}
"""When a queue has no messages left, retention removes its directory."""
_TROUBLES: Mapping[str, Mapping[str, Any]] = {
    "pauses of tasks": {"disturbances": {"paused_task_chance": (0.05, 0.2)}},
    "pauses of machines": {"disturbances": {"paused_machine_chance": (0.05,)}},
    "starvation": {"starved_steps_max": (50, 500)},
}
_LONG_UNSYNCED: Mapping[str, Any] = {
    "sync_flush": (False,),
    "commit_log_bytes": (8192, 16_384),
    "messages": {"body_bytes_max": (300, 900), "property_bytes_max": (700, 1500)},
}
"""Power cuts affect pages of many sectors and files of several pages."""


def _faults_with_excuses(excuses: Excuse) -> dict[str, Mapping[str, Any]]:
    """Return name -> options of each disk fault that permits one of these failures; for NOTHING, permits none."""
    rows = [kind.row for kind in FaultKind if kind.row.odds]
    found = [row for row in rows if row.excuses & excuses or row.excuses == excuses]
    return {row.name: {"faults": {row.knob: row.odds}} for row in found}


_SLOW_DISK: Mapping[str, Mapping[str, Any]] = {
    **_faults_with_excuses(Excuse.DELAY),
    "slow sync": {"faults": {"slow_sync_chance": (0.1,), "slow_sync_ms_max": (300, 12_000)}},
}
_FAULTS_WITHOUT_ERRORS: Mapping[str, Mapping[str, Any]] = _faults_with_excuses(Excuse.NOTHING)
_TORN: Mapping[str, Mapping[str, Any]] = {"torn sectors": {"faults": {"torn_bytes_chance": (1.0,)}, **_LONG_UNSYNCED}}
"""A torn sector is visible only if a power cut tears a page, so this group is enabled more often."""
_FAILING_DISK: Mapping[str, Mapping[str, Any]] = {
    **_FAULTS_WITHOUT_ERRORS,
    **_faults_with_excuses(Excuse.SYNC_ERROR | Excuse.ERROR | Excuse.NO_SPACE),
    # A file system stops only after a failed sync.
    "stopped file system": {"faults": {"stopped_file_system_chance": (0.5,), "failed_sync_chance": (0.05,)}},
}
"""An error ends its operation and hides later errors, so each seed enables only a few."""
_FAILING_CHANCE = 0.2
_LYING: Mapping[str, Mapping[str, Any]] = {
    "late sync errors": {"faults": {"failed_sync_chance": (0.05, 0.1), "lying_sync_chance": (0.0, 0.1, 0.5)}}
}
_DYING: Mapping[str, Mapping[str, Any]] = {
    "lost writes": {"faults": {"lost_write_chance": (0.1,)}},
    "misdirected writes": {"faults": {"misdirected_write_chance": (0.05,)}},
    "rotting bits": {"rot": {"bit_rot_chance": (0.1,)}},
    "zeroed sectors": {"rot": {"zeroed_sector_chance": (0.1,)}},
    "swapped pages": {"rot": {"swapped_pages_chance": (0.5,)}, **_LONG_UNSYNCED},
    "unreadable sectors": {"rot": {"latent_sector_error_chance": (0.1,)}},
}
_GARBAGE: Mapping[str, Mapping[str, Any]] = {
    "garbage": {"faults": {"garbage_chance": (1.0,)}, "endings": ("crash in traffic",), **_LONG_UNSYNCED}
}
"""Garbage occurs only if the power fails during the write of a sector."""
_ENDINGS = (
    *("crash in traffic",) * 4,
    *("crash at rest", "crash in load", "crash in persist", "stop", "stop", "stop in traffic"),
)
_SMALL_DISKS: Mapping[str, Mapping[str, Any]] = {
    "small disk": {"capacity_bytes": (24_000, 40_000)},
    "small sparse disk": {"capacity_bytes": (16_000, 24_000), "faults": {"sparse": (True,)}},
}
_CRASHES: Mapping[str, Mapping[str, Any]] = {
    "crashes at rest": {"endings": (*_ENDINGS, *("crash at rest",) * 8), **_RETENTION},
    "crashes in persist": {
        "endings": (*_ENDINGS, *("crash in persist",) * 8),
        "consuming": {"commits_offsets": (True,)},
        "consumers": (1, 2),
    },
}
"""Crashes right after a queue was removed, and while offsets are replaced."""
_ALONE: Mapping[str, Mapping[str, Any]] = {
    "retention": _RETENTION,
    **_SMALL_DISKS,
    "second starts": {"starts": {"second": (True,)}},
}
_CLOCK: Mapping[str, Mapping[str, Any]] = {"clock steps": {"disturbances": {"clock_step_chance": (0.1,)}}}
_ALTERING = (
    *("crash in traffic", "stop", "stop and odd file"),
    *("stop and strays",) * 4,
    *("stop and damaged progress",) * 2,
    *("crash on old blocks",) * 4,
    *("crash in persist", "stop in traffic"),
)
"""The endings that every mix of the swarm for altered files may use."""
_EXCLUDING: Mapping[str, Mapping[str, Any]] = {
    "lost tails": {
        "endings": (*_ALTERING, *("stop and damage",) * 12),
        "retention": {"deletes_segments": (False,), "deletes_queues": (False,)},
    },
    "flipped numbers": {
        "endings": (*_ALTERING, *("stop and flipped number",) * 12, *("stop and damage",) * 4),
        "transactions": {"chance": (0.0,)},
        "light_queues": {"chance": (0.0,)},
        "retention": {"deletes_segments": (False,), "deletes_queues": (False,)},
    },
}
"""Groups that exclude others, because the oracle cannot check both: see `APART` in campaigns/pairs.py."""
_RARE_FAULTS_OF_DISKS: Mapping[str, Mapping[str, Any]] = {
    "garbage": {"disk": ("dying-disk",), "faults": {"garbage_chance": (1.0,)}, **_LONG_UNSYNCED},
    "rot": {
        "disk": ("dying-disk",),
        "rot": {
            "bit_rot_chance": (0.0, 0.3),
            "zeroed_sector_chance": (0.0, 0.1),
            "swapped_pages_chance": (0.0, 0.5),
            "latent_sector_error_chance": (0.0, 0.3),
        },
    },
    "late sync errors": {
        "disk": ("lying-disk",),
        "faults": {**_LYING["late sync errors"]["faults"], "garbage_chance": (0.0,)},
        "rot": {
            "bit_rot_chance": (0.0,),
            "zeroed_sector_chance": (0.0,),
            "swapped_pages_chance": (0.0,),
            "latent_sector_error_chance": (0.0,),
        },
    },
}
"""Rare faults of a single disk model, for stores with altered files. The last active group sets the disk."""
_HONEST_DISKS = tuple(name for name in DISK_MODELS if name not in ("lying-disk", "dying-disk"))
_MIX = Ranges(
    index={"slots": (0,)},
    memory={"warm_files": (False,)},
    messages={
        "body_bytes_max": (0, 40, 300),
        "property_bytes_max": (0, 0, 300),
        "batch_chance": (0.0,),
        "illegal_chance": (0.0,),
        "no_wait_chance": (0.0,),
    },
    messages_each=(3, 8),
    consumers=(0, 1, 2),
    lives=(1, 2, 3),
)


def _network_fault_groups(chances: Mapping[str, Options]) -> dict[str, Mapping[str, Any]]:
    """Return name -> non-zero probabilities, one group for each network fault."""
    return {
        name.replace("_", " "): {"network": {name: [chance for chance in options if chance]}}
        for path, options in chances.items()
        for name in [path.removeprefix("network.")]
        if name.endswith("_chance")
    }


_OF_BROKERS: Mapping[str, Mapping[str, Any]] = {
    **{name: _FEATURES[name] for name in ("warm files", "transient pool", "delayed messages", "filters")},
    "key index": {"index": {"slots": (5, 40)}},
    "transactions": {"transactions": {"chance": (0.3,)}},
    "client deaths": {"broker": {"client_death_chance": (0.1, 0.2)}},
    "batches": {"messages": {"batch_chance": (0.3,)}},
    "requests in flight": {"broker": {"sends_in_flight": (2, 3)}},
    "retries": {"broker": {"send_back_chance": (0.3,)}, "consumers": (1, 2)},
    "operators": {"broker": {"operators": (1,)}, "sync_flush": (True,), "memory": {"transient_pool": (False,)}},
}
_SLAVES: Mapping[str, Any] = {
    "sync_flush": (True,),
    "memory": {"transient_pool": (False,)},
    "transactions": {"chance": (0.0,)},
    "cluster": {
        "slaves": (1,),
        "sync_master": (False, True),
        "slave_sync_flush": (True, False),
        "slave_timeout_ms": (200, 3_000),
        "transfer_batch_bytes": (500, 32_768),
    },
    "broker": {"slaves_are_read": (True, False), **brokers.SLAVE_SETTINGS},
    "faults": {"failed_sync_chance": (0.0,), "failed_write_back_chance": (0.0,)},
}
"""Options for a broker without half messages.

If a failed sync drops data that a slave has, no slave follows the master again. A sync master then answers no put with
SUCCESS.
"""
_BROKER_RETENTION: Mapping[str, Any] = {
    **_RETENTION,
    "cluster": {"sync_master": (False,)},
    "broker": {"operators": (0,)},
}
"""While a slave is off, retention may remove the data that it needs next. Puts must not wait for such a slave.

An operator would remove queues without messages, and their offsets would restart at 0.
"""
_WITHOUT_LOSSES: Mapping[str, Any] = {
    "network": {knob: (0.0,) for knob in brokers.TROUBLED if knob.endswith("_chance")},
    "faults": {knob: (0.0,) for each in _FAILING_DISK.values() for knob in each["faults"] if knob.endswith("_chance")},
    "capacity_bytes": (0,),
    "retention": {"deletes_segments": (False,)},
    "transactions": {"chance": (0.0,)},
}
_USERS_OF_BROKERS: Mapping[str, Mapping[str, Any]] = {
    "group members": {
        "broker": {"group_members": (2, 3), "leave_chance": (0.0, 0.2), "send_back_chance": (0.0,)},
        **_WITHOUT_LOSSES,
    },
    "look-ups": {
        "index": {"slots": (5, 40), "keys_chance": (0.5,), "seekers": (1,)},
        "delay": {"chance": (0.0,)},
        **_WITHOUT_LOSSES,
    },
}
"""Users with checks that need a network and a disk without faults, and for look-ups also that a put makes its message
visible. A group removes such faults from its runs.
"""
_EVERYTHING = _MIX.with_optional(**_FEATURES, **_TROUBLES, **_SLOW_DISK).with_optional(0.25, **_CLOCK)
_ALONE_MIX = (
    _EVERYTHING.replace(endings=_ENDINGS)
    .with_optional(_FAILING_CHANCE, **_FAILING_DISK)
    .with_optional(0.3, **_CRASHES, **_ALONE, **_TORN)
    .with_late_optional(0.15, name_crashes=NAME_CRASHES, unqueued=UNQUEUED)
)

SCENARIOS: tuple[Scenario, ...] = (
    Scenario(
        "swarm-store",
        "after any mix of features and faults, a store keeps every promise that holds under each of them",
        _ALONE_MIX.replace(
            disk=(*_HONEST_DISKS, *("strict-posix",) * 3), directories={"log_directories": (1, 1, 1, 2)}
        ),
        stream="any-mix-keeps-every-promise",
    ),
    Scenario(
        "swarm-lying-disk",
        "after any mix of features and faults on a lying disk, queues and index cover every remaining record",
        _ALONE_MIX.replace(disk=("lying-disk",)).with_optional(**_LYING),
        stream="any-mix-on-a-lying-disk-leaves-one-store",
    ),
    Scenario(
        "swarm-dying-disk",
        "after any mix of features on a dying disk, every record before the first damage is present and no task hangs",
        _ALONE_MIX.replace(disk=("dying-disk",)).with_optional(0.25, **_DYING).with_optional(0.4, **_GARBAGE),
        stream="any-mix-never-makes-a-dying-disk-worse",
    ),
    Scenario(
        "swarm-altered-files",
        "after any mix of features and faults, a store whose files were altered while it was off opens with all of its "
        "messages or names the damaged file",
        _EVERYTHING.replace(
            endings=_ALTERING,
            disk=("strict-posix", "ext4-ordered", "full-disk", "lying-disk", "dying-disk", "dying-disk"),
            messages={"body_bytes_max": (300, 394, 700)},
            commit_log_bytes=(2048, 2048, 4096, 8192),
            consumers=(1, 2),
            consuming={"commits_offsets": (True,)},
            lives=(2, 3),
        )
        .with_optional(0.15, **_FAILING_DISK)
        .with_optional(0.3, **_ALONE, **_TORN)
        .with_optional(0.2, **_RARE_FAULTS_OF_DISKS)
        .with_optional(0.25, **_EXCLUDING),
        stream="any-mix-outlives-what-is-done-to-its-files",
    ),
    Scenario(
        "swarm-cluster",
        "after any mix of features and faults in a cluster every answer is true, and slaves have the data of their "
        "master",
        CLUSTER.replace(
            endings=(*CLUSTER["endings"], "stop in traffic"),
            memory={"transient_pool": (False,)},
            index={"slots": (0,)},
            messages={"batch_chance": (0.0,), "illegal_chance": (0.0,), "no_wait_chance": (0.0,)},
            cluster={"flipped_bit_chance": (0.0, 0.5)},
            network={"partition_ms_max": (500, 5_000, 30_000), "split_chance": (0.0,), "late_chance": (0.0,)},
            messages_each=(3, 8),
        )
        .with_optional(**_FEATURES, **_TROUBLES, **_SLOW_DISK, **_network_fault_groups(clusters.TROUBLED.chosen))
        .with_optional(0.25, **_CLOCK, **_TORN)
        .with_optional(0.3, retention=_RETENTION)
        .with_optional(0.15, **_FAILING_DISK, **_SMALL_DISKS),
        stream="any-mix-keeps-a-cluster-whole",
    ),
    Scenario(
        "swarm-broker",
        "after any mix of features and faults, every answer of a broker is true, and the broker works once the faults "
        "end",
        BROKER.replace(
            endings=(*("crash in traffic",) * 3, "crash at rest", "crash in load", "stop", *("stop in traffic",) * 2),
            producers=(1, 2),
            messages_each=(2, 5),
            messages={"body_bytes_max": (40, 300, 900)},
            lives=(1, 2),
            index={"slots": (0,)},
            disturbances={"paused_task_chance": (0.0,), "paused_machine_chance": (0.0,)},
            network={"partition_ms_max": (500, 5_000), "split_chance": (0.0,), "late_chance": (0.0,)},
            broker={"client_death_chance": (0.0,)},
        )
        .with_optional(**_OF_BROKERS, **_TROUBLES, **_SLOW_DISK)
        .with_optional(0.4, **_network_fault_groups(brokers.TROUBLED), **_CLOCK, **_SMALL_DISKS)
        .with_optional(0.2, **_FAILING_DISK, **_TORN)
        .with_optional(0.2, slaves=_SLAVES)
        .with_optional(0.2, retention=_BROKER_RETENTION)
        .with_late_optional(0.1, **_USERS_OF_BROKERS)
        .with_late_optional(0.1, **{"light queues": brokers.LIGHT_QUEUES}),
        stream="any-mix-keeps-a-broker-truthful",
    ),
)
