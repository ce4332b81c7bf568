"""What a network asks about its condition: how long things take, and their faults. One question, one draw."""

from enum import Enum
from typing import Protocol


class Mishap(Enum):
    """The fault that happens to a connection while something is sent over it."""

    NONE = "none"
    BROKEN = "broken"
    """Both ends learn of a reset."""
    LOST = "lost"
    """Neither end learns anything: what is sent from now on arrives nowhere."""


class LinkConditions(Protocol):
    """The condition of all links. Hosts are named; source and target may be the same."""

    def delay_ns(self, source: str, target: str, size_bytes: int) -> int:
        """Return after how long something arrives that is sent now, however long that takes."""

    def first_piece_bytes(self, source: str, target: str, size_bytes: int) -> int:
        """Return how many of at least 2 bytes sent at once go ahead of the others; size_bytes: they stay together."""

    def mishap(self, source: str, target: str) -> Mishap:
        """Return the fault that happens to a connection now that something is sent over it."""

    def refuses(self, source: str, target: str) -> bool:
        """Return whether a connection that could be made is refused."""

    def is_silent_death(self, host: str, told: bool | None) -> bool:
        """Return whether a machine that dies now is off and says nothing; if not, its system ends its connections.

        told: what whoever kills it has said of that, which is then the answer.
        """

    def is_reset_at_death(self, host: str) -> bool:
        """Return whether a connection of a process that dies is reset, and not ended in good order."""

    def pieces_lost(self, host: str, under_way: int) -> int:
        """Return how many of the pieces that are under way go down with a machine that is off."""

    def heal(self) -> None:
        """Let everything be well from here on."""


class FairConditions:
    """Everything arrives whole, and takes the same time."""

    def __init__(self, latency_ns: int = 50_000) -> None:
        self._latency_ns = latency_ns

    def delay_ns(self, source: str, target: str, size_bytes: int) -> int:
        """Return the latency."""
        return self._latency_ns

    def first_piece_bytes(self, source: str, target: str, size_bytes: int) -> int:
        """Keep bytes together."""
        return size_bytes

    def mishap(self, source: str, target: str) -> Mishap:
        """No-op: inject nothing."""
        return Mishap.NONE

    def refuses(self, source: str, target: str) -> bool:
        """Refuse nobody."""
        return False

    def is_silent_death(self, host: str, told: bool | None) -> bool:
        """Take deaths for those of processes if nothing else was said."""
        return told is True

    def is_reset_at_death(self, host: str) -> bool:
        """End connections in good order."""
        return False

    def pieces_lost(self, host: str, under_way: int) -> int:
        """Lose none."""
        return 0

    def heal(self) -> None:
        """Be well as before."""
