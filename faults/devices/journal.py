"""A journal whose commits are shared: all syncs that wait while one is under way are covered by the next.

A commit writes a description of what changed, flushes, writes a commit block and flushes again: the order of jbd2
(Linux, Documentation/filesystems/ext4/journal.rst). So files that are synced one after the other each pay for a commit,
and files that are synced by several tasks at once share them.
"""

from ...sim.machine import Scheduler
from .elevator import Elevator
from .storage import Run
from .waiters import Waiters

_DESCRIPTION_BLOCKS = 2  # the descriptor, and one block of inodes
_COMMIT_BLOCKS = 1


class Journal:
    """A ring of blocks. Invariant: changes are taken by the commit numbered `open_number`, which has not begun."""

    def __init__(self, kernel: Scheduler, elevator: Elevator, place: Run) -> None:
        self._elevator = elevator
        self._first, self._blocks = place
        self._at = 0
        self._waiters = Waiters(kernel, "a journal commit")
        self._is_committing = False
        self._is_due = False
        self._committed = 0
        self.open_number = 1

    @property
    def commits(self) -> int:
        """Return how many have ended."""
        return self._committed

    def note(self) -> int:
        """Note that something has changed; return the number of the commit that takes it."""
        self._is_due = True
        return self.open_number

    def commit_if_due(self) -> None:
        """Let the current task wait until all that has been noted is committed."""
        if self._is_due:
            self.wait_for(self.open_number)

    def wait_for(self, number: int) -> None:
        """Let the current task wait until the commit of that number has ended; make it, if nobody does."""
        while self._committed < number:
            if self._is_committing:
                self._waiters.join()
            else:
                self._commit()

    def _commit(self) -> None:
        self._is_committing = True
        self._is_due = False
        number, self.open_number = self.open_number, self.open_number + 1
        self._write(_DESCRIPTION_BLOCKS)
        self._write(_COMMIT_BLOCKS)
        self._committed = number
        self._is_committing = False
        self._waiters.wake_all()

    def _write(self, blocks: int) -> None:
        """Write the next blocks of the ring, and flush."""
        if self._at + blocks > self._blocks:
            self._at = 0
        elevator = self._elevator
        elevator.wait(elevator.write([(self._first + self._at, blocks)]))
        self._at += blocks
        elevator.wait(elevator.flush())
