"""Network medium: link conditions (delays, faults) and the hosts of a network."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum
from zlib import crc32

from ..errors import MachineDied
from ..kernel import Kernel
from ..machine import Machine

_NOTE = 12 << 56  # tag of digest words; kernel, disturbances and disks use others


class ConnectionFault(Enum):
    """A fault that a send causes."""

    NONE = "none"
    BROKEN = "broken"
    """Both ends of the connection are reset."""
    LOST = "lost"
    """Further bytes are lost, and both ends get an error only after a long time."""


class LinkConditions:
    """Delays and faults of all links: here no faults, and a constant delay. Any method of a subclass may draw."""

    def __init__(self, latency_ns: int = 50_000) -> None:
        self._latency_ns = latency_ns

    def delay_ns(self, source: str, target: str, size_bytes: int) -> int:
        """Return the transport time of bytes sent now between two host names."""
        return self._latency_ns

    def note_arrival(self, source: str, target: str, sent_ns: int, arrives_ns: int) -> None:
        """Called after each send. arrives_ns is after all earlier arrival times of the stream."""

    def first_piece_bytes(self, source: str, target: str, size_bytes: int) -> int:
        """Return how many of the bytes (two or more) arrive before the rest; size_bytes if all arrive together."""
        return size_bytes

    def draw_connection_fault(self, source: str, target: str) -> ConnectionFault:
        return ConnectionFault.NONE

    def refuses_connection(self, source: str, target: str) -> bool:
        return False

    def fails_accept(self, machine: str) -> bool:
        return False

    def fails_poll(self, machine: str) -> bool:
        return False

    def is_silent_death(self, host: str, forced: bool | None) -> bool:
        """Return whether a dying machine loses power. Otherwise its operating system ends its connections.

        forced: decision of the caller that kills the machine, None if it leaves the decision open.
        """
        return forced is True

    def is_reset_at_death(self, host: str) -> bool:
        return False

    def draw_lost_pieces(self, host: str, under_way: int) -> int:
        return 0

    def heal(self) -> None:
        """End all faults."""


def earliest_time_ns(moments_ns: Iterable[int | None]) -> int | None:
    earliest_ns = None
    for moment_ns in moments_ns:
        if moment_ns is not None and (earliest_ns is None or moment_ns < earliest_ns):
            earliest_ns = moment_ns
    return earliest_ns


@dataclass(slots=True, eq=False)
class NetworkMedium:
    """State shared by the hosts of a network. A sender waits while buffer_bytes bytes are unread."""

    kernel: Kernel
    conditions: LinkConditions
    buffer_bytes: int
    machines: dict[str, Machine] = field(default_factory=dict)
    """The latest machine of each host."""

    def pass_scheduling_point(self, machine: Machine, label: str) -> None:
        """Pass a scheduling point. Raises MachineDied for a dead machine, also outside of tasks."""
        kernel = self.kernel
        kernel.fuel -= 1
        if kernel.fuel < 0:
            kernel.reschedule(label)
            if not machine.alive:  # the kernel raises MachineDied only inside of tasks
                raise MachineDied(machine.name)

    def due_ns(self, timeout_ms: int | None) -> int | None:
        return None if timeout_ms is None else self.kernel.now_ns + timeout_ms * 1_000_000

    def is_host_on(self, host: str) -> bool:
        machine = self.machines.get(host)
        return machine is not None and machine.alive

    def record_event(self, kind: str, label: str, data: bytes) -> None:
        kernel = self.kernel
        kernel.note((_NOTE | crc32(f"{kind} {label}".encode()), crc32(data) << 32 | len(data)))
        if kernel.trace is not None:
            kernel.trace.add_event(kind, f"{label}, {kernel.trace.text_of_data(kind, label, data)}" if data else label)
