"""Network medium: what connections share: conditions (delays, faults), hosts, places to wait."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum
from zlib import crc32

from ..errors import MachineDied
from ..kernel import Kernel
from ..machine import Machine

_NOTE = 12 << 56  # tag of digest words, beside those of the kernel, of disturbances and of disks


class Mishap(Enum):
    """The fault that happens to a connection while something is sent over it."""

    NONE = "none"
    BROKEN = "broken"
    """Both ends learn of a reset."""
    LOST = "lost"
    """Neither end learns anything: what is sent from now on arrives nowhere."""


class LinkConditions:
    """The condition of all links: how long things take, and faults. One question, one draw. Hosts are named.

    These are fair: everything arrives whole and takes the same time. Conditions with faults override what differs.
    """

    def __init__(self, latency_ns: int = 50_000) -> None:
        self._latency_ns = latency_ns

    def delay_ns(self, source: str, target: str, size_bytes: int) -> int:
        """Return after how long something arrives that is sent now, however long that takes."""
        return self._latency_ns

    def note_arrival(self, source: str, target: str, sent_ns: int, arrives_ns: int) -> None:
        """Take note of when something arrives that was sent at some moment: behind all that went before it."""

    def first_piece_bytes(self, source: str, target: str, size_bytes: int) -> int:
        """Return how many of at least 2 bytes sent at once go ahead of the others; size_bytes: they stay together."""
        return size_bytes

    def mishap(self, source: str, target: str) -> Mishap:
        """Return the fault that happens to a connection now that something is sent over it."""
        return Mishap.NONE

    def refuses(self, source: str, target: str) -> bool:
        """Return whether a connection that could be made is refused."""
        return False

    def fails_poll(self, machine: str) -> bool:
        """Return whether a wait for many connections fails."""
        return False

    def is_silent_death(self, host: str, forced: bool | None) -> bool:
        """Return whether a machine that dies now is off and says nothing; if not, its system ends its connections.

        forced: what whoever kills it has said of that, which is then the answer.
        """
        return forced is True

    def is_reset_at_death(self, host: str) -> bool:
        """Return whether a connection of a process that dies is reset, and not ended in good order."""
        return False

    def pieces_lost(self, host: str, under_way: int) -> int:
        """Return how many of the pieces that are under way go down with a machine that is off."""
        return 0

    def heal(self) -> None:
        """Let everything be well from here on."""


def earliest(moments_ns: Iterable[int | None]) -> int | None:
    """Return the first of some moments, None if there is none."""
    return min((moment for moment in moments_ns if moment is not None), default=None)


@dataclass(slots=True, eq=False)
class Medium:
    """One network's kernel, condition and hosts. buffer_bytes: what a receiver may leave unread before senders wait."""

    kernel: Kernel
    conditions: LinkConditions
    buffer_bytes: int
    machines: dict[str, Machine] = field(default_factory=dict)
    """The machine that each host's name has meant last."""

    def pass_point(self, machine: Machine, label: str) -> None:
        """Pass a scheduling point; a dead machine is refused outside of tasks, too."""
        kernel = self.kernel
        kernel.fuel -= 1
        if kernel.fuel < 0:
            kernel.reschedule(label)
            if not machine.alive:  # outside of tasks nothing was refused
                raise MachineDied(machine.name)

    def due_ns(self, timeout_ms: int | None) -> int | None:
        """Return until when somebody waits who begins now; None: for ever."""
        return None if timeout_ms is None else self.kernel.now_ns + timeout_ms * 1_000_000

    def is_on(self, host: str) -> bool:
        """Return whether anybody answers for a host."""
        machine = self.machines.get(host)
        return machine is not None and machine.alive

    def note(self, kind: str, label: str, data: bytes) -> None:
        """Let the digest and the trace know what happened."""
        kernel = self.kernel
        kernel.note((_NOTE | crc32(f"{kind} {label}".encode()), crc32(data) << 32 | len(data)))
        if kernel.trace is not None:
            kernel.trace.add(kind, f"{label}, {len(data)} bytes" if data else label)
