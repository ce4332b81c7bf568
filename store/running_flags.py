"""Why a store refuses work. Bits are RocketMQ's; none of them outlives the process."""

from enum import IntFlag

from .world import Tasks


class Refusal(IntFlag):
    """One bit per reason."""

    NOT_READABLE = 1
    NOT_WRITEABLE = 2
    WRITE_LOGICS_QUEUE_ERROR = 4
    WRITE_INDEX_FILE_ERROR = 8
    DISK_FULL = 16


_NOT_READABLE = int(Refusal.NOT_READABLE)  # plain integers, for every put asks
_NOT_WRITEABLE = int(~Refusal.NOT_READABLE)


class RunningFlags:
    """The reasons in force. Bits are set by several services and cleared by none but DISK_FULL's owner."""

    __slots__ = ("_bits", "_lock")

    def __init__(self, tasks: Tasks) -> None:
        self._bits = tasks.cell("running flags")
        self._lock = tasks.lock("running flags")

    @property
    def bits(self) -> int:
        """Return all reasons, as RocketMQ prints them."""
        return self._bits.get()

    @property
    def is_writeable(self) -> bool:
        """Return whether puts are accepted."""
        return self._bits.get() & _NOT_WRITEABLE == 0

    @property
    def is_readable(self) -> bool:
        """Return whether reads are answered."""
        return self._bits.get() & _NOT_READABLE == 0

    def refuse(self, reason: Refusal) -> None:
        """Add a reason."""
        with self._lock:
            self._bits.set(self._bits.get() | int(reason))
