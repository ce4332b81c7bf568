"""Answers: claims that the store's answers stay true after stops, faults and delays."""

from collections.abc import Mapping
from typing import Any

from ..scenario import Scenario
from .disturbances import LATE_SEGMENTS, NO_SPACE_IN_WRITE_BACK, UNQUEUED

_LATE_COMMITS: Mapping[str, Any] = {
    "sync_flush": (False,),
    "memory": {"transient_pool": (True,)},
    "commit_log_bytes": (1024,),
    "messages": {"body_bytes_max": (300, 700), "property_bytes_max": (0,)},
    "disturbances": {"paused_task_chance": (1.0,)},
}
"""Both buffers of the pool have uncommitted data when the store stops."""
_UNUSED_SEGMENTS: Mapping[str, Any] = {
    "commit_log_bytes": (1024,),
    "messages": {"body_bytes_max": (300, 700), "property_bytes_max": (0,)},
    "retention": {"deletes_segments": (True,)},
    "faults": {
        "failed_removal_chance": (0.7,),
        "slow_sync_chance": (0.4,),
        "slow_sync_ms_max": (12_000,),
    },
}
"""A stop removes segments that were preallocated and never used, and some removals fail."""
NEW_QUEUES: Mapping[str, Any] = {
    "producers": (3,),
    "consumers": (1,),
    "consuming": {"newcomers": (3,)},
    "topics": (4,),
    "queues_per_topic": (4,),
}
"""Clients ask for queues that dispatch creates at the same time."""

SCENARIOS: tuple[Scenario, ...] = (
    Scenario.define(
        "clean-shutdown",
        "after a clean stop in any flush mode, every message is present, and the next start finds no abort marker and "
        "changes no file",
        stream="clean-stop-loses-nothing",
        endings=("stop",),
        lives=(1, 2),
        consumers=(0, 1),
    ).with_late_optional(0.2, unused_segments=_UNUSED_SEGMENTS),
    # Cuts the power right after a clean stop. Few queues have records in the three segments that the next start reads.
    Scenario.define(
        "queue-fsync-at-shutdown",
        "after a clean stop, a power cut loses no queue entry, also in queues that the next start does not check",
        stream="a-clean-stop-leaves-no-queue-to-the-page-cache",
        endings=("stop",),
        disk=("strict-posix", "ext4-ordered", "xfs", "btrfs"),
        recover_whole_log=(False,),
        flush={"thorough_interval_ms": (2000, 10_000)},
        pauses={"chance": (0.5,), "ms_max": (3000,)},
        topics=(2, 4),
        queues_per_topic=(2, 4),
        commit_log_bytes=(1024,),
        messages={"body_bytes_max": (300, 700), "property_bytes_max": (0,)},
        messages_each=(16,),
        consumers=(0, 1),
        lives=(2, 3),
    ),
    # Stops the store while producers put, consumers pull and users look messages up.
    Scenario.define(
        "shutdown-under-load",
        "after a clean stop under load, every put answered OK is present and no refused put is",
        stream="a-stop-under-load-keeps-every-answer",
        memory={"transient_pool": (False, True, True), "warm_files": (False, True)},
        producers=(2, 3),
        consumers=(0, 1, 2),
        index={"seekers": (0, 1)},
        messages={"no_wait_chance": (0.0, 0.3)},
        disturbances={"paused_task_chance": (0.0, 0.0, 0.3)},
        faults={"short_write_chance": (0.0, 0.3)},
        endings=("stop in traffic",),
        lives=(1, 2),
    )
    .with_late_optional(0.25, late_segments=LATE_SEGMENTS)
    .with_late_optional(0.35, late_commits=_LATE_COMMITS),
    # Puts go to a buffer of the process. Writes fail or are short, and the process is killed or the power fails.
    Scenario.define(
        "write-buffer-kill",
        "after a kill of a store with a write buffer, only uncommitted messages are lost, and none that a consumer "
        "read",
        stream="a-kill-takes-only-what-was-not-committed",
        sync_flush=(False,),
        memory={"transient_pool": (True,), "warm_files": (False, True)},
        disk=("process-kill", "process-kill", "nothing-lost", "strict-posix", "ext4-ordered"),
        commit_log_bytes=(1024, 2048, 8192, 16384),
        consumers=(0, 1, 2),
        pauses={"chance": (0.2, 0.5), "ms_max": (1, 100, 1000)},
        faults={
            "failed_write_chance": (0.0, 0.0, 0.1),
            "short_write_chance": (0.0, 0.3),
            "refused_lock_chance": (0.0, 0.3),
            "failed_creation_chance": (0.0, 0.0, 0.1),
            "failed_sync_chance": (0.0, 0.0, 0.0, 0.03),
        },
        endings=("crash in traffic", "crash in traffic", "crash at rest", "crash in load", "stop"),
    ).with_late_optional(0.25, late_segments=LATE_SEGMENTS),
    Scenario.define(
        "slow-fsync-timeout",
        "after a slow sync, OK still means durable, and a put is answered with a timeout only after the timeout has "
        "passed",
        stream="slow-sync-times-out-truthfully",
        sync_flush=(True,),
        faults={"slow_sync_chance": (0.1, 0.4), "slow_sync_ms_max": (100, 3000)},
        flush={"sync_timeout_ms": (20, 200)},
        endings=("crash in traffic", "stop"),
        consumers=(0,),
    ),
    # A sync fails once, after which the kernel drops the dirty pages.
    Scenario.define(
        "failed-fsync-not-acknowledged",
        "after a failed sync, no put is answered OK unless its message is durable",
        stream="failed-sync-is-never-acknowledged",
        sync_flush=(True, True, False),
        faults={"failed_sync_chance": (0.0, 0.02, 0.1), "failed_write_back_chance": (0.02, 0.1)},
        endings=("crash in traffic", "crash at rest", "stop"),
        consumers=(0,),
    ).with_late_optional(0.3, no_space_in_write_back=NO_SPACE_IN_WRITE_BACK),
    # Producers put properties near the longest that a record can hold, in bytes or in characters.
    Scenario.define(
        "longest-properties",
        "after puts of long properties, those up to the limit are stored unchanged, longer ones are refused with the "
        "reason, and no other message is affected",
        stream="properties-are-kept-to-their-last-byte",
        commit_log_bytes=(131_072,),
        producers=(1, 2),
        consumers=(0, 1),
        messages_each=(3, 5),
        messages={
            "longest_chance": (0.6,),
            "batch_chance": (0.4,),
            "body_bytes_max": (0, 40, 300),
            "property_bytes_max": (0,),
            "equal_sizes": (False,),
        },
        lives=(1, 2),
    ),
    Scenario.define(
        "tag-filter-exact",
        "before and after a crash, a consumer gets exactly the messages that its subscription matches",
        stream="tag-filtered-reads-stay-exact",
        consumers=(1, 2),
        consuming={"filtered": (True,)},
        messages={"equal_sizes": (False,)},
        endings=("crash at rest", "stop", "crash in traffic"),
    )
    .with_late_optional(0.4, new_queues=NEW_QUEUES)
    .with_late_optional(0.15, unqueued=UNQUEUED),
    # Consumers read each message as soon as the store allows.
    Scenario.define(
        "consumed-message-durable",
        "after a power cut under sync flush, every message that a consumer read is present",
        stream="consumers-never-see-what-can-vanish",
        sync_flush=(True,),
        disk=("ext4-ordered", "xfs", "btrfs", "strict-posix"),
        consumers=(1, 2),
        messages={"no_wait_chance": (0.0, 0.5)},
        sync_ms_max=(10,),
        endings=("crash in traffic",),
    ),
    # Syncs fail, and the file system discards all data that is not on disk. Consumers read later.
    Scenario.define(
        "reads-after-failed-fsync",
        "after a failed sync, consumers read no dropped data and skip no message",
        stream="what-a-failed-sync-took-is-given-to-nobody",
        disk=("btrfs",),
        sync_flush=(False, False, True),
        faults={"failed_sync_chance": (0.1, 0.3), "failed_write_back_chance": (0.0, 0.0, 0.1)},
        disturbances={"paused_task_chance": (1.0,)},
        consumers=(2, 3),
        pauses={"chance": (0.5,)},
        messages_each=(8, 16),
        lives=(1, 2),
    ),
)
