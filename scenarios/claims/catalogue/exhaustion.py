"""Exhaustion: a full disk, a service out of memory, files that cannot be mapped."""

from ..scenario import Scenario
from .disturbances import FAILED_SPACE_QUERIES, FULL_QUOTA

SCENARIOS: tuple[Scenario, ...] = (
    Scenario.define(
        "full-disk-puts-refused",
        "after a segment cannot be created, only the puts that need it fail, and every acknowledged message is present",
        stream="full-disk-refuses-cleanly",
        faults={"failed_creation_chance": (0.2, 0.5)},
        commit_log_bytes=(1024, 2048),
        messages={"body_bytes_max": (300, 700), "property_bytes_max": (0,)},
        endings=("stop", "crash at rest", "crash in traffic"),
        consumers=(0,),
    ).with_late_optional(0.5, full_quota=FULL_QUOTA),
    # Space becomes free later, or when retention deletes old segments. In some runs the disk is full when the store
    # starts and must build queues.
    Scenario.define(
        "full-disk-space-returns",
        "after the disk fills up, only puts that need more space fail, and none fails once space is free again",
        stream="a-full-disk-recovers-when-space-returns",
        capacity_bytes=(10_000, 16_000, 24_000),
        retention={"deletes_segments": (False, True)},
        directories={"log_directories": (1, 1, 2, 3)},
        commit_log_bytes=(1024, 2048),
        consume_queue_bytes=(100, 200),
        messages={"body_bytes_max": (300, 700), "property_bytes_max": (0,)},
        messages_each=(16, 24),
        pauses={"chance": (0.5,), "ms_max": (300, 3000)},
        consumers=(0, 0, 1),
        lives=(1, 2, 3),
        endings=("stop", "crash at rest", "crash in traffic", "stop and full disk", "stop and full disk"),
    )
    .with_late_optional(0.3, kept_segments={"retention": {"forcibly": (False,)}})
    .with_late_optional(0.4, small_queues={"consume_queue_bytes": (60,), "topics": (2,), "queues_per_topic": (2,)})
    .with_late_optional(0.5, full_quota=FULL_QUOTA),
    Scenario.define(
        "service-died",
        "after a service ends with an error, the store reports its name and accepts no puts, and every acknowledged "
        "message is present after a restart",
        stream="a-service-that-ends-says-so",
        memory={"error_chance": (0.8,), "transient_pool": (False, True)},
        delay={"chance": (0.0, 0.0, 0.3)},
        consuming={"commits_offsets": (False, True)},
        pauses={"ms_max": (30, 300, 3000)},
        endings=("crash at rest", "crash in traffic", "stop", "stop"),
    ),
    # For minutes, half of all attempts to map a file fail. Queue files have one or two entries.
    Scenario.define(
        "dispatch-retry-count",
        "after errors at many places, dispatch continues; it gives up only if the same step fails repeatedly",
        stream="errors-at-many-places-do-not-add-up",
        faults={"failed_map_chance": (0.3, 0.5)},
        commit_log_bytes=(2048, 16_384),
        consume_queue_bytes=(20, 40),
        producers=(2, 3),
        messages_each=(16, 24),
        pauses={"chance": (1.0,), "ms_max": (10_000,)},
        consumers=(0, 0, 1),
        lives=(1, 2),
        endings=("crash at rest", "crash in traffic", "stop"),
    ).with_late_optional(0.2, failed_space_queries=FAILED_SPACE_QUERIES),
    # On a sparse disk, a segment's blocks are allocated only when the pool's buffers are committed.
    Scenario.define(
        "full-disk-commit-waits",
        "after a commit fails on a full disk, the data stays in the pool's buffers and is committed once space is free",
        stream="a-commit-waits-for-room",
        sync_flush=(False,),
        memory={"transient_pool": (True,), "warm_files": (False,)},
        faults={"sparse": (True,)},
        capacity_bytes=(10_000, 16_000, 24_000),
        commit_log_bytes=(2048, 8192, 16_384),
        messages={"body_bytes_max": (300, 700), "property_bytes_max": (0,)},
        messages_each=(16, 24),
        pauses={"chance": (0.2, 0.5), "ms_max": (300, 3000)},
        index={"slots": (0,)},
        consumers=(0, 0, 1),
        lives=(1, 2),
        endings=("stop", "stop", "stop in traffic", "crash at rest"),
    )
    .with_late_optional(0.4, retention={"retention": {"deletes_segments": (True,)}})
    .with_late_optional(0.35, failed_writes={"faults": {"failed_write_chance": (0.1, 0.3)}})
    .with_late_optional(0.5, full_quota=FULL_QUOTA),
)
