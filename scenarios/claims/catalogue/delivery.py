"""Delivery: transactions, delayed messages, and progress."""

from ..ranges import Ranges
from ..scenario import Scenario

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

SCENARIOS: tuple[Scenario, ...] = (
    # Producers prepare messages and decide about them at once, late, or when they are asked; the broker dies meanwhile.
    Scenario(
        "transactions-are-decided-once-and-never-lost",
        "a committed message is seen and never lost, a rolled back one never seen, an open one asked about to its end",
        _TRANSACTIONS,
    ),
    # Queues skip numbers, those of half messages and of decisions too, as where 4.9.8 was started in between.
    Scenario(
        "a-gap-in-the-numbers-hides-no-transaction",
        "half messages behind numbers that their queue skips are decided or asked about, as all others are",
        _TRANSACTIONS.replace(starts={"skipped_numbers_max": (1, 3)}, lives=(2, 3)),
    ),
    # Messages are put to be seen later; the store dies while they wait and while they are delivered, and puts fail.
    Scenario.of(
        "delayed-messages-arrive-and-never-early",
        "every delayed message that is stored arrives, never before it is due, and again only after a crash",
        delay={"chance": (0.3, 0.8)},
        consumers=(0, 1),
        pauses={"chance": (0.2, 0.5)},
        endings=(
            *("crash in traffic", "crash in traffic", "crash in persist", "crash at rest"),
            *("crash in load", "stop", "stop and damage", "stop and damage"),
            *("stop and damaged progress",) * 2,
        ),
        faults={"failed_creation_chance": (0.0, 0.3, 0.6), "slow_sync_chance": (0.0, 0.0, 0.2)},
    ),
    # Delayed messages wait on a disk that loses and flips what it holds: their topics, records and entries.
    Scenario.of(
        "what-rots-while-it-waits-holds-up-nothing-else",
        "a delayed message that has become unreadable, or leads nowhere, keeps none that is behind it",
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
    # Consumer groups commit how far they came, delivery does too, and the machine dies while that is persisted.
    Scenario.of(
        "progress-survives-every-crash",
        "progress once persisted is found again after any crash, and consumers go on from where it says",
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
    ),
)
