"""Delivery: transactions, delayed messages and committed offsets."""

from collections.abc import Mapping
from typing import Any

from ..machine import RESERVED_HOURS
from ..ranges import Ranges
from ..scenario import Scenario
from .disturbances import EXPIRING_GAPS, LONG_GAPS

_TRANSACTIONS = Ranges(
    transactions={"chance": (0.4, 1.0)},
    memory={"transient_pool": (False, False, True)},
    consuming={"commits_offsets": (False, True)},
    consumers=(0, 1, 2),
    messages_each=(2, 5, 10),
    pauses={"chance": (0.2, 0.5), "ms_max": (1, 30, 300)},
    faults={"failed_creation_chance": (0.0, 0.0, 0.0, 0.2, 0.5), "slow_sync_chance": (0.0, 0.0, 0.1)},
    endings=("crash in traffic", "crash in traffic", "crash at rest", "crash in load", "stop", "stop"),
)

SHORT_TIMEOUTS: Mapping[str, Any] = {
    "sync_flush": (True,),
    "sync_ms_max": (10,),
    "flush": {"sync_timeout_ms": (5,)},
    "faults": {"slow_sync_chance": (0.0,)},
}
"""Syncs that often take longer than syncFlushTimeout, on a disk without faults."""

QUICK_PROGRESS: Mapping[str, Any] = {
    "sync_flush": (False,),
    "settings": {
        "flush_delay_offset_interval_ms": (30,),
        "flush_commit_log_timed": (True,),
        "flush_interval_commit_log_ms": (2_000,),
        "flush_commit_log_least_pages": (0,),
    },
    "disk": ("strict-posix", "ext4-ordered", "xfs", "btrfs"),
    "endings": (*("crash in persist",) * 2, *("crash at rest",) * 3, "crash in traffic"),
}
"""The delivery progress is often written between the delivery of a message and the next flush of the log."""
LIGHT_GROUPS: Mapping[str, Any] = {
    "light_queues": {"chance": (0.9,)},
    "consumers": (3,),
    "sync_flush": (False,),
    "flush": {"thorough_interval_ms": (10_000,)},
    "disk": ("strict-posix", "ext4-ordered", "xfs", "btrfs"),
    "endings": (*("crash in persist",) * 3, "crash in traffic"),
}
"""Groups of light queues write their offsets before the log is flushed."""
UNWRITTEN_PROGRESS: Mapping[str, Any] = {
    "heals": (True,),
    "delay": {"chance": (0.5,)},
    "faults": {"failed_creation_chance": (0.5,)},
    "pauses": {"chance": (0.5,), "ms_max": (3_000,)},
}
"""Writes of the delivery progress fail, and after all faults the store must write it."""
DELAYED_COMMITS: Mapping[str, Any] = {"transactions": {"delayed_chance": (0.5,)}, "delay": {"chance": (0.1,)}}
"""Transactional messages have delay levels, which begin at the commit."""
FORWARDED: Mapping[str, Any] = {"messages": {"forwarded_chance": (0.5,), "equal_sizes": (False,)}}
"""Users forward messages with the properties of an earlier delay or transaction."""

SCENARIOS: tuple[Scenario, ...] = (
    # Producers end transactions immediately, late or only after a check. Meanwhile the store dies.
    Scenario(
        "transaction-outcome",
        "after any crash, a committed message is delivered, a rolled back one is never visible, and an undecided one "
        "is checked until it is decided or given up",
        _TRANSACTIONS.with_late_optional(0.15, short_timeouts=SHORT_TIMEOUTS)
        .with_late_optional(
            0.3,
            wrong_clocks={
                "transactions": {"clock_ahead_ms": (3_600_000, 500, -3_600_000, -RESERVED_HOURS * 3_600_000 - 10_000)}
            },
        )
        .with_late_optional(0.3, forwarded=FORWARDED)
        .with_late_optional(0.15, delayed_commits=DELAYED_COMMITS),
        stream="transactions-are-decided-once-and-never-lost",
    ),
    # Queue offsets skip numbers at restarts, as in RocketMQ 4.9.8, also in the queues of half and op messages.
    Scenario(
        "half-message-offset-gap",
        "after a queue skips offsets, later half messages in it are decided or checked like all others",
        _TRANSACTIONS.replace(starts={"skipped_numbers_max": (1, 3)}, lives=(2, 3))
        .with_late_optional(0.4, expiry=EXPIRING_GAPS)
        .with_late_optional(0.04, long_gaps=LONG_GAPS),
        stream="a-gap-in-the-numbers-hides-no-transaction",
    ),
    # The store dies while delayed messages wait or are delivered, and puts fail.
    Scenario.define(
        "delayed-delivery",
        "after any crash, every stored delayed message is delivered, never before its time, and twice only because of "
        "a crash",
        stream="delayed-messages-arrive-and-never-early",
        delay={"chance": (0.3, 0.8)},
        consumers=(0, 1),
        pauses={"chance": (0.2, 0.5)},
        endings=(
            *("crash in traffic", "crash in traffic", "crash in persist", "crash at rest"),
            *("crash in load", "stop", "stop and damage", "stop and damage"),
            *("stop and damaged progress",) * 2,
        ),
        faults={"failed_creation_chance": (0.0, 0.3, 0.6), "slow_sync_chance": (0.0, 0.0, 0.2)},
    )
    .with_optional(0.3, quick_progress=QUICK_PROGRESS)
    .with_optional(0.2, light_copies={"light_queues": {"chance": (0.9,)}, "endings": ("stop and damaged progress",)})
    .with_late_optional(0.2, forwarded=FORWARDED)
    .with_late_optional(0.2, unwritten_progress=UNWRITTEN_PROGRESS),
    # Bits in topics, records and queue entries of delayed messages are lost or flipped on disk.
    Scenario.define(
        "delayed-entry-corrupted",
        "after a delayed message becomes unreadable or its queue entry is damaged, every later one is still delivered",
        stream="what-rots-while-it-waits-holds-up-nothing-else",
        delay={"chance": (0.8, 1.0)},
        disk=("dying-disk",),
        recover_whole_log=(True, False, False),
        faults={"stopped_file_system_chance": (0.0,), "lost_write_chance": (0.0, 0.1)},
        rot={"bit_rot_chance": (1.0,), "latent_sector_error_chance": (0.0,)},
        commit_log_bytes=(1024, 2048),
        messages={"body_bytes_max": (0,), "property_bytes_max": (0,), "illegal_chance": (0.3, 0.5)},
        messages_each=(8, 16),
        lives=(3, 4),
        endings=("stop", "stop", "crash at rest"),
        heals=(True,),
    ),
    # The machine dies while the offsets of consumer groups and of delayed delivery are persisted.
    Scenario.define(
        "consumer-offset-durable",
        "after any crash, persisted offsets are present, and consumers continue from them",
        stream="progress-survives-every-crash",
        sync_flush=(True, False, False),
        consuming={"commits_offsets": (True,)},
        delay={"chance": (0.0, 0.4)},
        consumers=(1, 2, 2),
        topics=(1,),
        queues_per_topic=(1, 2),
        pauses={"chance": (0.5,), "ms_max": (1000, 3000)},
        lives=(2, 3, 4),
        endings=(
            *("crash in persist",) * 3,
            *("crash in traffic", "crash in load", "stop"),
            *("stop and damaged progress",) * 2,
        ),
        attribute_points=(False, True),
        faults={"failed_sync_chance": (0.0, 0.0, 0.03), "failed_rename_chance": (0.0, 0.0, 0.3)},
    ).with_optional(0.4, light_groups=LIGHT_GROUPS),
)
