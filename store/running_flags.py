"""Running flags: why a store refuses work. Bits are RocketMQ's; none of them outlives the process."""

from collections.abc import Callable
from enum import IntFlag

from .service import do_nothing
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
    """The reasons in force. Each is given and taken back by whoever finds it, those of failed writes never.

    Invariant: the reasons that last are among those in force.
    """

    __slots__ = ("_bits", "_lasting", "_lock", "failures", "on_service_failed")

    def __init__(self, tasks: Tasks) -> None:
        self._bits = tasks.cell("running flags")
        self._lock = tasks.lock("running flags")
        self._lasting = 0
        """Reasons that only a restart ends. Belongs to whoever holds the lock."""
        self.failures: dict[str, str] = {}
        """Services that have ended of what nobody foresaw, each with what that was."""
        self.on_service_failed: Callable[[str], None] = do_nothing
        """Called with the name of each, in its last moments."""

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

    @property
    def has_failed(self) -> bool:
        """Return whether there is a reason that only a restart ends."""
        return self._lasting != 0

    def refuse(self, reason: Refusal) -> None:
        """Add a reason."""
        with self._lock:
            self._set(self._bits.get() | int(reason))

    def refuse_for_good(self, reason: Refusal) -> None:
        """Add a reason that nothing but a restart ends: after a failed write nobody knows what the disk has."""
        with self._lock:
            self._lasting |= int(reason)
            self._set(self._bits.get() | int(reason))

    def service_failed(self, name: str, error: Exception) -> None:
        """Take no more puts: a service has ended, and nobody does its work until a restart."""
        self.failures[name] = f"{type(error).__name__}: {error}"
        self.refuse_for_good(Refusal.NOT_WRITEABLE)
        self.on_service_failed(name)

    def allow(self, reason: Refusal) -> None:
        """Take a reason back, unless it was added for good."""
        with self._lock:
            self._set(self._bits.get() & (~int(reason) | self._lasting))

    def _set(self, bits: int) -> None:
        self._bits.set(bits)
        assert bits & self._lasting == self._lasting, (bits, self._lasting)
