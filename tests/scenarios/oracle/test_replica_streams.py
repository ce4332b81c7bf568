"""Replication streams, end by end: a correct stream passes, and each wrong send, silence or close is a violation."""

from collections.abc import Callable, Iterable

import pytest

from tornlog.scenarios.oracle.evidence import Violation
from tornlog.scenarios.oracle.invariants import rep
from tornlog.scenarios.oracle.put_entry import PutEntry
from tornlog.scenarios.oracle.replica_streams import MasterEnd, SlaveEnd, StreamRules, check_figures
from tornlog.store.formats.messages import AppendMessageResult, PutMessageResult, PutMessageStatus
from tornlog.store.formats.replication import FrameHeader, encode_frame_header, encode_report

MS = 1_000_000
RULES = StreamRules(heartbeat_ms=100, silence_ms=1_000, batch_bytes=50, slack_ns=lambda _: 10 * MS)
OK, TIMEOUT, NONE = (
    PutMessageStatus.PUT_OK,
    PutMessageStatus.FLUSH_SLAVE_TIMEOUT,
    PutMessageStatus.SLAVE_NOT_AVAILABLE,
)


def fields(violations: Iterable[Violation]) -> list[str]:
    return [violation.field for violation in violations]


def send(
    end: MasterEnd, offset: int, size: int, at_ms: int, *, log: bytes | None = None, waiting_ms: int | None = None
) -> list[str]:
    data = b"x" * size
    since_ns = None if waiting_ms is None else waiting_ms * MS
    found = end.send(FrameHeader(offset, size), data, at_ms * MS, data if log is None else log, 0, since_ns)
    fields_found = fields(found)
    end.note_sent(at_ms * MS, 0)
    return fields_found


def master_end(request: int = 200) -> MasterEnd:
    """Return an end that has received a slave's request at 1 ms."""
    end = MasterEnd("the master", RULES, 0)
    end.note_reports(encode_report(request), 1 * MS, 0, 1_000, 0)
    return end


def test_a_correct_stream_of_frames_heartbeats_and_reports_passes() -> None:
    end = master_end()
    assert send(end, 200, 50, 1, waiting_ms=0) == []
    assert send(end, 250, 0, 101) == []
    end.note_reports(encode_report(250)[:3], 110 * MS, 0, 1_000, 0)
    end.note_reports(encode_report(250)[3:], 111 * MS, 0, 1_000, 0)
    assert fields(end.check_times(200 * MS)) == []
    assert end.confirmed_ns(200, 250) == 111 * MS
    end.note_received(b"", 220 * MS)
    assert fields(end.close(220 * MS, has_reason=False)) == []


@pytest.mark.parametrize(
    ("expected", "act"),
    [
        ("log_offset", lambda end: send(end, 201, 10, 2)),
        ("frame", lambda end: send(end, 200, 51, 2)),
        ("frame", lambda end: send(end, 200, 10, 2, log=b"y" * 10)),
        ("frame", lambda end: send(end, 200, 10, 90, waiting_ms=2)),
        ("interval", lambda end: send(end, 200, 0, 2)),
        ("interval", lambda end: fields(end.check_times(112 * MS))),
        ("silence", lambda end: fields(end.check_times(1_012 * MS))),
        ("close", lambda end: fields(end.close(1_000 * MS, has_reason=False))),
    ],
)
def test_each_wrong_act_of_a_master_is_a_violation(expected: str, act: Callable[[MasterEnd], list[str]]) -> None:
    assert act(master_end())[0] == expected


def test_a_master_may_close_a_connection_after_an_impossible_report_or_request() -> None:
    end = master_end()
    end.note_reports(encode_report(300), 2 * MS, 0, 1_000, 0)
    assert fields(end.close(2 * MS, has_reason=False)) == []
    rejected = master_end(request=1_001)
    assert rejected.is_rejected
    assert fields(rejected.close(2 * MS, has_reason=False)) == []


@pytest.mark.parametrize(("log_end", "now_ms", "count"), [(200, 1_000, 0), (300, 1_000, 1), (300, 6_000, 0)])
def test_a_master_that_stops_waits_for_reports_of_its_whole_log(log_end: int, now_ms: int, count: int) -> None:
    end = master_end(200)
    end.last_receive_ns = now_ms * MS
    assert len(list(end.check_awaited(now_ms * MS, 2 * MS, log_end, 5_000))) == count
    assert not list(end.check_awaited(now_ms * MS, 1 * MS, log_end, 5_000)), "it may have connected too late"


def test_a_slave_reports_only_received_bytes_at_once_and_in_each_interval() -> None:
    def slave_end() -> SlaveEnd:
        end = SlaveEnd("s", RULES, 0)
        assert fields(end.send(100, 0)) == []
        end.note_sent(0, 0)
        stream = encode_frame_header(100, 20) + bytes(20)
        end.note_frames(stream[:7], 1 * MS)
        end.note_frames(stream[7:], 2 * MS)
        return end

    assert fields(slave_end().check_progress(120)) == ["report"]
    assert fields(slave_end().check_progress(130)) == [], "the slave still compares its log"
    assert fields(slave_end().send(120, 2 * MS)) == []
    assert fields(slave_end().send(121, 2 * MS)) == ["report"]
    assert fields(slave_end().send(99, 2 * MS)) == ["report"]
    assert fields(slave_end().send(100, 2 * MS)) == ["interval"]
    assert fields(slave_end().check_times(111 * MS)) == ["interval"]


@pytest.mark.parametrize(
    ("status", "reported", "closed_ms", "answered_ms", "limit", "waits_ms", "is_right"),
    [
        (OK, 250, None, 5, 1_000, 3, True),
        (OK, 249, None, 5, 1_000, 3, False),
        (OK, 250, None, 8, 1_000, 3, False),
        (TIMEOUT, 249, None, 5, 1_000, 3, True),
        (TIMEOUT, 250, None, 5, 1_000, 3, False),
        (TIMEOUT, 200, 4, 5, 1_000, 3, True),
        (TIMEOUT, 250, 4, 5, 1_000, 3, False),
        (TIMEOUT, 250, 4, 5, 1_000, 4, True),
        (NONE, 200, None, 5, 1_000, 3, False),
        (NONE, 200, None, 5, 50, 3, True),
        (NONE, 200, 2, 5, 1_000, 3, True),
    ],
)
def test_an_answer_must_agree_with_the_connections_of_the_master(
    status: PutMessageStatus,
    reported: int,
    closed_ms: int | None,
    answered_ms: int,
    limit: int,
    waits_ms: int,
    *,
    is_right: bool,
) -> None:
    end = master_end()
    send(end, 200, 50, 1)
    end.note_reports(encode_report(reported), 4 * MS, 0, 1_000, 0)
    if closed_ms is not None:
        assert list(end.close(closed_ms * MS, has_reason=True)) == []
    put = PutEntry("m", "T", 0, "", b"", b"", True, 3 * MS, 1, status)
    put.asked_ns, put.answered_ns = 3 * MS, answered_ms * MS
    result = PutMessageResult(status, AppendMessageResult(200, 50, 0, 0, ("", 0)))
    assert (not list(rep.check_slave_wait(put, result, [end], limit, 0, 1 * MS, waits_ms * MS))) == is_right


@pytest.mark.parametrize(
    ("limit", "closed_ms", "is_right"), [(51, None, True), (50, None, False), (51, 2, False), (51, 4, True)]
)
def test_a_put_waits_only_for_a_slave_that_lags_less_than_the_limit(
    limit: int, closed_ms: int | None, *, is_right: bool
) -> None:
    end = master_end()
    if closed_ms is not None:
        assert list(end.close(closed_ms * MS, has_reason=True)) == []
    assert fields(rep.check_near_slave(250, [end], limit, 3 * MS, 4 * MS)) == ([] if is_right else ["lag"])


@pytest.mark.parametrize(
    ("is_counted", "silent_ms", "is_closed", "at_ms", "expected"),
    [
        (True, 0, False, 500, []),
        (False, 0, False, 500, ["slaves"]),
        (False, 0, False, 5, []),  # the master may not have handled the request
        (False, 900, False, 1_000, []),  # the master may be about to close the silent connection
        (True, 0, True, 500, ["slaves"]),
        (False, 0, True, 500, []),
    ],
)
def test_puts_wait_for_exactly_the_connected_slaves(
    is_counted: bool, silent_ms: int, is_closed: bool, at_ms: int, expected: list[str]
) -> None:
    end = master_end()
    end.peer, end.closed_ns = "10.0.0.2:40000", 400 * MS if is_closed else None
    end.last_receive_ns -= silent_ms * MS
    counted = [end.peer] if is_counted else []
    assert fields(rep.check_counted_slaves(counted, [end], at_ms * MS, lambda _: 10 * MS)) == expected


@pytest.mark.parametrize(
    ("figures", "count"),
    [("200,250", 0), ("-1,250", 0), ("200,300", 0), ("250,200", 1), ("201,250", 1), ("200,249", 1)],
)
def test_the_figures_of_a_master_name_the_last_report_and_frame_of_a_slave(figures: str, count: int) -> None:
    end = master_end()
    end.peer = "10.0.0.2:40000"
    assert send(end, 200, 50, 1) == []
    info = {"haSlave_10.0.0.2:40000": figures, "haLastClosed": ""}
    assert fields(check_figures(info, [end], 2 * MS)) == ["haSlave"] * count
