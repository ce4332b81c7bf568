"""What a seed decides of a cluster, beside what every run has."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ClusterPlan:
    """The machines beside the one that users talk to; what is as it is by default is a store alone."""

    slaves: int = 0
    """How many follow the master; 0: nobody, and there is no network."""
    sync_master: bool = False
    """Whether puts wait for a slave."""
    slave_sync_flush: bool = False
    """Whether what slaves report is durable there."""
    slave_timeout_ms: int = 3000
    """How long a put waits for a slave."""
    transfer_batch_bytes: int = 32_768
    """How much of the log goes into one frame at most."""
    flipped_bit_chance: float = 0.0
    """Of a life of a slave, that dispatch is handed a record there with one bit of its queueOffset wrong."""
    gathers: bool = False
    """Whether users begin only when slaves follow the master, or have had time enough to."""
