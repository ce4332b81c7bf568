"""Replication streams: judge the sends, the silence and the close of both ends of a connection.

    frames     follow one another from the requested offset, within the batch size, with the bytes of the master's log;
               a master sends readable data at once, and a heartbeat in each idle interval
    reports    never decrease or exceed the received bytes; a slave reports progress at once, and in each idle interval
    silence    an end closes a connection after haHousekeepingInterval without a byte from its peer, and not before
    close      else only after the peer's end, an error, an impossible report, a divergence or a stop; a master that
               stops waits up to 5 s until each slave has reported the whole log

Each end is observed at the calls of its program. `StreamRules.slack_ns` covers pauses and a slow disk.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from struct import Struct

from ...store.formats.replication import REPORT_BYTES, FrameHeader
from .evidence import Violation, record_tried

_broken = partial(Violation, "REP", file="")
_MS = 1_000_000
_NOT_YET = -1
_FRAME_HEAD = Struct(">qi")


@dataclass(frozen=True, slots=True)
class StreamRules:
    """The settings of both ends, and the time for which an end may be late."""

    heartbeat_ms: int
    silence_ms: int
    batch_bytes: int
    slack_ns: Callable[[int], int]
    """Returns by how much an end may be late that had to act at a given time."""


@dataclass(slots=True, eq=False)
class StreamEnd:
    """One end of a connection, from its first to its last call. All times are virtual."""

    label: str
    rules: StreamRules
    opened_ns: int
    last_receive_ns: int = field(init=False)
    """Time of the last received byte."""
    last_send_end_ns: int = field(init=False)
    """Time at which the last send returned."""
    last_send_begin_ns: int = field(init=False)
    """Time at which the last send began."""
    is_sending: bool = False
    may_close: bool = False
    """Whether the program has a reason to close other than a silence."""
    closed_ns: int | None = None

    def __post_init__(self) -> None:
        self.last_receive_ns = self.last_send_end_ns = self.last_send_begin_ns = self.opened_ns

    @property
    def must_send(self) -> bool:
        """Whether this end must send something in each interval."""
        raise NotImplementedError

    def note_received(self, data: bytes, now_ns: int) -> None:
        if data:
            self.last_receive_ns = now_ns
        else:
            self.may_close = True

    def note_sent(self, now_ns: int, left_bytes: int) -> None:
        """Record the end of a call. left_bytes: the bytes that the network has not accepted yet."""
        self.is_sending, self.last_send_end_ns = left_bytes > 0, now_ns

    def check_times(self, now_ns: int) -> Iterator[Violation]:
        """Yield a silence of the peer that this end did not notice, and a missing send of this end."""
        record_tried("REP")
        silent_ns, idle_ns = now_ns - self.last_receive_ns, now_ns - self.last_send_end_ns
        limit_ns = self.rules.silence_ms * _MS + self.rules.slack_ns(self.last_receive_ns)
        if silent_ns > limit_ns and self.closed_ns is None and not self.may_close:
            summary = f"{self.label} keeps a silent connection"
            yield _broken(summary, field="silence", expected=_at_most(limit_ns), found=_ms(silent_ns))
        limit_ns = self.rules.heartbeat_ms * _MS + self.rules.slack_ns(self.last_send_end_ns)
        is_open = not self.is_sending and self.closed_ns is None and not self.may_close
        if self.must_send and is_open and idle_ns > limit_ns:
            summary = f"{self.label} sends nothing on an idle connection"
            yield _broken(summary, field="interval", expected=_at_most(limit_ns), found=_ms(idle_ns))

    def begin_send(self, now_ns: int, *, repeats: bool) -> Iterator[Violation]:
        """Yield a heartbeat, or the same report again, before the end of an idle interval; see also `check_times`."""
        yield from self.check_times(now_ns)
        since_ns, self.last_send_begin_ns = self.last_send_begin_ns, now_ns
        self.is_sending = True
        if repeats and now_ns - since_ns < self.rules.heartbeat_ms * _MS - self.rules.slack_ns(since_ns):
            summary, found = f"{self.label} repeats a message within an interval", _ms(now_ns - since_ns)
            yield _broken(summary, field="interval", expected=f"{self.rules.heartbeat_ms} ms", found=found)

    def has_reason_to_close(self, now_ns: int) -> bool:
        return self.may_close or now_ns - self.last_receive_ns >= self.rules.silence_ms * _MS

    def close(self, now_ns: int, *, has_reason: bool) -> Iterator[Violation]:
        if self.closed_ns is not None:
            return
        record_tried("REP")
        self.closed_ns = now_ns
        if has_reason or self.has_reason_to_close(now_ns):
            return
        expected, found = f"after {self.rules.silence_ms} ms of silence", f"after {_ms(now_ns - self.last_receive_ns)}"
        yield _broken(f"{self.label} closes a healthy connection", field="close", expected=expected, found=found)


@dataclass(slots=True, eq=False)
class MasterEnd(StreamEnd):
    """The master's end: receives reports and sends frames."""

    peer: str = ""
    """The slave's address."""
    began: int = _NOT_YET
    """Log offset of the first frame."""
    sent: int = _NOT_YET
    """Log offset after the last frame."""
    empty_begin: int = _NOT_YET
    """Where the stream of an empty slave began at its request. The log may have grown before the first frame."""
    reports: list[tuple[int, int]] = field(default_factory=list)
    """Time and offset of each received report. The first one is only a request."""
    is_rejected: bool = False
    """Whether the master's log lacks the requested offset."""
    _received: bytearray = field(default_factory=bytearray)

    @property
    def must_send(self) -> bool:
        return bool(self.reports)

    @property
    def is_replica(self) -> bool:
        """Whether puts may wait, or have waited, for this slave."""
        return bool(self.reports) and not self.is_rejected

    @property
    def next_offset(self) -> int:
        """Log offset of the next frame; -1 before the request, and before the first frame to an empty slave."""
        if self.sent != _NOT_YET or not self.reports:
            return self.sent
        return self.reports[0][1] or _NOT_YET

    def note_reports(self, data: bytes, now_ns: int, log_start: int, readable_end: int, empty_begin: int) -> None:
        """Record received reports. log_start, readable_end: the log that the master can send."""
        self.note_received(data, now_ns)
        self._received += data
        while len(self._received) >= REPORT_BYTES:
            offset = int.from_bytes(self._received[:REPORT_BYTES], "big", signed=True)
            del self._received[:REPORT_BYTES]
            if self.reports:
                sent = max(self.sent, self.reports[0][1])  # an idle slave repeats its request before the first frame
                self.may_close |= not self.reports[-1][1] <= offset <= sent
            else:
                self.empty_begin = empty_begin
                self.is_rejected = offset != 0 and not log_start <= offset <= readable_end
                self.may_close |= self.is_rejected
                self.last_send_end_ns = now_ns  # the first interval begins with the request
            self.reports.append((now_ns, offset))

    def reported_offset(self, until_ns: int) -> int:
        """Return the last offset received by a time; -1 if there was none."""
        return next((offset for at_ns, offset in reversed(self.reports) if at_ns <= until_ns), _NOT_YET)

    def confirmed_ns(self, start: int, end: int) -> int | None:
        """Return when the slave reported a range of the log that this connection had sent; None if it did not."""
        if not _NOT_YET < self.began <= start:
            return None
        return next((at_ns for at_ns, offset in self.reports[1:] if offset >= end), None)

    def check_awaited(self, now_ns: int, since_ns: int, log_end: int, wait_ms: int) -> Iterator[Violation]:
        """Yield a close by a master that stops, if it did not wait until the slave has reported the whole log.

        since_ns: when the stop began. wait_ms: the maximum time of the wait. A slave that connects during the stop may
        come too late.
        """
        is_known = self.is_replica and self.reports[0][0] < since_ns
        if not is_known or self.closed_ns is not None or self.has_reason_to_close(now_ns):
            return
        record_tried("REP")
        reported = self.reported_offset(now_ns)
        if reported < log_end and now_ns - since_ns < wait_ms * _MS:
            summary, found = f"{self.label} stops before the slave has its log", f"{reported}, {_ms(now_ns - since_ns)}"
            yield _broken(summary, field="report", expected=f"{log_end} or {wait_ms} ms", found=found)

    def send(
        self, frame: FrameHeader, data: bytes, now_ns: int, log: bytes, empty_begin: int, waiting_since_ns: int | None
    ) -> Iterator[Violation]:
        """Judge the next frame.

        log: the master's bytes at its offset. empty_begin: where the stream of an empty slave would begin now.
        waiting_since_ns: a time from which the byte at the offset has been readable; None if this is unknown.
        """
        yield from self.begin_send(now_ns, repeats=frame.is_heartbeat and not self.may_close)
        expected = last = self.sent if self.began != _NOT_YET else self.reports[0][1]
        if self.began == _NOT_YET and expected == 0:
            expected, last = self.empty_begin, empty_begin
        self.began = frame.log_offset if self.began == _NOT_YET else self.began
        self.sent = frame.log_offset + frame.size_bytes
        if self.may_close:
            return  # the last heartbeat of a rejected slave names the log's start or end
        if not expected <= frame.log_offset <= last:
            summary = f"{self.label} does not continue after its last frame"
            yield _broken(summary, field="log_offset", expected=str(expected), found=str(frame.log_offset))
        if frame.size_bytes > self.rules.batch_bytes or data != log:
            found = f"{frame.size_bytes} bytes{'' if data == log else ', others than in its log'}"
            summary, wanted = f"{self.label} sends a wrong frame", f"up to {self.rules.batch_bytes} bytes of its log"
            yield _broken(summary, field="frame", expected=wanted, found=found)
        if waiting_since_ns is not None:
            since_ns = max(waiting_since_ns, self.last_send_end_ns)
            if now_ns - since_ns > self.rules.slack_ns(since_ns):
                summary, found = f"{self.label} delays readable data", _ms(now_ns - since_ns)
                yield _broken(summary, field="frame", expected=_at_most(self.rules.slack_ns(since_ns)), found=found)


def check_figures(info: Mapping[str, str], ends: Iterable[MasterEnd], now_ns: int) -> Iterator[Violation]:
    """Yield a slave with other offsets in its master's figures than its last report and the end of the last frame.

    The master may not have handled the last report yet, and may be about to send another frame.
    """
    for end in ends:
        found = info.get(f"haSlave_{end.peer}")
        if end.closed_ns is not None or found is None:
            continue
        record_tried("REP")
        reported, sent = map(int, found.split(","))
        if reported > end.reported_offset(now_ns) or sent < end.sent:
            summary = f"the figures of a master have wrong offsets of {end.peer}"
            expected = f"up to {end.reported_offset(now_ns)},{end.sent} or more"
            yield _broken(summary, field="haSlave", expected=expected, found=found)


@dataclass(slots=True, eq=False)
class SlaveEnd(StreamEnd):
    """The slave's end: receives frames and sends reports."""

    reported: int = _NOT_YET
    first_report: int = _NOT_YET
    received_end: int = _NOT_YET
    """Log offset after the last received byte; -1 before the first frame."""
    _head: bytearray = field(default_factory=bytearray)
    _left_bytes: int = 0

    @property
    def must_send(self) -> bool:
        return self.reported != _NOT_YET

    def note_frames(self, data: bytes, now_ns: int) -> None:
        self.note_received(data, now_ns)
        at = 0
        while at < len(data):
            if self._left_bytes:
                taken = min(self._left_bytes, len(data) - at)
                self._left_bytes -= taken
                self.received_end += taken
            else:
                taken = min(_FRAME_HEAD.size - len(self._head), len(data) - at)
                self._head += data[at : at + taken]
                if len(self._head) == _FRAME_HEAD.size:
                    self.received_end, self._left_bytes = _FRAME_HEAD.unpack(self._head)
                    self._head.clear()
            at += taken

    def send(self, offset: int, now_ns: int) -> Iterator[Violation]:
        yield from self.begin_send(now_ns, repeats=offset == self.reported)
        if self.reported == _NOT_YET:
            self.first_report = offset
        elif offset < self.reported or (offset > self.first_report and offset > self.received_end):
            summary, wanted = f"{self.label} reports data not received", f"{self.reported} to {self.received_end}"
            yield _broken(summary, field="report", expected=wanted, found=str(offset))
        self.reported = offset

    def check_progress(self, log_end: int) -> Iterator[Violation]:
        """Yield data that the slave has not reported before it waits for more. log_end: the end to report.

        The slave first compares its log with its master's.
        """
        if self.received_end >= log_end > self.reported > _NOT_YET and not self.may_close:
            record_tried("REP")
            summary = f"{self.label} waits with data that it has not reported"
            yield _broken(summary, field="report", expected=str(log_end), found=str(self.reported))


def _ms(ns: int) -> str:
    return f"{ns / _MS:g} ms"


def _at_most(ns: int) -> str:
    return f"<= {_ms(ns)}"
