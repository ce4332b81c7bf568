"""Deadlines: a table of equal timeouts, and the timeouts of clients.

The timeouts limit how long a client may be idle, take to complete a frame, and take to read answers. At the memory
limit, the server closes the slowest client. Only the poller task uses this module.
"""

from collections import OrderedDict
from collections.abc import Iterator
from typing import Generic, TypeVar

from .limits import ServerLimits
from .server_counts import ConnectionEnding
from .session import Session

_Key = TypeVar("_Key")

CHECKS_PER_TIMEOUT = 8
"""Number of checks per timeout, for the timeouts that each activity restarts: idle time and output."""


class TimeoutTable(Generic[_Key]):
    """Deadlines by key, all with the timeout `after_ms`. So the deadlines are in order without sorting."""

    __slots__ = ("_after_ns", "_due_ns")

    def __init__(self, after_ms: int) -> None:
        self._after_ns = after_ms * 1_000_000
        self._due_ns: OrderedDict[_Key, int] = OrderedDict()
        """Sorted by time. Not a plain dict, which finds its first key slowly after deletions."""

    def __contains__(self, key: _Key) -> bool:
        return key in self._due_ns

    def __iter__(self) -> Iterator[_Key]:
        return iter(self._due_ns)

    def start_ns_of(self, key: _Key) -> int:
        """Return the start of a timeout. Raises KeyError without a deadline."""
        return self._due_ns[key] - self._after_ns

    def set(self, key: _Key, from_ns: int) -> None:
        """Set the deadline to `from_ns` + `after_ms`. `from_ns` must not be lower than in earlier calls."""
        new_ns, due_ns = from_ns + self._after_ns, self._due_ns
        last_ns = next(reversed(due_ns.values()), new_ns)
        assert last_ns <= new_ns, (last_ns, new_ns)  # `pop_due` stops at the first key that is not due
        due_ns[key] = new_ns
        self._due_ns.move_to_end(key)

    def drop(self, key: _Key) -> None:
        self._due_ns.pop(key, None)

    @property
    def next_due_ns(self) -> int | None:
        return next(iter(self._due_ns.values()), None)

    def pop_due(self, now_ns: int, count_max: int) -> list[_Key]:
        """Remove and return at most count_max keys with a passed deadline, the earliest first."""
        due: list[_Key] = []
        last_ns = 0
        for key, due_ns in self._due_ns.items():
            assert last_ns <= due_ns, (last_ns, due_ns)
            if due_ns > now_ns or len(due) == count_max:
                break
            due.append(key)
            last_ns = due_ns
        for key in due:
            del self._due_ns[key]
        return due


class ClientTimeouts:
    """The timeouts of a server's clients."""

    def __init__(self, limits: ServerLimits) -> None:
        self._limits = limits
        self._frames: TimeoutTable[Session] = TimeoutTable(limits.frame_ms_max)
        self._idle: TimeoutTable[Session] = TimeoutTable(limits.idle_ms_max // CHECKS_PER_TIMEOUT)
        self._outputs: TimeoutTable[Session] = TimeoutTable(limits.output_ms_max // CHECKS_PER_TIMEOUT)

    def start_idle_timeout(self, session: Session, now_ns: int) -> None:
        self._idle.set(session, now_ns)

    def drop_session(self, session: Session) -> None:
        for deadlines in (self._frames, self._idle, self._outputs):
            deadlines.drop(session)

    def drop_frame_timeout(self, session: Session) -> None:
        """End the timeout of a complete frame, because each frame has its own."""
        self._frames.drop(session)

    def update_session(self, session: Session, now_ns: int) -> None:
        """Start or stop the timeouts of a frame and of output."""
        if not session.reader.held_bytes:
            self._frames.drop(session)
        elif session not in self._frames:
            self._frames.set(session, now_ns)
        if not session.output_bytes:
            self._outputs.drop(session)
        elif session not in self._outputs:
            self._outputs.set(session, now_ns)

    @property
    def slowest_session(self) -> Session | None:
        """The session that has been slow for the longest time, or None.

        A session is slow while it has unread answers or an incomplete frame. If the server has paused its input, the
        incomplete frame does not count.
        """
        frame = next((session for session in self._frames if session.may_receive_more), None)
        output = min(self._outputs, key=lambda session: session.taken_ns, default=None)
        if frame is None or output is None:
            return frame or output
        return frame if self._frames.start_ns_of(frame) <= output.taken_ns else output

    @property
    def next_due_ns(self) -> int | None:
        due_ns = [each.next_due_ns for each in (self._frames, self._idle, self._outputs)]
        return min((each for each in due_ns if each is not None), default=None)

    def close_expired(self, now_ns: int, count_max: int) -> None:
        """Close sessions after a timeout, at most `count_max` per kind of timeout."""
        for session in self._frames.pop_due(now_ns, count_max):
            if session.may_receive_more:
                session.end_session(ConnectionEnding.HALF_FRAME)
            else:
                self._frames.set(session, now_ns)  # restart: the server has paused this session
        for session in self._idle.pop_due(now_ns, count_max):
            if now_ns - session.active_ns >= self._limits.idle_ms_max * 1_000_000:
                session.end_session(ConnectionEnding.IDLE)
            else:
                self._idle.set(session, now_ns)
        for session in self._outputs.pop_due(now_ns, count_max):
            if now_ns - session.taken_ns >= self._limits.output_ms_max * 1_000_000:
                session.end_session(ConnectionEnding.NOT_READING)
            else:
                self._outputs.set(session, now_ns)
