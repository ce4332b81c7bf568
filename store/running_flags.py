"""Running flags: the reasons why a store refuses work, as RocketMQ's bits."""

from collections.abc import Callable
from enum import IntFlag

from .service import do_nothing
from .world import Tasks


class RefusalReason(IntFlag):
    """One bit per reason. The store does not write the bits to disk."""

    NOT_READABLE = 1
    NOT_WRITEABLE = 2
    WRITE_LOGICS_QUEUE_ERROR = 4
    WRITE_INDEX_FILE_ERROR = 8
    DISK_FULL = 16


_NOT_READABLE = int(RefusalReason.NOT_READABLE)  # integers instead of enum members, because every put tests them
_NOT_WRITEABLE = int(~RefusalReason.NOT_READABLE)


class RunningFlags:
    """The active reasons. The code that detects a problem sets a reason, and clears it after the problem.

    Invariant: every lasting reason is active.
    """

    __slots__ = ("_bits", "_lasting", "_lock", "failures", "on_lasting_refusal")

    def __init__(self, tasks: Tasks) -> None:
        self._bits = tasks.cell("running flags")
        self._lock = tasks.lock("running flags")
        self._lasting = 0
        """Reasons to refuse puts that only a restart clears. Protected by the lock."""
        self.failures: dict[str, str] = {}
        """Service name -> unexpected error that ended the service."""
        self.on_lasting_refusal: Callable[[str], None] = do_nothing
        """Called with the cause of the first reason that only a restart clears, by the task that found the cause."""

    @property
    def bits(self) -> int:
        return self._bits.get()

    @property
    def is_writeable(self) -> bool:
        return self._bits.get() & _NOT_WRITEABLE == 0

    @property
    def is_readable(self) -> bool:
        return self._bits.get() & _NOT_READABLE == 0

    @property
    def has_failed(self) -> bool:
        return self._lasting != 0

    @property
    def lasting(self) -> RefusalReason:
        """The reasons to refuse puts until the restart."""
        return RefusalReason(self._lasting)

    def add_refusal(self, reason: RefusalReason) -> None:
        assert reason, "a refusal needs a reason"
        with self._lock:
            self._set_bits(self._bits.get() | int(reason))

    def refuse_until_restart(self, reason: RefusalReason, cause: str) -> None:
        """Add a reason until the restart, for example after a failed write, which leaves the disk's content unknown."""
        with self._lock:
            is_first = not self._lasting
            self._lasting |= int(reason)
            self._set_bits(self._bits.get() | int(reason))
        if is_first:
            self.on_lasting_refusal(cause)

    def service_failed(self, name: str, error: Exception) -> None:
        self.failures[name] = f"{type(error).__name__}: {error}"
        self.refuse_until_restart(RefusalReason.NOT_WRITEABLE, f"{name} has ended: {self.failures[name]}")

    def clear_refusal(self, reason: RefusalReason) -> None:
        with self._lock:
            self._set_bits(self._bits.get() & (~int(reason) | self._lasting))

    def _set_bits(self, bits: int) -> None:
        self._bits.set(bits)
        assert bits & self._lasting == self._lasting, (bits, self._lasting)
