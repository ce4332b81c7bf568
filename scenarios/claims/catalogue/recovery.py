"""Recovery: what it keeps of a log, and what it cuts."""

from ..scenario import Scenario

SCENARIOS: tuple[Scenario, ...] = (
    # Crash over crash, with records of one size: a new one may end where a cut one begins.
    Scenario.of(
        "cut-records-never-return",
        "a record that one recovery has cut never comes back in a later one",
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
    ),
    # Recovery begins where the checkpoint says, and no earlier.
    Scenario.of(
        "checkpoint-never-leads",
        "the checkpoint may lag behind the disk and never leads it, so recovery rebuilds all that was lost",
        recover_whole_log=(False,),
        disk=("ext4-ordered", "xfs", "btrfs", "strict-posix"),
        commit_log_bytes=(1024, 2048),
        consume_queue_bytes=(100, 1000),
        pauses={"chance": (0.5,), "ms_max": (3000,)},
        flush={"thorough_interval_ms": (2000,)},
        endings=("crash at rest", "crash in traffic"),
        lives=(1, 2),
    ),
    # Records are long, and most of their bytes are not under the checksum.
    Scenario.of(
        "torn-records-are-dropped",
        "a record that reached the disk in part is cut, wherever the tear is",
        sync_flush=(False,),
        disk=("ext4-ordered", "xfs", "btrfs", "strict-posix"),
        messages={"body_bytes_max": (0, 40, 900), "property_bytes_max": (700, 1500)},
        commit_log_bytes=(8192, 16384),
        endings=("crash at rest", "crash in traffic"),
        consumers=(0,),
    ),
    # A sector at the end of the log is lost while the store is off, and its clock may be behind what was lost.
    Scenario.of(
        "lost-tail-is-cut-with-its-entries",
        "a log that lost its end after a clean stop is cut there, and no queue leads behind the cut",
        endings=("stop and damage",),
        lives=(1, 2, 3),
        consumers=(0,),
        pauses={"chance": (0.2, 0.5), "ms_max": (30, 3000)},
        disturbances={"clock_step_chance": (0.0, 0.1)},
    ),
    # A bit of a record rots that the next start takes for durable, and its queues are made anew or not.
    Scenario.of(
        "damage-hides-nothing-behind-it",
        "a damaged record in the midst of a log costs that record, and none before or behind it in its segment",
        endings=("stop and damaged record",),
        lives=(1,),
        recover_whole_log=(True,),
        messages_each=(16, 24),
        commit_log_bytes=(1024, 2048, 4096),
        messages={"body_bytes_max": (40, 300), "property_bytes_max": (0, 300), "illegal_chance": (0.0,)},
        index={"slots": (0,)},
        consumers=(0, 1),
    ),
    # Queues skip numbers, as where 4.9.8 was started in between, or a bit of a record's number rots.
    Scenario.of(
        "a-gap-in-the-numbers-hides-no-message",
        "numbers that a queue skips, and a number that is wrong, cost no consumer a message, whatever crash follows",
        endings=("crash in traffic", "crash at rest", "crash in load", "stop", *("stop and flipped number",) * 2),
        starts={"skipped_numbers_max": (1, 2, 9)},
        lives=(2, 3, 4),
        messages_each=(3, 16),
        commit_log_bytes=(2048, 16384),
        messages={"body_bytes_max": (0, 40, 300), "property_bytes_max": (0,), "illegal_chance": (0.0,)},
        consumers=(1, 2),
        disk=(
            *("strict-posix", "ext4-ordered", "ext4-data", "xfs", "btrfs"),
            *("process-kill", "nothing-lost"),
        ),
    ),
    # The kernel fails to write back what a dead process had written, and reports it once, to the next one that syncs.
    Scenario.of(
        "recovery-vouches-for-nothing-unwritten",
        "what the kernel failed to write back before a start, that start does not take for durable",
        sync_flush=(True, False),
        disk=("strict-posix", "ext4-ordered", "xfs", "btrfs", "process-kill"),
        faults={"failed_write_back_chance": (0.1, 0.3)},
        recover_whole_log=(True, False),
        endings=("crash in traffic", "crash in traffic", "crash at rest", "crash in load"),
        consumers=(0, 1),
        lives=(3, 4),
    ),
    # Recovery removes segments behind its cut, and dies in the midst of it, time and again.
    Scenario.of(
        "a-cut-that-is-cut-short-leaves-no-gap",
        "however far a recovery got in removing what it had cut, the next one opens what is left",
        sync_flush=(False,),
        disk=("strict-posix",),
        commit_log_bytes=(1024,),
        messages={"body_bytes_max": (300, 700)},
        messages_each=(16,),
        endings=("crash at rest", *("crash in load",) * 2),
        consumers=(0,),
        lives=(3, 4),
    ),
)
