"""How much room a store's disk has while there is traffic, and when it had too little."""

from ...faults.disk.disk import Disk
from ...sim.kernel import Kernel


class Room:
    """The capacity of one life's disk: there is plenty, but for as long as somebody limits it."""

    def __init__(self, kernel: Kernel, disk: Disk) -> None:
        self._kernel = kernel
        self._disk = disk
        self._returned_ns: int | None = None
        """When room last returned."""

    @property
    def is_short(self) -> bool:
        """Return whether there is an end to the room."""
        return self._disk.capacity_bytes is not None

    @property
    def is_too_full(self) -> bool:
        """Return whether so little is left that a store must not take any more: RocketMQ's default mark is 90 %."""
        capacity_bytes = self._disk.capacity_bytes
        return capacity_bytes is not None and self._disk.used_bytes * 10 > capacity_bytes * 9

    def limit(self, capacity_bytes: int) -> None:
        """Let the disk hold so much and no more."""
        assert capacity_bytes > 0, capacity_bytes
        self._disk.capacity_bytes = capacity_bytes

    def give_back(self) -> None:
        """Let there be plenty again."""
        if self.is_short:
            self._disk.capacity_bytes = None
            self._returned_ns = self._kernel.now_ns

    def was_short(self, since_ns: int) -> bool:
        """Return whether there was an end to the room at since_ns, or at any time after it."""
        return self.is_short or (self._returned_ns is not None and since_ns <= self._returned_ns)
