"""Misbehaving clients are closed or paused, and other clients are not affected."""

import random
import time
from collections.abc import Callable
from typing import Any

import pytest

from tornlog.store.broker.limits import ServerLimits
from tornlog.store.broker.router import BODY_BYTES_MAX
from tornlog.store.broker.server_counts import ConnectionEnding, RequestRefusal
from tornlog.store.formats.remoting.command import ONE_WAY_FLAG, HeaderForm, RemotingCommand
from tornlog.store.formats.remoting.frame import CommandReader, encode_frame

Serve = Callable[..., Any]


def still_answers(served: Any) -> bool:
    response: RemotingCommand = served.connect().ask(RemotingCommand(served.ECHO, 1, body=b"honest"))
    return response.body == b"honest"


@pytest.mark.parametrize(
    ("head", "hint"),
    [
        (b"\x01\0\0\x01", "length"),
        (b"\x7f\xff\xff\xff", "length: expected 4 to 16777212, found 2147483647; connection closed"),
        (b"\xff\xff\xff\xff", "length"),
        (b"\0\0\0\0", "length"),
        (b"GET / HTTP/1.1\r\n\r\n", "uses HTTP)"),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "gRPC clients of 5.x"),
    ],
)
def test_an_impossible_frame_length_closes_the_connection_before_data_is_kept(
    served: Any, peer: Any, head: bytes, hint: str
) -> None:
    peer.socket.sendall(head)

    assert peer.is_ended()
    served.until_ended(ConnectionEnding.BAD_LENGTH)
    served.until(lambda: served.server.connections.held_bytes == 0)
    assert hint in served.told[0]
    assert still_answers(served)


def test_a_large_body_is_refused_without_closing_the_connection(served: Any, peer: Any) -> None:
    refused = peer.ask(RemotingCommand(served.SIZED, 1, ext_fields={"bytes": "7"}, body=bytes(BODY_BYTES_MAX + 1)))

    assert refused.remark == "body: expected 262144 bytes or fewer, found 262145"
    assert served.server.counts.refusals[RequestRefusal.TOO_LARGE] == 1
    assert peer.ask(RemotingCommand(served.SIZED, 2, ext_fields={"bytes": "7"}, body=bytes(BODY_BYTES_MAX))).code == 0


@pytest.mark.parametrize(
    "frame",
    [
        b"\0\0\0\x04\x07\0\0\0",  # no such header form
        b"\0\0\0\x04\0\xff\xff\xff",  # a header longer than its frame
        b"\0\0\0\x06\0\0\0\x02{}",  # no code
        b"\0\0\0\x06\0\0\0\x02[]",
        b"\0\0\0\x05\0\0\0\x01\xff",
        b"\0\0\0\x05\x01\0\0\x01\0",  # a binary header that is cut short
    ],
)
def test_a_malformed_frame_closes_the_connection(served: Any, peer: Any, frame: bytes) -> None:
    peer.socket.sendall(frame)

    assert peer.is_ended()
    served.until_ended(ConnectionEnding.BAD_FRAME)
    assert still_answers(served)


def test_garbage_after_a_paused_request_closes_the_connection_later(serve: Serve) -> None:
    served = serve(ServerLimits(requests_bytes_max=3, request_bytes_least=1))
    peer = served.connect()

    peer.send(RemotingCommand(served.WAIT, 1))
    served.until(lambda: served.begun == [1])
    peer.socket.sendall(encode_frame(RemotingCommand(served.LATER, 2)) + b"\xff" * 100)
    still_answers(served)
    assert served.held == []  # paused
    served.gate.set()

    served.until_ended(ConnectionEnding.BAD_LENGTH)
    assert len(served.held) == 1
    assert peer.is_ended()


def test_an_internal_error_closes_only_its_connection(served: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    other = served.connect()
    assert other.ask(RemotingCommand(served.ECHO, 1)).code == 0

    with monkeypatch.context() as patch:
        patch.setattr(CommandReader, "take", lambda _: 1 // 0)
        peer = served.connect()
        peer.send(RemotingCommand(served.ECHO, 1))
        served.until_ended(ConnectionEnding.FAILED)

    assert "ZeroDivisionError" in served.told[0]
    assert other.ask(RemotingCommand(served.ECHO, 1)).code == 0


def test_random_bytes_never_hang_or_kill_the_server(serve: Serve) -> None:
    served = serve(ServerLimits(frame_ms_max=50))
    draw = random.Random(7)
    good = encode_frame(RemotingCommand(served.ECHO, 1, ext_fields={"a": "b"}, form=HeaderForm.ROCKETMQ))

    for _ in range(300):
        bad = bytearray(good)
        for _ in range(draw.randint(1, 4)):
            bad[draw.randrange(len(bad))] = draw.randrange(256)
        peer = served.connect()
        peer.socket.sendall(bytes(bad))
        peer.socket.close()

    served.until(lambda: sum(served.server.counts.endings.values()) == 300)
    assert still_answers(served)


def test_a_connection_with_an_unfinished_frame_is_closed_at_the_timeout(serve: Serve) -> None:
    served = serve(ServerLimits(frame_ms_max=150))
    slow = served.connect()
    frame = encode_frame(RemotingCommand(served.ECHO, 1, body=bytes(1000)))

    sent, end = 0, time.monotonic() + 60
    while time.monotonic() < end and not served.server.counts.endings[ConnectionEnding.HALF_FRAME]:
        try:
            slow.socket.sendall(frame[sent : sent + 1])
        except ConnectionError:
            break
        sent += 1
        time.sleep(0.01)

    assert slow.is_ended()
    assert sent < 100
    served.until_ended(ConnectionEnding.HALF_FRAME)
    assert served.server.connections.held_bytes == 0


@pytest.mark.ci
def test_a_complete_frame_restarts_the_frame_timeout(serve: Serve) -> None:
    served = serve(ServerLimits(frame_ms_max=3_000))
    peer = served.connect()
    frame = encode_frame(RemotingCommand(served.ECHO, 1))

    for _ in range(8):  # each chunk ends one frame and begins the next; all together take longer than the timeout
        peer.socket.sendall(frame[:10])
        time.sleep(0.5)
        peer.socket.sendall(frame[10:])

    assert [peer.receive().code for _ in range(8)] == [0] * 8
    assert served.server.counts.endings[ConnectionEnding.HALF_FRAME] == 0


@pytest.mark.ci
def test_an_idle_connection_is_closed_and_a_busy_one_is_not(serve: Serve) -> None:
    served = serve(ServerLimits(idle_ms_max=2_000))
    idle, busy = served.connect(), served.connect()

    while not served.server.counts.endings[ConnectionEnding.IDLE]:
        assert busy.ask(RemotingCommand(served.ECHO, 1)).code == 0
        time.sleep(0.05)

    assert idle.is_ended()
    assert served.server.counts.endings[ConnectionEnding.IDLE] == 1
    assert busy.ask(RemotingCommand(served.ECHO, 1)).code == 0


def test_a_client_that_never_reads_is_paused_and_then_closed(serve: Serve) -> None:
    limits = ServerLimits(output_ms_max=400, output_pause_bytes=64 << 10)
    served = serve(limits)
    deaf = served.connect()
    deaf.socket.settimeout(0.2)
    request = encode_frame(RemotingCommand(served.SIZED, 1, ext_fields={"bytes": str(1 << 20)}))

    with pytest.raises((TimeoutError, ConnectionError)):
        deaf.socket.sendall(request * 100_000)  # more than the server reads before it pauses the client

    assert still_answers(served)
    served.until_ended(ConnectionEnding.NOT_READING)
    served.until(lambda: served.server.connections.held_bytes == 0)


def test_a_client_that_never_reads_its_pushes_is_closed_at_the_buffer_limit(serve: Serve) -> None:
    served = serve(ServerLimits(output_bytes_max=1 << 20))
    deaf = served.connect()
    deaf.send(RemotingCommand(served.LATER, 1))
    served.until(lambda: bool(served.held))
    _, channel = served.held[0]
    push = RemotingCommand(40, 1, ONE_WAY_FLAG, body=bytes(100_000))

    began = time.monotonic()
    pushes = 0
    while channel.send(push):
        pushes += 1

    assert pushes > 10
    assert time.monotonic() - began < 60
    assert not channel.is_open
    served.until_ended(ConnectionEnding.NOT_READING)
    served.until(lambda: served.server.connections.held_bytes == 0)


def test_a_slow_reader_receives_all_answers(serve: Serve) -> None:
    served = serve(ServerLimits(output_pause_bytes=1 << 16))
    slow = served.connect()
    slow.send(*(RemotingCommand(served.SIZED, n, ext_fields={"bytes": "400000"}) for n in range(20)))
    time.sleep(0.2)

    answers = [slow.receive() for _ in range(20)]

    assert {len(answer.body) for answer in answers} == {400_000}
    assert sorted(answer.opaque for answer in answers) == list(range(20))


@pytest.mark.parametrize(
    ("limits", "ending"),
    [
        (ServerLimits(connections_max=3), ConnectionEnding.TOO_MANY),
        (ServerLimits(connections_per_host_max=3), ConnectionEnding.TOO_MANY_OF_HOST),
    ],
)
def test_connections_beyond_the_limit_are_closed(serve: Serve, limits: ServerLimits, ending: ConnectionEnding) -> None:
    served = serve(limits)
    inside = [served.connect() for _ in range(3)]
    assert [peer.ask(RemotingCommand(served.ECHO, 1)).code for peer in inside] == [0, 0, 0]

    assert served.connect().is_ended()
    served.until_ended(ending)
    inside[0].socket.close()
    served.until_ended(ConnectionEnding.BY_CLIENT)

    assert still_answers(served)


def test_when_memory_runs_out_the_slowest_client_is_closed(serve: Serve) -> None:
    served = serve(ServerLimits(held_bytes_max=1 << 20))
    hoarders = [served.connect() for _ in range(8)]
    half = encode_frame(RemotingCommand(served.ECHO, 1, body=bytes(1 << 20)))[: 300 << 10]

    for hoarder in hoarders:
        hoarder.socket.sendall(half)
        held = served.server.connections.held_bytes
        assert held <= (1 << 20) + 2 * (1 << 16)  # in one turn the server reads 64 KiB from each of two clients
        assert still_answers(served)

    served.until_ended(ConnectionEnding.TOO_MUCH_HELD, 4)
    assert hoarders[0].is_ended()


def test_requests_are_refused_while_too_many_bytes_are_held(serve: Serve) -> None:
    served = serve(ServerLimits(held_bytes_max=100_000))
    peer = served.connect()

    peer.send(*(RemotingCommand(served.WAIT, n, body=bytes(40_000)) for n in range(4)))
    refused = [peer.receive(), peer.receive()]

    assert {(one.code, one.remark.partition("]")[0]) for one in refused} == {(2, "[OVERLOAD")}
    assert served.server.counts.refusals[RequestRefusal.TOO_MUCH_HELD] == 2
    served.gate.set()
    assert [peer.receive().code, peer.receive().code] == [0, 0]


def test_a_client_with_many_pending_requests_is_paused(serve: Serve) -> None:
    served = serve(ServerLimits(requests_bytes_max=100_000, request_bytes_least=0))
    peer = served.connect()
    peer.socket.settimeout(0.3)
    frame = encode_frame(RemotingCommand(served.WAIT, 1, body=bytes(10_000)))

    with pytest.raises(TimeoutError):
        peer.socket.sendall(frame * 3_000)  # more than the system's buffers hold

    assert served.server.connections.held_bytes < 300_000
    assert still_answers(served)
    served.gate.set()
    peer.socket.settimeout(60)
    assert [peer.receive().code for _ in range(50)] == [0] * 50


def test_short_connections_leave_no_state_behind(served: Any) -> None:
    for _ in range(300):
        served.connect().socket.close()
        served.peers.pop()

    served.until_ended(ConnectionEnding.BY_CLIENT, 300)
    served.until(lambda: served.server.connections.count == 0)
    served.until(lambda: len(served.closed) == 300)


def client_with_unread_output(served: Any, size_bytes: int) -> Any:
    """Return a client with at least this much unread output."""
    peer = served.connect(receive_bytes=4096)
    for number in range(100):
        if served.server.connections.held_bytes >= size_bytes:
            return peer
        peer.send(RemotingCommand(served.SIZED, number, ext_fields={"bytes": "60000"}))
        time.sleep(0.02)
    raise AssertionError("the system takes it all")


def test_a_client_closed_for_memory_while_it_sends_is_not_read_again(serve: Serve) -> None:
    served = serve(ServerLimits(held_bytes_max=600_000))
    lazy, other = client_with_unread_output(served, 150_000), served.connect()
    held = served.server.connections.held_bytes
    other.send(RemotingCommand(served.WAIT, 1, body=bytes(590_000 - held)))
    served.until(lambda: served.server.connections.held_bytes > 580_000)
    frames = [encode_frame(RemotingCommand(served.ECHO, n, body=bytes(20_000))) for n in range(3)]

    lazy.socket.sendall(b"".join(frames)[:-10_000])
    served.until_ended(ConnectionEnding.TOO_MUCH_HELD)
    served.connect().send(RemotingCommand(served.WAIT, 2, body=bytes(300_000)))
    time.sleep(0.1)

    assert still_answers(served), "the task of the connections goes on"


def test_a_client_with_a_new_frame_is_not_the_slowest_when_memory_runs_out(serve: Serve) -> None:
    served = serve(ServerLimits(held_bytes_max=600_000))
    lazy, quick, other = client_with_unread_output(served, 150_000), served.connect(), served.connect()
    time.sleep(0.2)
    frame = encode_frame(RemotingCommand(served.ECHO, 1, body=bytes(50_000)))
    quick.socket.sendall(frame[:30_000])
    served.until(lambda: served.server.connections.held_bytes > 180_000)
    held = served.server.connections.held_bytes
    other.send(RemotingCommand(served.WAIT, 1, body=bytes(605_000 - held)))

    served.until_ended(ConnectionEnding.TOO_MUCH_HELD)
    assert lazy.is_ended()
    quick.socket.sendall(frame[30_000:])
    assert quick.receive().code == 0
