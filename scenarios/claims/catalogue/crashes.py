"""Crashes: power cuts and process kills in traffic, allocation and recovery."""

from ..scenario import Scenario
from .recovery import KILLED_REMOVALS

SCENARIOS: tuple[Scenario, ...] = (
    Scenario.define(
        "sync-flush-power-cut",
        "after a power cut, every message that was answered OK under sync flush is present",
        stream="sync-flush-survives-power-loss",
        sync_flush=(True,),
        disk=("ext4-ordered", "xfs", "btrfs", "strict-posix"),
        directories={"log_directories": (1, 1, 2, 3)},
        endings=("crash in traffic",),
        consumers=(0,),
    ),
    Scenario.define(
        "async-flush-prefix",
        "after a power cut under async flush, the log is a prefix of the writes and includes all flushed data",
        stream="async-flush-keeps-a-prefix",
        sync_flush=(False,),
        disk=("ext4-ordered", "xfs", "btrfs", "strict-posix"),
        endings=("crash in traffic", "crash at rest"),
        consumers=(0,),
    ),
    # The process is killed, so the page cache survives.
    Scenario.define(
        "process-kill",
        "after a process kill, every acknowledged message is present, also if the power fails after the restart",
        stream="process-kill-loses-nothing",
        disk=("process-kill", "process-kill", "strict-posix"),
        directories={"log_directories": (1, 1, 2, 3)},
        lives=(1, 2, 3),
    ),
    Scenario.define(
        "segment-rollover-crash",
        "after a crash near the end of a segment, every acknowledged message before and after that end is present",
        stream="rollover-at-a-crash",
        commit_log_bytes=(1024, 2048),
        messages={"body_bytes_max": (300, 700), "property_bytes_max": (0,)},
        messages_each=(6, 12),
        endings=("crash in traffic",),
        consumers=(0,),
    ),
    # The crash happens while segments are created, extended and synced.
    Scenario.define(
        "segment-allocation-crash",
        "after a crash during the allocation of a segment, the store opens without manual repair",
        stream="crash-during-allocation",
        disk=("strict-posix", "ext4-ordered", "xfs", "process-kill"),
        commit_log_bytes=(1024,),
        messages={"body_bytes_max": (800,), "property_bytes_max": (0,), "batch_chance": (0.0,), "equal_sizes": (True,)},
        messages_each=(2, 5),
        endings=("crash in traffic", "crash in load"),
        lives=(1, 2),
    ),
    Scenario.define(
        "crash-in-recovery",
        "after repeated crashes, recovery reaches the same state as uninterrupted recovery",
        directories={"log_directories": (1, 1, 2, 3)},
        endings=("crash in load", "crash in load", "crash in traffic"),
        lives=(2, 3, 4),
        messages_each=(3, 8),
        consumers=(0,),
    ).with_optional(0.3, killed_removals=KILLED_REMOVALS),
)
