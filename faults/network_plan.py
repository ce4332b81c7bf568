"""What goes wrong on one network, and how often. Everything is off unless told otherwise.

Chances are per transmission over a link: bytes handed over at once, one direction of making a connection or of ending
it. Times are of virtual time. What each fault means is said in `kinds`.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class NetworkPlan:
    """The condition of a network's links, and the faults that happen to them."""

    latency_us_min: int = 50
    latency_us_max: int = 50
    """How long what meets no trouble is under way, one way."""
    split_chance: float = 0.0
    """Of bytes sent at once, to arrive in two pieces, the second a delay later."""
    late_chance: float = 0.0
    late_ms_max: int = 3_000
    partition_chance: float = 0.0
    """Of a transmission, to meet a partition that begins with it, in both directions."""
    one_way_chance: float = 0.0
    """Of a transmission, to find its direction of the link blocked from now on, while the other goes on."""
    partition_ms_max: int = 30_000
    """Of both."""
    slow_link_chance: float = 0.0
    """Of a transmission, to be the first over a link that has slowed down."""
    slow_link_ms_max: int = 10_000
    slow_link_bytes_per_s: int = 2_000
    broken_chance: float = 0.0
    """Of bytes sent, to meet somebody who resets the connection."""
    half_open_chance: float = 0.0
    """Of bytes sent, to be the first that are lost for good, without a word to either end."""
    refused_chance: float = 0.0
    """Of a connection that could be made."""
    silent_death_chance: float = 0.0
    """Of a machine that dies, to be off, where nobody has said how it dies."""
    reset_at_death_chance: float = 0.0
    """Of a connection whose process dies, to be reset rather than ended."""

    def __post_init__(self) -> None:
        if not 0 < self.latency_us_min <= self.latency_us_max:
            raise ValueError(
                f"latency_us: expected 0 < min <= max, found {self.latency_us_min} and {self.latency_us_max}"
            )
        if self.slow_link_bytes_per_s <= 0:
            raise ValueError(
                f"slow_link_bytes_per_s: expected more than 0, found {self.slow_link_bytes_per_s}"
            )
