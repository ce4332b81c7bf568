"""What all connections of one network share."""

from zlib import crc32

from ..errors import MachineDied
from ..kernel import Kernel
from ..machine import Machine
from .conditions import LinkConditions

_NOTE = 12 << 56  # tag of digest words, beside those of the kernel, of disturbances and of disks


class Medium:
    """One network's kernel, condition and hosts. buffer_bytes: what a receiver may leave unread before senders wait."""

    __slots__ = ("buffer_bytes", "conditions", "kernel", "machines")

    def __init__(self, kernel: Kernel, conditions: LinkConditions, buffer_bytes: int) -> None:
        self.kernel = kernel
        self.conditions = conditions
        self.buffer_bytes = buffer_bytes
        self.machines: dict[str, Machine] = {}
        """The machine that each host's name has meant last."""

    def pass_point(self, machine: Machine, label: str) -> None:
        """Pass a scheduling point; a dead machine is refused outside of tasks, too."""
        kernel = self.kernel
        kernel.fuel -= 1
        if kernel.fuel < 0:
            kernel.reschedule(label)
            if not machine.alive:
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
