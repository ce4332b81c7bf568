"""Queues skip numbers, as where 4.9.8 was started in between, or a bit of a record's number rots."""

from ..plan import Ranges
from ..scenario import Scenario

SCENARIO = Scenario(
    "a-gap-in-the-numbers-hides-no-message",
    "numbers that a queue skips, and a number that is wrong, cost no consumer a message, whatever crash follows",
    Ranges(
        endings=("crash in traffic", "crash at rest", "crash in load", "stop", "stop and flipped number"),
        skipped_numbers_max=(1, 2, 9),
        lives=(2, 3, 4),
        messages_each=(3, 16),
        commit_log_bytes=(2048, 16384),
        body_bytes_max=(0, 40, 300),
        property_bytes_max=(0,),
        illegal_chance=(0.0,),
        consumers=(1, 2),
        disk=("strict-posix", "ext4-ordered", "ext4-data", "xfs", "btrfs", "process-kill", "nothing-lost"),
    ),
)
