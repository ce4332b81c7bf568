"""Answers: what producers and consumers were answered stays true, whatever stops, fails or takes its time."""

from ..scenario import Scenario

SCENARIOS: tuple[Scenario, ...] = (
    # The store is stopped under traffic that has ended.
    Scenario.of(
        "clean-stop-loses-nothing",
        "a clean stop loses nothing, in any flush mode, and the next start finds no marker and changes nothing",
        endings=("stop",),
        lives=(1, 2),
        consumers=(0, 1),
    ),
    # The power goes right after a clean stop, and the next start reads three segments, where few queues have a record.
    Scenario.of(
        "a-clean-stop-leaves-no-queue-to-the-page-cache",
        "behind a clean stop a power cut takes no entry, of the queues either that the next start does not look at",
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
    # The store is stopped while producers put, consumers walk and users look messages up.
    Scenario.of(
        "a-stop-under-load-keeps-every-answer",
        "a clean stop loses no put that was answered OK, however close to its end, and keeps none that was refused",
        memory={"transient_pool": (False, True, True), "warm_files": (False, True)},
        producers=(2, 3),
        consumers=(0, 1, 2),
        index={"seekers": (0, 1)},
        attribute_points=(False, False, False, True),
        messages={"no_wait_chance": (0.0, 0.3)},
        disturbances={"paused_task_chance": (0.0, 0.0, 0.3)},
        faults={"short_write_chance": (0.0, 0.3)},
        endings=("stop in traffic",),
        lives=(1, 2),
    ),
    # Puts go to a buffer of the process first, writes fall short or fail, and the process is killed or loses power.
    Scenario.of(
        "a-kill-takes-only-what-was-not-committed",
        "with a buffer in front of the log, a kill takes only what was not committed, and nothing that a consumer saw",
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
    ),
    Scenario.of(
        "slow-sync-times-out-truthfully",
        "under a slow disk, OK still means durable, and a time-out means that the time was up",
        sync_flush=(True,),
        faults={"slow_sync_chance": (0.1, 0.4), "slow_sync_ms_max": (100, 3000)},
        flush={"sync_timeout_ms": (20, 200)},
        endings=("crash in traffic", "stop"),
        consumers=(0,),
    ),
    # A sync fails once, and the kernel forgets the pages.
    Scenario.of(
        "failed-sync-is-never-acknowledged",
        "after a sync that failed, no put is answered OK that the disk does not have",
        sync_flush=(True, True, False),
        faults={"failed_sync_chance": (0.0, 0.02, 0.1), "failed_write_back_chance": (0.02, 0.1)},
        endings=("crash in traffic", "crash at rest", "stop"),
        consumers=(0,),
    ),
    # Producers hand in properties of about as many bytes, or characters, as a record has room for.
    Scenario.of(
        "properties-are-kept-to-their-last-byte",
        "properties are kept up to the longest that a record can hold, longer ones are refused for what they are, "
        "and neither costs another message anything",
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
    # Consumers with subscriptions walk queues that grow and crash.
    Scenario.of(
        "tag-filtered-reads-stay-exact",
        "a consumer gets exactly the messages that its subscription matches, before and after a crash",
        consumers=(1, 2),
        consuming={"filtered": (True,)},
        messages={"equal_sizes": (False,)},
        endings=("crash at rest", "stop", "crash in traffic"),
    ),
    # Consumers read as close behind the producers as they are let.
    Scenario.of(
        "consumers-never-see-what-can-vanish",
        "what a consumer was given under sync flush, no power cut takes back",
        sync_flush=(True,),
        disk=("ext4-ordered", "xfs", "btrfs", "strict-posix"),
        consumers=(1, 2),
        messages={"no_wait_chance": (0.0, 0.5)},
        sync_ms_max=(10,),
        endings=("crash in traffic",),
    ),
    # Syncs fail, the file system shows again what the disk has, and consumers come late.
    Scenario.of(
        "what-a-failed-sync-took-is-given-to-nobody",
        "a consumer that comes after a failed sync is given no byte of what it took back, and passes over no message",
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
