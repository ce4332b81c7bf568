"""Numbers the operations of one disk, and pulls the plug at one of them."""

from collections import Counter
from typing import NoReturn
from zlib import crc32

from ..sim.choices import Stream
from ..sim.errors import MachineDied
from ..sim.kernel import Kernel
from ..sim.machine import Machine
from .plan import FaultPlan

BEFORE, DURING, AFTER = "before", "during", "after"
MOMENTS = (BEFORE, DURING, AFTER)
_NOTE_OPERATION = 3 << 56


class Plug:
    """What every operation of a disk passes through.

    operations: how many have begun. fired: every fault that really happened. armed: the number of the operation to die
    at, -1 for none. faults: what goes wrong, and how often.
    """

    __slots__ = (
        "armed",
        "faults",
        "fired",
        "kernel",
        "moment",
        "operations",
        "stream",
    )

    def __init__(self, kernel: Kernel, stream: Stream, faults: FaultPlan) -> None:
        self.kernel = kernel
        self.stream = stream
        self.fired: Counter[str] = Counter()
        self.operations = 0
        self.armed = -1
        self.faults = faults
        self.moment = BEFORE

    def pause(self, machine: Machine, kind: str) -> None:
        """Pass a scheduling point; a dead machine is refused outside of tasks, too."""
        kernel = self.kernel
        kernel.fuel -= 1
        if kernel.fuel < 0:
            self.pause_slowly(machine, kind)

    def pause_slowly(self, machine: Machine, kind: str) -> None:
        """Pass a scheduling point that has no fuel left; hot paths have the test for that inlined."""
        self.kernel.reschedule(kind)
        if not machine.alive:
            raise MachineDied(machine.name)

    def strikes(self, chance: float, fault: str, label: str) -> bool:
        """Draw whether a fault happens here, and count it if so. What has no chance is not drawn."""
        if chance <= 0.0 or not self.stream.chance(chance, f"{fault} {label}"):
            return False
        self.fired[fault] += 1
        return True

    def wall_ns(self, machine: Machine) -> int:
        """Return virtual time as the machine's wall clock shows it."""
        return self.kernel.now_ns + machine.wall_offset_ms * 1_000_000

    def begin(self, machine: Machine, kind: str, path: str) -> int:
        """Count an operation and return its number; raises MachineDied if it is to end before its effect.

        The caller has passed a scheduling point and found that the operation is possible.
        """
        kernel = self.kernel
        kernel.note(_NOTE_OPERATION | crc32(kind.encode()), crc32(path.encode()))
        if kernel.trace is not None:
            kernel.trace.add(kind, path)
        number = self.operations
        self.operations = number + 1
        if number == self.armed and self.moment == BEFORE:
            self.pull(machine, kind)
        return number

    def begin_atomic(self, machine: Machine, kind: str, path: str) -> int:
        """Begin an operation that has no middle: a crash during it is drawn to be before or after its effect."""
        number = self.begin(machine, kind, path)
        dying = number == self.armed and self.moment == DURING
        if dying and self.stream.chance(0.5, f"{kind} {path} had no effect"):
            self.pull(machine, kind)
        return number

    def end(self, machine: Machine, kind: str, number: int) -> None:
        """End an operation; raises MachineDied if it was the last one."""
        if number == self.armed:
            self.pull(machine, kind)

    def pull(self, machine: Machine, kind: str) -> NoReturn:
        """Kill the machine in the midst of an operation; always raises MachineDied."""
        self.fired[f"crash {self.moment} {kind}"] += 1
        self.armed = -1
        self.kernel.kill(machine)
        raise MachineDied(machine.name)
