"""Crashes: power cuts and process kills, in traffic, around the making of a segment, and in recovery."""

from ..scenario import Scenario

SCENARIOS: tuple[Scenario, ...] = (
    Scenario.of(
        "sync-flush-survives-power-loss",
        "after a power cut, every message that was answered OK under sync flush is there",
        sync_flush=(True,),
        disk=("ext4-ordered", "xfs", "btrfs", "strict-posix"),
        endings=("crash in traffic",),
        consumers=(0,),
    ),
    Scenario.of(
        "async-flush-keeps-a-prefix",
        "after a power cut under async flush, what is left is a prefix, and nothing that was flushed is missing",
        sync_flush=(False,),
        disk=("ext4-ordered", "xfs", "btrfs", "strict-posix"),
        endings=("crash in traffic", "crash at rest"),
        consumers=(0,),
    ),
    # The process is killed; the page cache lives on.
    Scenario.of(
        "process-kill-loses-nothing",
        "after a process kill, every answered message is there, and a power cut after the restart does not change that",
        disk=("process-kill", "process-kill", "strict-posix"),
        lives=(1, 2, 3),
    ),
    Scenario.of(
        "rollover-at-a-crash",
        "a crash around the end of a segment loses nothing acknowledged, on either side of it",
        commit_log_bytes=(1024, 2048),
        messages={"body_bytes_max": (300, 700), "property_bytes_max": (0,)},
        messages_each=(6, 12),
        endings=("crash in traffic",),
        consumers=(0,),
    ),
    # The crash comes while segments are created, extended and made durable.
    Scenario.of(
        "crash-during-allocation",
        "a crash inside the making of a segment leaves a directory that opens by itself",
        disk=("strict-posix", "ext4-ordered", "xfs", "process-kill"),
        commit_log_bytes=(1024,),
        messages={
            "body_bytes_max": (800,),
            "property_bytes_max": (0,),
            "batch_chance": (0.0,),
            "equal_sizes": (True,),
        },
        messages_each=(2, 5),
        endings=("crash in traffic", "crash in load"),
        lives=(1, 2),
    ),
    Scenario.of(
        "crash-in-recovery",
        "recovery that is cut short, again and again, ends where an undisturbed one would",
        endings=("crash in load", "crash in load", "crash in traffic"),
        lives=(2, 3, 4),
        messages_each=(3, 8),
        consumers=(0,),
    ),
)
