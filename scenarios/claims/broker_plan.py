"""What a seed decides of a broker and its clients, beside what every run has."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class BrokerPlan:
    """How a store is reached; what is as it is by default has its users beside it, and no broker in front."""

    serves: bool = False
    """Whether there is a broker: producers and consumers are then clients on other machines."""
    send_timeout_ms: int = 3_000
    """How long a producer waits for an answer before it sends again."""
    sends_max: int = 3
    """How often a producer sends a message before it gives it up."""
    suspend_ms: int = 5_000
    """How long a pull is held that finds nothing."""
    pull_messages_max: int = 8
    commits_with_pulls: bool = True
    """Whether consumers commit with the next pull, or by a request of its own."""
    consumer_restart_chance: float = 0.0
    """Of a consumer, at the end of each life of the broker, to begin again from what it has committed."""
    tasks_each: int = 1
    """How many tasks each kind of request has in the broker."""
    buffer_bytes: int = 65_536
    """How much of a stream is under way or unread before its sender waits."""
    off_ms_max: int = 1_000
    """How long the broker's machine is off between two lives at most."""
