"""Recovery: claims about the records that recovery keeps and truncates."""

from collections.abc import Mapping
from typing import Any

from ..ranges import Ranges
from ..scenario import Scenario
from .disturbances import EXPIRING_GAPS, LONG_GAPS, NAME_CRASHES, NO_SPACE_IN_WRITE_BACK, SLOW_CREATIONS, UNQUEUED

_KILLS: Mapping[str, Any] = {
    "disk": ("process-kill",),
    "endings": ("crash at rest",),
    "sync_flush": (False,),
    "settings": {"flush_interval_commit_log_ms": (30,)},
    "commit_log_bytes": (1024,),
    "messages": {"body_bytes_max": (300, 700), "property_bytes_max": (0,)},
    "pauses": {"chance": (0.5,), "ms_max": (300,)},
    "faults": {"failed_write_back_chance": (0.3,)},
}
"""The next process finds data of several segments that is only in the page cache, in pages that count as written."""
_UNSYNCED_UNITS: Mapping[str, Any] = {
    "sync_flush": (False,),
    "settings": {"enable_consume_queue_ext": (True,)},
    "faults": {"failed_sync_chance": (0.05, 0.1)},
    "flush": {"thorough_interval_ms": (2_000,)},
    "pauses": {"chance": (0.5,), "ms_max": (3_000,)},
}
"""Syncs of queues and their extension files fail, and the process is killed."""
KILLED_REMOVALS: Mapping[str, Any] = {
    **NAME_CRASHES,
    "disk": ("process-kill",),
    "commit_log_bytes": (4096,),
    "messages_each": (1, 2),
    "directories": {"log_directories": (2, 3, 3)},
    "index": {"slots": (0,)},
    "endings": ("crash at rest", *("crash in load",) * 3),
    "lives": (4,),
}
"""A process is killed after a load has removed the only segment in a log directory, before the sync."""
QUEUE_FLUSHES: Mapping[str, Any] = {
    "disk": ("process-kill",),
    "endings": ("crash at rest",),
    "sync_flush": (False,),
    "settings": {"flush_interval_consume_queue_ms": (50,), "flush_consume_queue_least_pages": (0,)},
    "commit_log_bytes": (16_384,),
    "flush": {"thorough_interval_ms": (2000,)},
    "pauses": {"chance": (0.5,), "ms_max": (3000,)},
    "faults": {"failed_write_back_chance": (0.1, 0.3)},
}
"""The syncs that fail are mostly those of queues."""
_SMALL_SEGMENTS: Mapping[str, Any] = {
    "commit_log_bytes": (1024, 2048),
    "messages": {"body_bytes_max": (300,)},
    "faults": {"failed_sync_chance": (0.1,)},
}
"""Syncs of several segments fail between two starts."""
_EMPTIED_QUEUES: Mapping[str, Any] = {
    "retention": {"deletes_segments": (True,)},
    "sync_flush": (False,),
    "flush": {"thorough_interval_ms": (10_000,)},
    "commit_log_bytes": (4096,),
    "messages": {"body_bytes_max": (900,)},
    "topics": (2,),
    "queues_per_topic": (4,),
    "consume_queue_bytes": (20, 40),
}
"""Retention removes the old messages of a queue, and a power cut the new ones."""

SCENARIOS: tuple[Scenario, ...] = (
    # Crashes repeatedly. All records have one size, so a new record may end exactly where a truncated one began.
    Scenario.define(
        "truncated-record-returns",
        "after recovery truncated a record, the record does not reappear after a later crash",
        stream="cut-records-never-return",
        sync_flush=(False, False, True),
        disk=("ext4-ordered", "xfs", "btrfs", "strict-posix"),
        messages={
            "equal_sizes": (True,),
            "batch_chance": (0.0,),
            "property_bytes_max": (0,),
            "body_bytes_max": (40, 300),
        },
        topics=(1,),
        lives=(2, 3, 4),
        endings=("crash in traffic", "crash at rest"),
        consumers=(0,),
    ).with_late_optional(0.3, emptied_queues=_EMPTIED_QUEUES),
    # Recovery starts at the checkpoint, not earlier.
    Scenario.define(
        "checkpoint-order",
        "after a crash, the checkpoint covers only durable data, so recovery rebuilds all missing queue entries",
        stream="checkpoint-never-leads",
        recover_whole_log=(False,),
        disk=("ext4-ordered", "xfs", "btrfs", "strict-posix"),
        commit_log_bytes=(1024, 2048),
        consume_queue_bytes=(100, 1000),
        pauses={"chance": (0.5,), "ms_max": (3000,)},
        flush={"thorough_interval_ms": (2000,)},
        endings=("crash at rest", "crash in traffic"),
        lives=(1, 2),
    )
    .with_late_optional(0.2, slow_creations=SLOW_CREATIONS)
    .with_late_optional(0.15, unqueued=UNQUEUED),
    # Records are long, and the body checksum does not cover most of their bytes.
    Scenario.define(
        "torn-record",
        "after a crash, a partly written record is truncated, wherever it is torn",
        stream="torn-records-are-dropped",
        sync_flush=(False,),
        disk=("ext4-ordered", "xfs", "btrfs", "strict-posix"),
        messages={"body_bytes_max": (0, 40, 900), "property_bytes_max": (700, 1500)},
        commit_log_bytes=(8192, 16384),
        endings=("crash at rest", "crash in traffic"),
        consumers=(0,),
    ),
    # Drops the last sector of the log while the machine is off; the clock may step back before the restart.
    Scenario.define(
        "lost-log-tail",
        "after the end of the log is lost, recovery truncates the log there and removes later queue entries",
        stream="lost-tail-is-cut-with-its-entries",
        endings=("stop and damage",),
        lives=(1, 2, 3),
        consumers=(0,),
        pauses={"chance": (0.2, 0.5), "ms_max": (30, 3000)},
        disturbances={"clock_step_chance": (0.0, 0.1)},
    ),
    # Flips a bit in a record that the next start considers durable. In some runs the queues are deleted, too.
    Scenario.define(
        "corrupt-record",
        "after a record in the middle of the log is damaged, only that record is missing in its segment",
        stream="damage-hides-nothing-behind-it",
        endings=("stop and damaged record",),
        lives=(1,),
        recover_whole_log=(True,),
        messages_each=(16, 24),
        commit_log_bytes=(1024, 2048, 4096),
        messages={"body_bytes_max": (40, 300), "property_bytes_max": (0, 300), "illegal_chance": (0.0,)},
        index={"slots": (0,)},
        consumers=(0, 1),
    ),
    # Queue offsets skip numbers at restarts, as in RocketMQ 4.9.8, or a bit of a record's queueOffset flips.
    Scenario.define(
        "queue-offset-gap",
        "after a queue skips offsets or a record has a wrong queueOffset, no consumer misses a message, whatever crash "
        "follows",
        stream="a-gap-in-the-numbers-hides-no-message",
        endings=("crash in traffic", "crash at rest", "crash in load", "stop", *("stop and flipped number",) * 2),
        starts={"skipped_numbers_max": (1, 2, 9)},
        lives=(2, 3, 4),
        messages_each=(3, 16),
        commit_log_bytes=(2048, 16384),
        messages={"body_bytes_max": (0, 40, 300), "property_bytes_max": (0,), "illegal_chance": (0.0,)},
        consumers=(1, 2),
        disk=(*("strict-posix", "ext4-ordered", "ext4-data", "xfs", "btrfs"), *("process-kill", "nothing-lost")),
    )
    .with_late_optional(0.4, expiry=EXPIRING_GAPS)
    .with_late_optional(0.2, unqueued=UNQUEUED)
    .with_late_optional(0.04, long_gaps=LONG_GAPS),
    # The kernel fails to write back data of a dead process, and reports the error once, to the next process that syncs.
    Scenario(
        "failed-writeback-before-start",
        "after the kernel fails to write back data, the next start does not consider this data durable",
        Ranges(
            sync_flush=(True, False),
            disk=("strict-posix", "ext4-ordered", "xfs", "btrfs", "process-kill"),
            faults={"failed_write_back_chance": (0.1, 0.3)},
            recover_whole_log=(True, False),
            directories={"log_directories": (1, 1, 2, 3)},
            endings=("crash in traffic", "crash in traffic", "crash at rest", "crash in load"),
            consumers=(0, 1),
            lives=(3, 4),
        )
        .with_optional(0.4, kills=_KILLS)
        .with_optional(0.3, queue_flushes=QUEUE_FLUSHES),
        stream="recovery-vouches-for-nothing-unwritten",
    )
    .with_late_optional(0.15, unsynced_units=_UNSYNCED_UNITS)
    .with_late_optional(0.3, no_space_in_write_back=NO_SPACE_IN_WRITE_BACK)
    .with_late_optional(0.3, small_segments=_SMALL_SEGMENTS),
    # Recovery crashes repeatedly while it removes truncated segments.
    Scenario.define(
        "crash-in-log-truncation",
        "after a crash during the removal of truncated segments, the next recovery opens the remaining segments",
        stream="a-cut-that-is-cut-short-leaves-no-gap",
        sync_flush=(False,),
        disk=("strict-posix",),
        commit_log_bytes=(1024,),
        messages={"body_bytes_max": (300, 700)},
        messages_each=(16,),
        directories={"log_directories": (1, 2, 2, 3)},
        endings=("crash at rest", *("crash in load",) * 2),
        consumers=(0,),
        lives=(3, 4),
    ).with_optional(0.35, killed_removals=KILLED_REMOVALS),
)
