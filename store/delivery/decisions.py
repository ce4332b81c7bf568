"""Decisions about transactions in this life, before the queues show them.

A decision is in the log before the check can pull its op, and a half message that was put back is known under two
offsets. Without this memory a producer would be asked about what it has just decided, and two of its answers that cross
would both be carried out: until the check has passed a half message, the first one counts. Nothing here survives a
crash, nor needs to: a producer is then asked once more. What the check has passed is decided, unless it was given up.
"""

from collections.abc import Callable, Mapping

from ..world import World
from .half_message import HalfMessage

_IN_FLIGHT = -1
_OWED = -2


class Decisions:
    """Decisions made and half messages put back in this life. Methods that say so are called with `lock` held."""

    def __init__(self, world: World) -> None:
        self.lock = world.tasks.lock("transactions")
        """Whoever holds it can put a half message back, and nobody decides it meanwhile."""
        self._ops: dict[int, int] = {}
        """Half offset -> queue offset of its op, or why there is none, until the op can be pulled."""
        self._put_back: dict[int, int] = {}
        """First offset -> newest one, until the check is done with it."""
        self._decided: set[int] = set()
        """First offsets of what was decided, until the check has passed it."""
        self._given_up: set[int] = set()
        """First offsets of what the check has passed undecided, and nobody has decided since."""
        self._passed = range(0)
        """First offsets of what the check is done with, but for what was put back or given up."""

    def begin(self, half: HalfMessage, visible_ops: int) -> bool:
        """Claim the right to decide; False if that is known to have happened, or is happening.

        visible_ops: the end of the op queue.
        """
        with self.lock:
            self._prune(visible_ops)
            if self._is_past(half.first_offset):
                return False
            if half.first_offset in self._decided or any(offset in self._ops for offset in half.offsets):
                return False
            self._ops |= dict.fromkeys(half.offsets, _IN_FLIGHT)
            return True

    def _is_past(self, first_offset: int) -> bool:
        """Return whether the check has come upon the decision about a half message of this life, and forgotten it."""
        return first_offset in self._passed and not (
            first_offset in self._put_back or first_offset in self._given_up
        )

    def _prune(self, visible_ops: int) -> None:
        """Forget the oldest decisions as far as everyone can see their ops."""
        while self._ops:
            half_offset, op_offset = next(iter(self._ops.items()))
            if not 0 <= op_offset < visible_ops:
                return
            del self._ops[half_offset]

    def abandon(self, half: HalfMessage) -> None:
        """Give the right back: nothing was decided."""
        with self.lock:
            for offset in half.offsets:
                self._ops.pop(offset, None)

    def conclude(self, half: HalfMessage, ops: Mapping[int, int | None]) -> None:
        """Note that a half message is decided. ops: half offset -> queue offset of its op, None if it is not stored."""
        with self.lock:
            for half_offset, op_offset in ops.items():
                assert op_offset is None or op_offset >= 0, (half_offset, op_offset)
                self._ops[half_offset] = _OWED if op_offset is None else op_offset
            self._decided.add(half.first_offset)
            self._given_up.discard(half.first_offset)

    def op_stored(self, half_offset: int, op_offset: int) -> None:
        """Note that an op that was owed is in the log."""
        assert op_offset >= 0, op_offset
        with self.lock:
            self._ops[half_offset] = op_offset

    def owed(self) -> list[int]:
        """Return the decided half messages whose op is not in the log."""
        with self.lock:
            return [half_offset for half_offset, op_offset in self._ops.items() if op_offset == _OWED]

    def clear(self) -> None:
        """Forget everything: the half queue counts from 0 again, and the offsets would be those of others."""
        with self.lock:
            self._ops.clear()
            self._put_back.clear()
            self._decided.clear()
            self._given_up.clear()
            self._passed = range(0)

    # -- with the lock held ------------------------------------------------------------------------

    def is_hidden(self, half: HalfMessage, visible_ops: int) -> bool:
        """Return whether a half message is decided, or about to be, and its op cannot be pulled yet."""
        ops = [self._ops[offset] for offset in half.offsets if offset in self._ops]
        return any(not 0 <= op_offset < visible_ops for op_offset in ops)

    def was_put_back(self, half: HalfMessage, offset: int) -> None:
        """Note that a half message is now also at a later queue offset."""
        self._put_back[half.first_offset] = offset

    def was_passed(self, half: HalfMessage) -> None:
        """Note that the check is done with a half message."""
        if self._put_back.get(half.first_offset) == half.record.queue_offset:
            del self._put_back[half.first_offset]

    def is_put_back(self, first_offset: int) -> bool:
        """Return whether the half message that was first at a queue offset may come up again."""
        return first_offset in self._put_back

    def was_given_up(self, half: HalfMessage) -> None:
        """Note that the check has passed a half message that nobody decided."""
        self._given_up.add(half.first_offset)

    def forget(self, is_settled: Callable[[int], bool], passed: range) -> None:
        """Drop decisions about half messages that the check cannot come upon again.

        passed: the first offsets, of this life, that the check is done with, but for what was put back or given up.
        """
        self._passed = passed
        self._decided = {half_offset for half_offset in self._decided if not is_settled(half_offset)}
