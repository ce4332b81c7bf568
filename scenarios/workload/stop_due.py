"""When a store is stopped under its users: as one of them is about to put the message of a drawn number."""

from ...store.world import Signal


class StopDue:
    """Counts puts down, and gives the signal at the last."""

    def __init__(self, puts: int, signal: Signal) -> None:
        self.signal = signal
        self.has_begun = False
        """Whether the store is being stopped, or has been: it may turn users away."""
        self.ended_ns: int | None = None
        """When it had stopped; None before."""
        self._puts = puts

    def count(self) -> None:
        """Count a put that is about to be made."""
        self._puts -= 1
        if self._puts == 0:
            self.signal.notify()
