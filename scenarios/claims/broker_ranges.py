"""From what runs of brokers are drawn."""

from collections.abc import Mapping, Sequence

from .plan import Ranges

FAIR: Mapping[str, Sequence[float | str]] = {
    "latency_us_min": (20, 50, 500),
    "latency_us_max": (500, 1_000, 20_000),
    "split_chance": (0.0, 0.0, 0.2),
    "late_chance": (0.0, 0.0, 0.05),
}
TROUBLED: Mapping[str, Sequence[float | str]] = {
    **FAIR,
    "partition_chance": (0.0, 0.01, 0.03),
    "one_way_chance": (0.0, 0.01, 0.03),
    "partition_ms_max": (500, 5_000, 20_000),
    "slow_link_chance": (0.0, 0.0, 0.02),
    "broken_chance": (0.0, 0.02, 0.1),
    "half_open_chance": (0.0, 0.0, 0.02),
    "refused_chance": (0.0, 0.2),
    "reset_at_death_chance": (0.0, 0.5),
}

BROKER = Ranges(
    endings=(
        "crash in traffic",
        "crash in traffic",
        "crash in traffic",
        "crash at rest",
        "crash in load",
        "stop",
    ),
    lives=(1, 2, 2, 3),
    producers=(1, 2, 3),
    consumers=(0, 1, 1, 2),
    messages_each=(2, 5, 8),
    pause_ms_max=(1, 30, 2_000),
    warm_files=(False,),
    index_slots=(0, 0, 5),
    broker={
        "serves": (True,),
        "send_timeout_ms": (200, 3_000),
        "sends_max": (1, 3),
        "suspend_ms": (100, 5_000),
        "pull_messages_max": (1, 4, 32),
        "commits_with_pulls": (True, False),
        "consumer_restart_chance": (0.0, 0.5),
        "tasks_each": (1, 2),
        "buffer_bytes": (300, 4_096, 65_536),
        "off_ms_max": (1, 1_000, 10_000),
    },
    network=FAIR,
)
"""A network that is slow at worst."""
