"""The swarm: everything that a run can have, of which each seed leaves out half.

The other themes say one thing each, and what they leave alone never meets there. Here a seed draws first which
features and faults take part, then what they are: what is left out makes room for the rest (swarm testing, Groce et
al., ISSTA 2012).
"""

from collections.abc import Mapping
from typing import Any

from ..disk_models import DISK_MODELS
from ..ranges import Ranges
from ..scenario import Scenario
from .clusters import CLUSTER, TROUBLED

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
    "commit_log_bytes": (2048,),
    "consume_queue_bytes": (100, 200),
}
_TROUBLES: Mapping[str, Mapping[str, Any]] = {
    "pauses of tasks": {"disturbances": {"paused_task_chance": (0.05, 0.2)}},
    "pauses of machines": {"disturbances": {"paused_machine_chance": (0.05,)}},
    "starvation": {"starved_steps_max": (50, 500)},
}
_SLOW_DISK: Mapping[str, Mapping[str, Any]] = {
    "slow syncs": {"faults": {"slow_sync_chance": (0.1,), "slow_sync_ms_max": (300, 12_000)}},
    "slow IO": {"faults": {"slow_io_chance": (0.0, 0.1)}},
    "stalls": {"faults": {"stall_chance": (0.0, 0.01)}},
}
_FAILING_DISK: Mapping[str, Mapping[str, Any]] = {
    "failing syncs": {"faults": {"failed_sync_chance": (0.0, 0.0, 0.02)}},
    "failing directory syncs": {"faults": {"failed_directory_sync_chance": (0.0, 0.0, 0.05)}},
    "stopping file systems": {"faults": {"stopped_file_system_chance": (0.3,)}},
    "failing writes": {"faults": {"failed_write_chance": (0.0, 0.05)}},
    "short writes": {"faults": {"short_write_chance": (0.3,)}},
    "failing reads": {"faults": {"failed_read_chance": (0.0, 0.0, 0.1)}},
    "failing maps": {"faults": {"failed_map_chance": (0.0, 0.0, 0.05)}},
    "failing look-ups": {"faults": {"failed_lookup_chance": (0.0, 0.0, 0.02)}},
    "failing removals": {"faults": {"failed_removal_chance": (0.3,)}},
    "refused locks": {"faults": {"refused_lock_chance": (0.3,)}},
    "failing creations": {"faults": {"failed_creation_chance": (0.0, 0.0, 0.2)}},
    "failing growth": {"faults": {"failed_extend_chance": (0.0, 0.0, 0.1)}},
    "sparse files": {"faults": {"sparse": (True,)}},
    "torn sectors": {"faults": {"torn_bytes_chance": (0.5,)}},
}
_ENDINGS = (
    *("crash in traffic",) * 4,
    *("crash at rest", "crash in load", "crash in persist", "stop", "stop", "stop in traffic"),
    *("stop and strays", "stop and returned file", "stop and odd file"),
    "crash on old blocks",
)
_ALONE: Mapping[str, Mapping[str, Any]] = {
    "retention": _RETENTION,
    "small disk": {"capacity_bytes": (24_000, 40_000)},
    "second starts": {"starts": {"second": (True,)}},
}
_CLOCK: Mapping[str, Mapping[str, Any]] = {
    "clock steps": {"disturbances": {"clock_step_chance": (0.1,)}},
}
_EXCLUDING: Mapping[str, Mapping[str, Any]] = {
    "damaged progress": {"endings": (*_ENDINGS, *("stop and damaged progress",) * 4)},
    "lost tails": {
        "endings": (*_ENDINGS, *("stop and damage",) * 4),
        "retention": {"deletes_segments": (False,), "deletes_queues": (False,)},
    },
    "flipped numbers": {
        "endings": (*_ENDINGS, *("stop and flipped number",) * 4),
        "transactions": {"chance": (0.0,)},
        "light_queues": {"chance": (0.0,)},
        "retention": {"deletes_segments": (False,), "deletes_queues": (False,)},
    },
}
"""What leaves out more than itself, for it is not judged with that: see `APART` in campaigns/pairs.py."""
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
"""What takes part in all of them."""

_LINKS: Mapping[str, Mapping[str, Any]] = {
    name.replace("_", " "): {"network": {name: [chance for chance in options if chance]}}
    for path, options in TROUBLED.chosen.items()
    for name in [path.removeprefix("network.")]
    if name.endswith("_chance")
}

SCENARIOS: tuple[Scenario, ...] = (
    Scenario(
        "any-mix-keeps-every-promise",
        "whichever features and faults a store meets together, it keeps what it promises with each of them",
        _MIX.replace(disk=tuple(DISK_MODELS), endings=_ENDINGS)
        .with_optional(**_FEATURES, **_TROUBLES, **_SLOW_DISK, **_FAILING_DISK, **_ALONE)
        .with_optional(0.25, **_CLOCK)
        .with_optional(0.15, **_EXCLUDING),
    ),
    Scenario(
        "any-mix-keeps-a-cluster-whole",
        "whichever features and faults meet in a cluster, users are answered the truth, and slaves have what it is of",
        CLUSTER.replace(
            memory={"transient_pool": (False,)},
            index={"slots": (0,)},
            messages={"batch_chance": (0.0,), "illegal_chance": (0.0,), "no_wait_chance": (0.0,)},
            network={"partition_ms_max": (500, 5_000, 30_000), "split_chance": (0.0,), "late_chance": (0.0,)},
            messages_each=(3, 8),
        )
        .with_optional(**_FEATURES, **_TROUBLES, **_LINKS)
        .with_optional(0.25, **_CLOCK),
    ),
)
