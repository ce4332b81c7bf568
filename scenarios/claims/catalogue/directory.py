"""The store's directory: what expires from it, what others do to it, who may open it."""

from ..scenario import Scenario

SCENARIOS: tuple[Scenario, ...] = (
    # Somebody has old segments deleted, again and again, and the machine dies in the midst of it.
    Scenario.of(
        "retention-takes-only-the-oldest",
        "what has expired goes from the front, whole segments at a time, and nothing else goes or comes back wrong",
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
        errors_stop=(True, True, False),
        lives=(1, 2, 3),
        endings=(
            *("crash in traffic", "crash in traffic", "crash at rest", "crash in load"),
            *("stop", "stop"),
        ),
    ),
    # A pass of the check stands still while what it has read is deleted, and with it what said how that was decided.
    Scenario.of(
        "what-has-expired-is-asked-about-no-more",
        "a transaction whose messages are deleted while it is checked is not put back, and nobody is asked about it",
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
        endings=("crash at rest", "crash at rest", "stop"),  # a clean stop keeps the progress of the check
        lives=(1, 2),
    ),
    # Behind the end of the log, a crash shows whole records that an older segment had in the same sectors.
    Scenario.of(
        "old-blocks-are-never-records",
        "bytes of an older segment behind the log's end are never taken for records, however well they check",
        endings=("crash on old blocks",),
        disk=("ext4-ordered", "xfs", "strict-posix", "nothing-lost"),
        commit_log_bytes=(2048, 4096),
        messages={
            "body_bytes_max": (394, 394, 500),
            "property_bytes_max": (0,),
            "equal_sizes": (True, True, False),
        },
        messages_each=(8, 16),
        lives=(1, 2),
    ),
    # While the store is off, a segment in front of others loses its last sector; somebody starts, and then mends it.
    Scenario.of(
        "odd-segments-are-refused-not-forgotten",
        "a log with a segment of a wrong size in front of others is refused untouched, and whole once that is mended",
        endings=("stop and odd file",),
        commit_log_bytes=(1024, 2048),
        messages={"body_bytes_max": (300, 700)},
        lives=(1, 2),
    ),
    # While the store is off, the oldest segments are lost, or one between two others: those before it turn old enough
    # to expire.
    Scenario.of(
        "log-segment-missing",
        "segments that are missing at the beginning or in the middle of the log cost only their own messages, "
        "and only retention removes the segments before a gap",
        endings=("stop and missing segment", "stop and missing segment", "crash at rest", "crash in load", "stop"),
        lives=(1, 2, 3),
        retention={"deletes_segments": (False, False, True)},
        commit_log_bytes=(1024, 2048),
        consume_queue_bytes=(100, 200),
        memory={"transient_pool": (False, True)},
        messages={"body_bytes_max": (40, 300), "property_bytes_max": (0,)},
        messages_each=(8, 16),
        index={"keys_chance": (0.0, 0.3)},
        consumers=(0, 1),
    ),
    # While the store is off, people and tools leave files among its own, cut a queue's file or damage the checkpoint.
    Scenario.of(
        "what-is-not-the-stores-is-left-alone",
        "foreign files stay where they are, and a store whose derived files are damaged opens with all of its messages",
        endings=("stop and strays", "stop and strays", "crash in load", "crash in traffic"),
        lives=(1, 2, 3),
        commit_log_bytes=(1024, 2048, 4096),
        consume_queue_bytes=(100, 200),
        index={"keys_chance": (0.0, 0.3)},
        messages={"body_bytes_max": (40, 300), "property_bytes_max": (0,)},
        messages_each=(8, 16),
    ),
    # Queues are cut while the store is off, a load fills them again and dies, and the power goes behind the next.
    Scenario.of(
        "a-load-that-died-vouches-for-nothing",
        "what a load has written and not synced before it died is written again by the next, whatever stopped cleanly",
        endings=("stop and strays", "stop and strays", "crash in load", "crash in load", "crash at rest"),
        lives=(3, 4),
        recover_whole_log=(False,),
        commit_log_bytes=(1024, 1024, 2048),
        index={"keys_chance": (0.0, 0.0, 0.3)},
        messages_each=(8, 16, 16),
    ),
    # Every level of the root and of the log's directories is new. A process may die between its creation and its sync.
    Scenario.of(
        "root-directory-durable",
        "a power cut takes no directory of acknowledged messages, wherever the root and the log's directories are",
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
    ),
    # Raises `mappedFileSizeConsumeQueue` between two lives, where some queues have no message in the log any more.
    Scenario.of(
        "queue-file-size-raised",
        "after the file size of queues is raised each queue goes on from the number it had counted to",
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
    # Someone starts the store again while it runs.
    Scenario.of(
        "second-start-is-refused",
        "a second start on a live directory is refused, and changes nothing in it",
        starts={"second": (True,)},
        consumers=(0,),
        lives=(1, 2),
    ),
)
