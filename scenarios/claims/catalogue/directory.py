"""Directory: expiry, files changed by other programs, and second starts."""

from collections.abc import Mapping
from typing import Any

from ..machine import INDEX_SIZES
from ..scenario import Scenario
from .disturbances import FAILED_SPACE_QUERIES, LATE_SEGMENTS, NAME_CRASHES, SLOW_CREATIONS

_FAILED_NAME_SYNCS: Mapping[str, Any] = {
    "heals": (True,),
    "faults": {"failed_directory_sync_chance": (0.7,)},
    "commit_log_bytes": (1024,),
    "messages": {"body_bytes_max": (300, 700), "property_bytes_max": (0,)},
}
"""During traffic, the sync of the directory of a new segment often fails."""
_HOURS_OF_DELETION: Mapping[str, Any] = {
    "retention": {"delete_when": ("00;12;13;14;15", "04;23"), "deletes_queues": (False,), "hours_off": (0,)},
    "faults": {"failed_space_query_chance": (0.0,)},
}
"""Runs begin at 12:26 of their clocks."""
_SWITCHED = ("message_index_enable", "transient_store_pool_enable", "recover_whole_log", "enable_consume_queue_ext")

SMALL_LIMIT: Mapping[str, Any] = {
    "starts": {"switched": ("max_message_size",)},
    "delay": {"chance": (0.5,)},
    "transactions": {"chance": (0.0, 0.4)},
    "messages": {"limit_bytes": (60,), "body_bytes_max": (120,), "batch_chance": (0.0,)},
}
"""Delayed and half messages become too large for the store until a later start."""
_INDEX_SIZES: Mapping[str, Any] = {"starts": {"switched": INDEX_SIZES}, "recover_whole_log": (False,)}
"""The index files of earlier starts have another size, so a load rebuilds them."""
_UNSYNCED_INDEX_NAMES: Mapping[str, Any] = {
    **_INDEX_SIZES,
    "index": {"slots": (3,), "entries": (20,), "keys_chance": (0.7,)},
    "disk": ("process-kill",),
    "crash_aim": ("sync",),
    "sync_flush": (True,),
    "light_queues": {"chance": (0.0,)},
}
"""A kill falls between the creation of an index file and the sync of its name."""
_EXPIRY: Mapping[str, Any] = {
    "retention": {"deletes_segments": (True,)},
    "commit_log_bytes": (1024, 2048),
    "consume_queue_bytes": (100, 200),
    "messages": {"body_bytes_max": (40, 300), "property_bytes_max": (0,)},
}

SCENARIOS: tuple[Scenario, ...] = (
    # Old segments are deleted repeatedly. Meanwhile the machine dies.
    Scenario.define(
        "retention-oldest-first",
        "after segments expire, only the oldest segments are missing, also after a crash",
        stream="retention-takes-only-the-oldest",
        retention={"deletes_segments": (True,), "deletes_queues": (True, True, False)},
        transactions={"chance": (0.0, 0.3)},
        queues_per_topic=(1, 2, 4),
        commit_log_bytes=(1024, 2048),
        consume_queue_bytes=(100, 200),
        messages={"body_bytes_max": (300, 700), "property_bytes_max": (0,)},
        messages_each=(8, 16, 24),
        pauses={"chance": (0.2, 0.5), "ms_max": (30, 100, 3000)},
        consumers=(0, 1, 2),
        faults={"failed_directory_sync_chance": (0.0, 0.0, 0.0, 0.1), "failed_removal_chance": (0.0, 0.3, 0.3)},
        disturbances={"paused_task_chance": (0.0, 0.2, 1.0)},
        starved_steps_max=(0, 500),
        attribute_points=(False, True, True),
        directories={"log_directories": (1, 1, 2, 3)},
        errors_stop=(True, True, False),
        lives=(1, 2, 3),
        endings=(*("crash in traffic", "crash in traffic", "crash at rest", "crash in load"), *("stop", "stop")),
    )
    .with_late_optional(0.15, late_segments=LATE_SEGMENTS, failed_space_queries=FAILED_SPACE_QUERIES)
    .with_late_optional(0.3, days_off={"retention": {"hours_off": (100,)}, "transactions": {"chance": (0.0,)}})
    .with_late_optional(0.15, hours_of_deletion=_HOURS_OF_DELETION)
    .with_late_optional(0.25, name_crashes=NAME_CRASHES),
    # A pass of the transaction check pauses while retention deletes its half messages and op messages.
    Scenario.define(
        "transaction-expired",
        "after retention deletes a half message during its check, the message is neither put back nor checked again",
        stream="what-has-expired-is-asked-about-no-more",
        retention={"deletes_segments": (True,), "deletes_queues": (True, True, False)},
        transactions={"chance": (0.3, 0.6)},
        topics=(1,),
        queues_per_topic=(1, 2),
        commit_log_bytes=(1024,),
        consume_queue_bytes=(100, 200),
        messages={"body_bytes_max": (300,), "property_bytes_max": (0,)},
        messages_each=(16, 24),
        pauses={"chance": (0.5,), "ms_max": (300, 1000)},
        disturbances={"paused_task_chance": (0.5, 1.0)},
        attribute_points=(True, True, False),
        disk=("nothing-lost", "nothing-lost", "process-kill"),
        endings=("crash at rest", "crash at rest", "stop"),  # a clean stop persists the progress of the check
        lives=(1, 2),
    ),
    # After a crash, intact records of a deleted segment appear after the log's end, in reused sectors.
    Scenario.define(
        "stale-block-reuse",
        "after a crash, valid records of a deleted segment after the end of the log do not count as records",
        stream="old-blocks-are-never-records",
        endings=("crash on old blocks",),
        disk=("ext4-ordered", "xfs", "strict-posix", "nothing-lost"),
        commit_log_bytes=(2048, 4096),
        messages={"body_bytes_max": (394, 394, 500), "property_bytes_max": (0,), "equal_sizes": (True, True, False)},
        messages_each=(8, 16),
        lives=(1, 2),
    ),
    # While the store is off, a file of log or queues is damaged, replaced or added. A start precedes the repair.
    Scenario.define(
        "wrong-segment-size",
        "after a file of log or queues gets a wrong size, kind or name, the store refuses to open and keeps the log; "
        "after the repair it opens with all messages",
        stream="odd-segments-are-refused-not-forgotten",
        endings=("stop and odd file",),
        commit_log_bytes=(1024, 2048),
        messages={"body_bytes_max": (300, 700)},
        lives=(1, 2),
    ),
    # Segments are lost while the store is off. The segments before the gap become old enough to expire.
    Scenario.define(
        "log-segment-missing",
        "after segments at the start or in the middle of the log are lost, only their messages are missing, and only "
        "retention removes the segments before a gap",
        endings=("stop and missing segment", "stop and missing segment", "crash at rest", "crash in load", "stop"),
        lives=(1, 2, 3),
        retention={"deletes_segments": (False, False, True)},
        directories={"log_directories": (1, 1, 2, 3)},
        commit_log_bytes=(1024, 2048),
        consume_queue_bytes=(100, 200),
        memory={"transient_pool": (False, True)},
        messages={"body_bytes_max": (40, 300), "property_bytes_max": (0,)},
        messages_each=(8, 16),
        index={"keys_chance": (0.0, 0.3)},
        consumers=(0, 1),
    ),
    # While the store is off, foreign files and empty segments appear, also in a second log directory. A queue file is
    # truncated or the checkpoint is damaged.
    Scenario.define(
        "foreign-and-damaged-files",
        "after foreign files appear or derived files are damaged, the store opens with all messages and does not "
        "change foreign files",
        stream="what-is-not-the-stores-is-left-alone",
        endings=("stop and strays", "stop and strays", "crash in load", "crash in traffic"),
        lives=(1, 2, 3),
        commit_log_bytes=(1024, 2048, 4096),
        consume_queue_bytes=(100, 200),
        index={"keys_chance": (0.0, 0.3)},
        messages={"body_bytes_max": (40, 300), "property_bytes_max": (0,)},
        messages_each=(8, 16),
    )
    .with_late_optional(0.7, log_directories={"directories": {"log_directories": (2, 3)}})
    .with_late_optional(0.3, small_index={"index": {"slots": (5, 40), "entries": (5, 12), "keys_chance": (0.3,)}}),
    # Queues are truncated while the store is off. A load rebuilds them and crashes. The power fails after the next
    # load.
    Scenario.define(
        "crash-in-load",
        "after a load crashes, the next load writes all queue entries again that were not synced, even if an earlier "
        "stop was clean",
        stream="a-load-that-died-vouches-for-nothing",
        endings=("stop and strays", "stop and strays", "crash in load", "crash in load", "crash at rest"),
        lives=(3, 4),
        recover_whole_log=(False,),
        commit_log_bytes=(1024, 1024, 2048),
        index={"keys_chance": (0.0, 0.0, 0.3)},
        messages_each=(8, 16, 16),
    ).with_late_optional(0.15, slow_creations=SLOW_CREATIONS),
    # The root, the log directories and all their parents are new. A process may die before it syncs them.
    Scenario.define(
        "root-directory-durable",
        "after a power cut, no directory with acknowledged messages is missing, for any root and any log directories",
        directories={
            "root": ("/data/new/store", "data/new/mq", "mq"),
            "log_directories": (1, 1, 1, 2),
            "killed_in_creation": (*(True,) * 4, False),
        },
        disk=(*("strict-posix",) * 10, "ext4-ordered", "xfs", "btrfs"),
        sync_flush=(True,),
        consuming={"commits_offsets": (False, True)},
        endings=("crash at rest", "crash at rest", "crash at rest", "crash in traffic", "stop"),
        lives=(2, 3),
    ).with_late_optional(0.4, failed_name_syncs=_FAILED_NAME_SYNCS),
    # The log has several directories. Between two starts, the first becomes read-only.
    Scenario.define(
        "log-directory-read-only",
        "after a directory of the log becomes read-only, its messages stay until they expire, and new segments are "
        "only in the other directories",
        directories={"log_directories": (2, 3)},
        log_directories={"read_only_from": (1, 1, 2, 9)},
        commit_log_bytes=(1024, 1024, 2048),
        messages={"body_bytes_max": (40, 300)},
        messages_each=(8, 16),
        retention={"deletes_segments": (False, True)},
        lives=(2, 3),
        endings=("stop", "stop", "crash at rest", "crash in traffic", "crash in load"),
    ).with_late_optional(0.3, failed_space_queries=FAILED_SPACE_QUERIES),
    # During traffic, one of several log directories has a small disk of its own.
    Scenario.define(
        "log-directory-full",
        "after the disk of one log directory is full, new segments are only in the other directories, and no put fails",
        directories={"log_directories": (2, 2, 2, 3)},
        log_directories={"full_directory": (1, 2, 2), "full_at_segments": (1, 2, 3), "read_only_from": (0, 1, 1)},
        commit_log_bytes=(1024,),
        messages={"body_bytes_max": (300, 700), "property_bytes_max": (0,)},
        messages_each=(16, 24),
        pauses={"chance": (0.5,), "ms_max": (300, 3000)},
        retention={"deletes_segments": (False, True)},
        lives=(1, 2, 2, 2),
        endings=("stop", "stop", "crash at rest", "crash in traffic"),
    ),
    # Raises `mappedFileSizeConsumeQueue` while the store is off. Some queues no longer have messages in the log.
    Scenario.define(
        "queue-file-size-raised",
        "after the file size of queues is raised, each queue continues from its last offset",
        retention={"deletes_segments": (True,)},
        topics=(2,),
        queues_per_topic=(2, 4),
        commit_log_bytes=(1024,),
        consume_queue_bytes=(200, 1000),
        messages={"body_bytes_max": (300, 700), "property_bytes_max": (0,)},
        messages_each=(3, 8),
        pauses={"chance": (0.5,), "ms_max": (300, 3000)},
        lives=(2, 3),
        endings=("stop and larger queue files", "stop and larger queue files", "crash in load"),
    ),
    # Clean stops switch one setting off and on again. Other restarts keep it.
    Scenario.define(
        "settings-switched",
        "after a setting is switched off or on between two starts, no file lacks a message of any earlier start",
        starts={"switched": (*("enable_multi_dispatch",) * 3, *_SWITCHED)},
        sync_flush=(False, False, True),
        recover_whole_log=(False, True),
        memory={"transient_pool": (False, True)},
        index={"slots": (3, 40), "entries": (9, 60), "keys_chance": (0.3,), "seekers": (0, 1)},
        light_queues={"chance": (0.4, 0.9)},
        consumers=(0, 1),
        lives=(2, 3, 4),
        endings=(*("stop",) * 3, "crash at rest", "crash in traffic", "crash in load"),
    )
    .with_late_optional(0.2, expiry=_EXPIRY)
    .with_late_optional(0.25, index_sizes=_INDEX_SIZES)
    .with_late_optional(0.25, small_limit=SMALL_LIMIT)
    .with_late_optional(0.1, small_limit_of_halves={**SMALL_LIMIT, "transactions": {"chance": (0.5,)}})
    .with_optional(0.1, unsynced_index_names=_UNSYNCED_INDEX_NAMES),
    Scenario.define(
        "second-start-refused",
        "after a second start on a directory in use is refused, no file has changed",
        stream="second-start-is-refused",
        starts={"second": (True,)},
        consumers=(0,),
        lives=(1, 2),
    ),
)
