"""Deadlines: a queue of equal time-outs, and how long clients are waited for.

A client has so long to finish a frame it has begun, to take answers, and to be silent. Who has been at a frame, or at
taking answers, for longest is also who has to go when memory runs out. All of it belongs to the connections' task,
and costs nothing while no time is up.
"""

from collections import OrderedDict
from collections.abc import Iterator
from typing import Generic, TypeVar

from .limits import ServerLimits
from .server_counts import Ending
from .session import Session

_Who = TypeVar("_Who")

LOOKS = 8
"""How often a time that passes anew with everything that happens is looked at while it passes."""


class Deadlines(Generic[_Who]):
    """Deadlines that are each after_ms from when they are set. Costs nothing while none has come."""

    __slots__ = ("_after_ns", "_due_ns")

    def __init__(self, after_ms: int) -> None:
        self._after_ns = after_ms * 1_000_000
        self._due_ns: OrderedDict[_Who, int] = OrderedDict()
        """In order of the moments, as all have the same time; a dict would pass over who has left to find the first."""

    def __contains__(self, who: _Who) -> bool:
        return who in self._due_ns

    def __iter__(self) -> Iterator[_Who]:
        """Iterate over who is waited for, the longest first."""
        return iter(self._due_ns)

    def since_ns(self, who: _Who) -> int:
        """Return the moment since which who is waited for. KeyError if nobody waits."""
        return self._due_ns[who] - self._after_ns

    def set(self, who: _Who, from_ns: int) -> None:
        """Give who after_ms from a moment, which is not before that of the last call."""
        moment_ns, due_ns = from_ns + self._after_ns, self._due_ns
        last_ns = next(reversed(due_ns.values()), moment_ns)
        assert last_ns <= moment_ns, (last_ns, moment_ns)  # `pop_due` stops at the first that is not due
        due_ns[who] = moment_ns
        self._due_ns.move_to_end(who)

    def drop(self, who: _Who) -> None:
        """Wait for who no more."""
        self._due_ns.pop(who, None)

    @property
    def next_due_ns(self) -> int | None:
        """Return the next moment, None if nobody is waited for."""
        return next(iter(self._due_ns.values()), None)

    def pop_due(self, now_ns: int, count_max: int) -> list[_Who]:
        """Take out and return those whose moment has come, the earliest first."""
        due: list[_Who] = []
        for who, due_ns in self._due_ns.items():
            if due_ns > now_ns or len(due) == count_max:
                break
            due.append(who)
        for who in due:
            del self._due_ns[who]
        return due


class Patience:
    """The clients of one server that are waited for, each with some time left."""

    def __init__(self, limits: ServerLimits) -> None:
        self._limits = limits
        self._frames: Deadlines[Session] = Deadlines(limits.frame_ms_max)
        self._idle: Deadlines[Session] = Deadlines(limits.idle_ms_max // LOOKS)
        self._outputs: Deadlines[Session] = Deadlines(limits.output_ms_max // LOOKS)

    def came(self, session: Session, now_ns: int) -> None:
        """Begin to wait for a session that has connected."""
        self._idle.set(session, now_ns)

    def gone(self, session: Session) -> None:
        """Wait for it no more."""
        for deadlines in (self._frames, self._idle, self._outputs):
            deadlines.drop(session)

    def frame_ended(self, session: Session) -> None:
        """Note that a frame has become whole, so that the next has all its time."""
        self._frames.drop(session)

    def look_at(self, session: Session, now_ns: int) -> None:
        """Wait for what a session owes: the rest of a frame, or that it takes what waits for it."""
        if not session.reader.held_bytes:
            self._frames.drop(session)
        elif session not in self._frames:
            self._frames.set(session, now_ns)
        if not session.output_bytes:
            self._outputs.drop(session)
        elif session not in self._outputs:
            self._outputs.set(session, now_ns)

    @property
    def slowest(self) -> Session | None:
        """Return who has been at a frame, or has taken nothing of its answers, for longest; None if nobody is slow.

        Whose frame waits because nobody listens to it is not slow.
        """
        frame = next((session for session in self._frames if session.is_listened_to), None)
        output = min(self._outputs, key=lambda session: session.taken_ns, default=None)
        if frame is None or output is None:
            return frame or output
        return frame if self._frames.since_ns(frame) <= output.taken_ns else output

    @property
    def next_due_ns(self) -> int | None:
        """Return when the next time is up, or to be looked at; None if nobody is waited for."""
        due_ns = [each.next_due_ns for each in (self._frames, self._idle, self._outputs)]
        return min((each for each in due_ns if each is not None), default=None)

    def expire(self, now_ns: int, count_max: int) -> None:
        """End those whose time is up, at most so many of each kind."""
        for session in self._frames.pop_due(now_ns, count_max):
            if session.is_listened_to:
                session.end(Ending.HALF_FRAME)
            else:
                self._frames.set(session, now_ns)  # it is not its fault
        for session in self._idle.pop_due(now_ns, count_max):
            if now_ns - session.active_ns >= self._limits.idle_ms_max * 1_000_000:
                session.end(Ending.IDLE)
            else:
                self._idle.set(session, now_ns)
        for session in self._outputs.pop_due(now_ns, count_max):
            if now_ns - session.taken_ns >= self._limits.output_ms_max * 1_000_000:
                session.end(Ending.NOT_READING)
            else:
                self._outputs.set(session, now_ns)
