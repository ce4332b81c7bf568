"""How long clients are waited for: with a frame they have begun, with answers they do not take, in silence.

Who has been at a frame, or at taking answers, for longest is also who has to go when memory runs out. All of it belongs
to the task of the connections, and costs nothing while no time is up.
"""

from .deadlines import Deadlines
from .limits import ServerLimits
from .server_counts import Ending
from .session import Session

LOOKS = 8
"""How often a time that passes anew with everything that happens is looked at while it passes."""


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
        output = min(self._outputs, key=_taken_ns, default=None)
        if frame is None or output is None:
            return frame or output
        return frame if self._frames.since_ns(frame) <= output.taken_ns else output

    @property
    def next_due_ns(self) -> int | None:
        """Return when the next time is up, or to be looked at; None if nobody is waited for."""
        due_ns = [
            deadlines.next_due_ns
            for deadlines in (self._frames, self._idle, self._outputs)
            if deadlines.next_due_ns is not None
        ]
        return min(due_ns, default=None)

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


def _taken_ns(session: Session) -> int:
    return session.taken_ns
