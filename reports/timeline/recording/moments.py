"""The clock of a recording: every call makes a moment of its own."""

from typing import TYPE_CHECKING

from .record import RecordedMoment

if TYPE_CHECKING:
    from ....sim.kernel import Kernel


class Moments:
    """The moments of one kernel so far, oldest first."""

    def __init__(self) -> None:
        self.all: list[RecordedMoment] = []
        self._kernel: Kernel | None = None
        self._stopped = False

    def attach(self, kernel: "Kernel") -> None:
        """Take time and step from this kernel."""
        self._kernel = kernel

    @property
    def kernel(self) -> "Kernel":
        """Return the kernel that the moments are of."""
        assert self._kernel is not None, "a recording belongs to a kernel"
        return self._kernel

    def mark(self) -> int:
        """Make a moment of here and now, and return it."""
        if not (self._stopped and self.all):
            self.all.append(RecordedMoment(self.kernel.now_ns, self.kernel.steps))
        return len(self.all) - 1

    def stop(self) -> None:
        """Let all that follows be of the newest moment: a machine is dead, and its tasks are only unwound."""
        self._stopped = True

    def go_on(self) -> None:
        """Let what follows have moments of its own again."""
        self._stopped = False

    def last(self) -> int:
        """Return the newest moment; one is made if there is none."""
        return len(self.all) - 1 if self.all else self.mark()
