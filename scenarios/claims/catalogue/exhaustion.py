"""Exhaustion: no room on the disk, no memory for a service, no map of a file."""

from ..scenario import Scenario

SCENARIOS: tuple[Scenario, ...] = (
    # Now and then the disk has no room for another file.
    Scenario.of(
        "full-disk-refuses-cleanly",
        "a segment that cannot be made costs the puts that need it, and nothing that was acknowledged",
        faults={"failed_creation_chance": (0.2, 0.5)},
        commit_log_bytes=(1024, 2048),
        messages={"body_bytes_max": (300, 700), "property_bytes_max": (0,)},
        endings=("stop", "crash at rest", "crash in traffic"),
        consumers=(0,),
    ),
    # The disk fills up, somebody finds room for it after a while, or the store makes some by deleting old segments. Or
    # the disk is full when the store starts, and there are queues to build.
    Scenario.of(
        "a-full-disk-recovers-when-space-returns",
        "a disk that fills up costs the puts it has no room for, and as soon as it has room again nothing at all",
        capacity_bytes=(10_000, 16_000, 24_000),
        retention={"deletes_segments": (False, True)},
        commit_log_bytes=(1024, 2048),
        consume_queue_bytes=(100, 200),
        messages={"body_bytes_max": (300, 700), "property_bytes_max": (0,)},
        messages_each=(16, 24),
        pauses={"chance": (0.5,), "ms_max": (300, 3000)},
        consumers=(0, 0, 1),
        lives=(1, 2, 3),
        endings=("stop", "crash at rest", "crash in traffic", "stop and full disk", "stop and full disk"),
    ),
    # A service meets an error that nobody foresaw, and its task ends.
    Scenario.of(
        "a-service-that-ends-says-so",
        "a store one of whose services has ended names it, "
        "takes no more puts, and has lost nothing when it starts again",
        memory={"error_chance": (0.8,), "transient_pool": (False, True)},
        delay={"chance": (0.0, 0.0, 0.3)},
        consuming={"commits_offsets": (False, True)},
        pauses={"ms_max": (30, 300, 3000)},
        endings=("crash at rest", "crash in traffic", "stop", "stop"),
    ),
    # Every other file cannot be mapped, and queues have files of one or two entries, for minutes.
    Scenario.of(
        "errors-at-many-places-do-not-add-up",
        "dispatch gives up where it fails again and again, and not for how often it has failed in all",
        faults={"failed_map_chance": (0.3, 0.5)},
        commit_log_bytes=(2048, 16_384),
        consume_queue_bytes=(20, 40),
        producers=(2, 3),
        messages_each=(16, 24),
        pauses={"chance": (1.0,), "ms_max": (10_000,)},
        consumers=(0, 0, 1),
        lives=(1, 2),
        endings=("crash at rest", "crash in traffic", "stop"),
    ),
    # Segments of a sparse disk get their blocks when the pool's buffers are committed, which may be too late for some.
    Scenario.of(
        "a-commit-waits-for-room",
        "what no room is left for stays in the pool's buffers "
        "and is committed as soon as there is some: nothing is lost",
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
    ),
)
