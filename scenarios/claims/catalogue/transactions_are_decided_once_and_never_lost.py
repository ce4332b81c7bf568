"""Producers prepare messages and decide about them at once, late, or when they are asked; the broker dies meanwhile."""

from ..plan import Ranges
from ..scenario import Scenario

SCENARIO = Scenario(
    "transactions-are-decided-once-and-never-lost",
    "a committed message is seen and never lost, a rolled back one never seen, an open one asked about to its end",
    Ranges(
        transaction_chance=(0.4, 1.0),
        transient_pool=(False, False, True),
        offsets=(False, True),
        consumers=(0, 1, 2),
        messages_each=(2, 5, 10),
        pause_chance=(0.2, 0.5),
        pause_ms_max=(1, 30, 300),
        faults={"failed_creation_chance": (0.0, 0.0, 0.0, 0.2, 0.5), "slow_sync_chance": (0.0, 0.0, 0.1)},
        endings=("crash in traffic", "crash in traffic", "crash at rest", "crash in load", "stop", "stop"),
    ),
)
