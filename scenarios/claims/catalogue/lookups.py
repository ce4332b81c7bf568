"""Lookups: claims about the key index and light queues."""

from collections.abc import Mapping
from typing import Any

from ..scenario import Scenario
from .disturbances import UNQUEUED

FEW_LIGHT_QUEUES: Mapping[str, Any] = {"light_queues": {"queues_max": (1, 2)}, "delay": {"chance": (0.0,)}}
"""The store refuses messages for more light queues. Delayed messages would wait for space forever, as in RocketMQ."""

SCENARIOS: tuple[Scenario, ...] = (
    # Messages share keys, and users look messages up by key. Index files are small, so they fill up often.
    Scenario.define(
        "index-lookup",
        "after any crash, the index has every key of every record exactly once and no other entry",
        stream="every-key-is-found",
        index={"slots": (3, 7, 40), "entries": (4, 9, 60, 200), "keys_chance": (0.3, 0.7), "seekers": (0, 1, 2)},
        messages={"equal_sizes": (False,), "batch_chance": (0.0, 0.2)},
        consumers=(0,),
        topics=(1, 2),
        faults={"failed_creation_chance": (0.0, 0.0, 0.0, 0.2)},
        lives=(1, 2, 3),
    ).with_late_optional(0.15, unqueued=UNQUEUED),
    # More messages share a key than a look-up returns, so a look-up of an old message follows many entries.
    Scenario.define(
        "index-newest-first",
        "after many puts with the same key, a look-up returns the newest of these messages, up to its limit, across "
        "all index files",
        stream="the-newest-of-many-are-found",
        index={"slots": (3, 40), "entries": (30, 400), "keys_chance": (1.0,), "seekers": (1,)},
        messages={
            "equal_sizes": (False,),
            "body_bytes_max": (0,),
            "property_bytes_max": (0,),
            "batch_chance": (0.0, 0.5),
            "illegal_chance": (0.0,),
        },
        producers=(2, 3),
        consumers=(0,),
        topics=(1,),
        queues_per_topic=(1,),
        messages_each=(24, 40),
        lives=(1, 2),
        endings=("stop", "crash at rest", "crash in traffic"),
    ),
    # The power fails while index files fill up one after another. The checkpoint records which of them are durable.
    Scenario.define(
        "index-rollover-power-cut",
        "after any power cut, an index file covered by the checkpoint is complete, and missing entries are rebuilt",
        stream="index-files-roll-over-at-a-power-cut",
        disk=("ext4-ordered", "xfs", "btrfs", "strict-posix"),
        recover_whole_log=(False, False, True),
        index={"slots": (3, 40), "entries": (4, 30, 60), "keys_chance": (0.5,), "seekers": (0, 1)},
        messages={"equal_sizes": (False,), "body_bytes_max": (40, 300), "property_bytes_max": (0,)},
        consumers=(0,),
        commit_log_bytes=(2048, 4096),
        messages_each=(8, 16),
        pauses={"chance": (0.5,), "ms_max": (1000, 3000)},
        flush={"thorough_interval_ms": (2000,)},
        lives=(1, 2, 3),
        endings=("crash in traffic", "crash at rest", "crash in load"),
    ),
    # Several producers put to several queues. All their messages also go to shared light queues.
    Scenario.define(
        "light-queue-dispatch",
        "after any crash, a message is in each of its light queues exactly once, and light queues have no gaps",
        stream="light-queues-hold-every-message-once",
        light_queues={"chance": (0.4, 0.9)},
        memory={"transient_pool": (False, False, True)},
        delay={"chance": (0.0, 0.0, 0.2)},
        producers=(2, 3),
        consumers=(0, 1, 2),
        topics=(2,),
        queues_per_topic=(1, 2),
        messages={"batch_chance": (0.0, 0.2)},
        endings=("crash in traffic", "crash in traffic", "crash at rest", "crash in load", "stop"),
    ).with_late_optional(0.3, few_light_queues=FEW_LIGHT_QUEUES),
)
