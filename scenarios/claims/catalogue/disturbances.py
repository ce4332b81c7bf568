"""Disturbances: pauses and clock steps, and all faults of sound disks together."""

from collections.abc import Mapping
from typing import Any

from ..disk_models import DISK_MODELS
from ..scenario import Scenario

LATE_SEGMENTS = {"faults": {"slow_sync_chance": (0.4,), "slow_sync_ms_max": (12_000,)}}
"""Puts give up on a new segment after 5 s, and the segment is created later."""
NO_SPACE_IN_WRITE_BACK = {"faults": {"sync_error": ("ENOSPC", "EDQUOT")}}
"""Syncs fail because no space is left for the data, which does not mean that a later sync can succeed."""
SLOW_CREATIONS: Mapping[str, Any] = {
    "faults": {"slow_io_chance": (0.5,), "slow_io_ms_max": (3000,)},
    "consume_queue_bytes": (40,),
    "index": {"slots": (0,)},
    "producers": (1,),
    "topics": (2,),
    "queues_per_topic": (2, 4),
    "pauses": {"chance": (1.0,), "ms_max": (3000,)},
    "flush": {"thorough_interval_ms": (2000,)},
}
"""Queue files of two entries, created so slowly that flushes of all queues begin and end meanwhile."""
NAME_CRASHES: Mapping[str, Any] = {"crash_aim": ("name",)}
"""Crashes between the removal or rename of a name and its sync."""
CONF_CRASHES: Mapping[str, Any] = {"crash_aim": ("conf",), "disk": ("process-kill",)}
"""Crashes while an operator's change of accounts or settings replaces a file."""
FULL_QUOTA: Mapping[str, Any] = {"faults": {"space_error": ("EDQUOT",)}}
"""A quota is full, and not the whole disk."""
FAILED_SPACE_QUERIES = {"faults": {"failed_space_query_chance": (0.3, 1.0)}}
EXPIRING_GAPS: Mapping[str, Any] = {
    "retention": {"deletes_segments": (True,)},
    "consume_queue_bytes": (60, 100),
    "commit_log_bytes": (1024, 2048),
}
"""Retention removes queue files with skipped offsets."""
LONG_GAPS: Mapping[str, Any] = {
    "starts": {"skipped_numbers_max": (2_500,)},
    "consume_queue_bytes": (40_000,),
    "topics": (1,),
    "queues_per_topic": (1,),
}
"""A pull ends after 800 queue entries without a message. RocketMQ skips the rest of a file of 300,000 entries."""
_DELAYED_WITH_CLOCK_STEPS: Mapping[str, Any] = {
    "delay": {"chance": (0.8,)},
    "disturbances": {"clock_step_chance": (0.3, 0.5)},
}
LAST_STEPS: Mapping[str, Any] = {
    "sync_flush": (False,),
    "consumers": (0,),
    "pauses": {"chance": (0.5,), "ms_max": (700,)},
    "disturbances": {"last_clock_step_ms": (-3_600_000, -30_000)},
}
"""If the run heals, a last clock step back, after which the store must reach all its targets in time."""
UNQUEUED: Mapping[str, Any] = {"messages": {"unqueued_chance": (0.2,)}}
"""Some producers set the flag of a transaction without its properties, and no consumer gets their messages."""
_UNSOUND = ("lying-disk", "dying-disk")

SCENARIOS: tuple[Scenario, ...] = (
    Scenario.define(
        "pauses-and-clock-steps",
        "after pauses, starvation and clock steps, no message is missing and no answer is wrong; only time is lost",
        stream="pauses-and-clock-steps-change-no-answer",
        disturbances={
            "paused_task_chance": (0.0, 0.1, 0.5),
            "paused_machine_chance": (0.0, 0.05),
            "clock_step_chance": (0.0, 0.1, 0.5),
        },
        starved_steps_max=(0, 50, 2000),
        faults={"stall_chance": (0.0, 0.0, 0.01), "slow_io_chance": (0.0, 0.0, 0.05)},
        consumers=(0, 1, 2),
        flush={"sync_timeout_ms": (500, 5000)},
    )
    .with_late_optional(0.3, delayed_messages=_DELAYED_WITH_CLOCK_STEPS)
    .with_late_optional(0.4, last_steps=LAST_STEPS)
    .with_late_optional(0.2, slow_creations=SLOW_CREATIONS),
    # The kernel has evicted clean pages of memory-mapped files. A read of an evicted page waits for the drive or fails.
    Scenario.define(
        "transient-read-error",
        'after a page-in is slow or fails once, only time is lost: no data is truncated, no reader gets "not found", '
        "and no service ends",
        stream="what-cannot-be-read-just-now-is-not-missing",
        faults={"failed_page_in_chance": (0.05, 0.2), "slow_page_in_chance": (0.0, 0.1)},
        sync_flush=(True, True, False),
        recover_whole_log=(False, True),
        commit_log_bytes=(1024, 2048, 4096),
        consume_queue_bytes=(100, 200),
        consumers=(1, 2),
        delay={"chance": (0.0, 0.0, 0.3)},
        transactions={"chance": (0.0, 0.0, 0.3)},
        index={"keys_chance": (0.0, 0.3), "seekers": (0, 1)},
        retention={"deletes_segments": (False, False, True)},
        lives=(1, 2, 3),
        endings=("crash in traffic", "crash at rest", "crash in load", "stop"),
    ),
    # Forces rare branches, which crashes and faults seldom reach (`store.marks.FORCIBLE`).
    Scenario.define(
        "forced-rare-branches",
        "after a rare branch is forced although its condition is false, the store only loses time or retries, and no "
        "promise is broken",
        forced_branch_chance=(0.05, 0.3),
        sync_flush=(True, False),
        memory={"transient_pool": (False, True)},
        commit_log_bytes=(1024, 2048, 4096),
        recover_whole_log=(False, True),
        index={"slots": (5, 40), "keys_chance": (0.3,), "seekers": (0, 1)},
        delay={"chance": (0.0, 0.3)},
        transactions={"chance": (0.0, 0.0, 0.3)},
        retention={"deletes_segments": (False, False, True)},
        faults={"failed_sync_chance": (0.0, 0.0, 0.02), "slow_sync_chance": (0.0, 0.1)},
        consumers=(0, 1),
        lives=(1, 2, 3),
        endings=("crash in traffic", "crash at rest", "crash in load", "crash in persist", "stop"),
    ),
    Scenario.define(
        "combined-faults",
        "after any mix of crashes, errors, delays and pauses on a disk that keeps synced data, no promise is broken",
        stream="anything-goes",
        disk=tuple(name for name in DISK_MODELS if name not in _UNSOUND),
        faults={
            "failed_sync_chance": (0.0, 0.0, 0.0, 0.02),
            "failed_write_back_chance": (0.0, 0.0, 0.0, 0.02),
            "failed_directory_sync_chance": (0.0, 0.0, 0.0, 0.05),
            "stopped_file_system_chance": (0.0, 0.3),
            "slow_sync_chance": (0.0, 0.0, 0.1),
            "slow_sync_ms_max": (3000, 12_000),
            "failed_write_chance": (0.0, 0.0, 0.05),
            "short_write_chance": (0.0, 0.0, 0.3),
            "failed_read_chance": (0.0, 0.0, 0.0, 0.1),
            "failed_map_chance": (0.0, 0.0, 0.0, 0.05),
            "failed_lookup_chance": (0.0, 0.0, 0.0, 0.02),
            "failed_removal_chance": (0.0, 0.0, 0.0, 0.2),
            "failed_rename_chance": (0.0, 0.0, 0.0, 0.2),
            "refused_lock_chance": (0.0, 0.0, 0.3),
            "failed_creation_chance": (0.0, 0.0, 0.0, 0.2),
            "failed_extend_chance": (0.0, 0.0, 0.0, 0.1),
            "sparse": (False, False, False, True),
            "slow_io_chance": (0.0, 0.0, 0.1),
            "stall_chance": (0.0, 0.0, 0.01),
        },
        disturbances={
            "paused_task_chance": (0.0, 0.0, 0.2),
            "paused_machine_chance": (0.0, 0.0, 0.05),
            "clock_step_chance": (0.0, 0.0, 0.2),
        },
        directories={"log_directories": (1, 1, 2, 3)},
        starved_steps_max=(0, 0, 500),
        lives=(1, 2, 3, 4),
        endings=("crash in traffic", "crash at rest", "crash in load", "stop", "stop in traffic"),
        consumers=(0, 1),
        memory={"transient_pool": (False, False, True)},
        index={"keys_chance": (0.0, 0.3)},
        messages={"batch_chance": (0.0, 0.2), "limit_bytes": (0, 0, 200)},
        capacity_bytes=(0, 0, 0, 24_000),
    ).with_late_optional(0.3, no_space_in_write_back=NO_SPACE_IN_WRITE_BACK),
)
