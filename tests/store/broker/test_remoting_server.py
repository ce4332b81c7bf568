"""Requests and answers of well-behaved clients."""

import threading
from collections.abc import Callable
from errno import ENOSPC
from time import monotonic_ns
from typing import Any

import pytest

from tornlog.store.broker.limits import PoolLimits
from tornlog.store.broker.router import Channel
from tornlog.store.broker.server_counts import ConnectionEnding, RequestRefusal
from tornlog.store.errors import AccessDeniedError
from tornlog.store.formats.remoting.command import ONE_WAY_FLAG, RESPONSE_FLAG, HeaderForm, RemotingCommand

Serve = Callable[..., Any]


@pytest.mark.parametrize("form", HeaderForm)
def test_a_request_is_answered_with_its_opaque_and_header_form(served: Any, form: HeaderForm) -> None:
    request = RemotingCommand(served.ECHO, 77, ext_fields={"topic": "Örtchen"}, body=b"\0body", form=form)

    response = served.connect().ask(request)

    assert (response.code, response.opaque, response.form) == (0, 77, form)
    assert response.is_response
    assert response.ext_fields == {"topic": "Örtchen"}
    assert response.body == b"\0body"


def test_many_frames_in_one_piece_are_each_answered_once(served: Any, peer: Any) -> None:
    peer.send(*(RemotingCommand(served.ECHO, n, body=b"%d" % n) for n in range(100)))

    answers = [peer.receive() for _ in range(100)]
    assert sorted(answer.opaque for answer in answers) == list(range(100))
    assert all(answer.body == b"%d" % answer.opaque for answer in answers)


def test_large_frames_work_in_both_directions(served: Any) -> None:
    body = bytes(range(256)) * 40_000

    assert served.connect().ask(RemotingCommand(served.ECHO, 1, body=body)).body == body


def test_an_unknown_request_code_is_answered_as_not_supported(serve: Serve) -> None:
    response = serve().connect().ask(RemotingCommand(31999, 5))

    assert (response.code, response.opaque) == (3, 5)
    assert "31999" in response.remark


def test_an_exception_of_a_processor_is_answered_as_a_system_error(served: Any, peer: Any) -> None:
    for _ in range(10):  # more requests than tasks
        response = peer.ask(RemotingCommand(served.FAIL, 5))
        assert (response.code, response.remark) == (1, "LookupError: no such thing")

    assert peer.ask(RemotingCommand(served.ECHO, 6)).code == 0
    assert served.server.counts.refusals[RequestRefusal.FAILED] == 10
    assert "no such thing" in served.told[0]


def test_a_response_larger_than_a_frame_becomes_an_error(serve: Serve) -> None:
    response = serve().connect().ask(RemotingCommand(1003, 5, ext_fields={"bytes": str(1 << 24)}))

    assert response.code == 1
    assert "16777216" in response.remark


def test_a_one_way_request_is_processed_and_not_answered(served: Any, peer: Any) -> None:
    peer.send(RemotingCommand(served.FAIL, 1, ONE_WAY_FLAG), RemotingCommand(31999, 2, ONE_WAY_FLAG))
    peer.send(RemotingCommand(served.ECHO, 3))

    assert peer.receive().opaque == 3
    served.until_refused(RequestRefusal.FAILED)


def test_a_response_without_a_request_is_ignored(served: Any, peer: Any) -> None:
    peer.send(RemotingCommand(served.ECHO, 1, RESPONSE_FLAG))

    assert peer.ask(RemotingCommand(served.ECHO, 2)).opaque == 2
    assert served.server.counts.refusals[RequestRefusal.STRAY_RESPONSE] == 1


def occupy_only_task(served: Any, peer: Any) -> None:
    """Send request 0, and wait until it occupies the only task."""
    peer.send(RemotingCommand(served.WAIT, 0))
    served.until(lambda: served.begun == [0])


def held(served: Any) -> tuple[Any, Channel]:
    """Return a peer whose request is held, and its channel."""
    peer = served.connect()
    peer.send(RemotingCommand(served.LATER, 9))
    served.until(lambda: bool(served.held))
    return peer, served.held[0][1]


def test_a_held_request_is_answered_later_from_any_task(served: Any) -> None:
    peer, channel = held(served)

    assert channel.send(RemotingCommand(0, 9, RESPONSE_FLAG, body=b"at last"))

    assert peer.receive().body == b"at last"
    assert channel.remote_address == "{}:{}".format(*peer.socket.getsockname())
    assert channel.local_address == "{}:{}".format(*served.address)


def test_a_closed_channel_refuses_commands_and_is_reported_once(served: Any) -> None:
    peer, channel = held(served)

    peer.socket.close()
    served.until(lambda: bool(served.closed))

    assert served.closed == [channel]
    assert not channel.is_open
    assert not channel.send(RemotingCommand(0, 9, RESPONSE_FLAG))


def test_a_processor_may_close_a_channel(served: Any) -> None:
    peer, channel = held(served)

    channel.close()

    assert peer.is_ended()
    served.until_ended(ConnectionEnding.BY_PROCESSOR)


def test_a_full_request_queue_answers_busy_at_once_and_other_pools_continue(serve: Serve) -> None:
    served = serve(pools=PoolLimits(1, 3))
    peer = served.connect()

    occupy_only_task(served, peer)
    peer.send(*(RemotingCommand(served.WAIT, n) for n in range(1, 8)))
    refused = [peer.receive() for _ in range(4)]

    assert {(one.code, one.remark.partition("]")[0]) for one in refused} == {(2, "[OVERLOAD")}
    assert served.connect().ask(RemotingCommand(served.ECHO, 1)).code == 0
    served.gate.set()
    assert {peer.receive().code for _ in range(4)} == {0}


def test_a_request_that_waits_too_long_is_refused_although_no_task_is_free(serve: Serve) -> None:
    served = serve(pools=PoolLimits(1, 100, wait_ms_max=50))
    peer = served.connect()

    occupy_only_task(served, peer)
    peer.send(*(RemotingCommand(served.WAIT, n) for n in range(1, 3)))
    refused = [peer.receive() for _ in range(2)]

    assert [one.code for one in refused] == [2, 2]
    assert [one.opaque for one in refused] == [1, 2]
    assert refused[0].remark.startswith("[TIMEOUT_CLEAN_QUEUE]broker busy")
    served.gate.set()
    assert peer.receive().opaque == 0


def test_expired_requests_are_refused_before_their_turn(serve: Serve) -> None:
    served = serve(pools=PoolLimits(1, 100, wait_ms_max=50))
    first, second = served.connect(), served.connect()

    occupy_only_task(served, first)
    first.send(*(RemotingCommand(served.WAIT, n) for n in range(1, 3)))
    second.send(*(RemotingCommand(served.WAIT, n) for n in range(10, 13)))

    assert [(one.opaque, one.code) for one in (first.receive(), first.receive())] == [(1, 2), (2, 2)]
    assert [second.receive().opaque for _ in range(3)] == [10, 11, 12]
    served.gate.set()
    assert first.receive().opaque == 0
    assert second.ask(RemotingCommand(served.WAIT, 13)).code == 0


def test_a_burst_uses_every_task_of_its_pool(serve: Serve) -> None:
    served = serve(pools=PoolLimits(4, 100))
    peers = [served.connect() for _ in range(4)]

    for number, peer in enumerate(peers):
        peer.send(RemotingCommand(served.WAIT, number))
    served.until(lambda: len(served.begun) == 4)

    served.gate.set()
    assert {peer.receive().code for peer in peers} == {0}


def test_pipelined_requests_of_one_client_use_half_of_the_tasks(serve: Serve) -> None:
    served = serve(pools=PoolLimits(4, 100))
    greedy, modest = served.connect(), served.connect()

    greedy.send(*(RemotingCommand(served.WAIT, n) for n in range(8)))
    served.until(lambda: served.server.counts.requests == 8)
    served.until(lambda: len(served.begun) >= 2)
    modest.send(RemotingCommand(served.WAIT, 100))
    served.until(lambda: 100 in served.begun)
    assert len(served.begun) == 3

    served.gate.set()
    assert {greedy.receive().code for _ in range(8)} == {0}


def test_pipelined_requests_do_not_starve(serve: Serve) -> None:
    served = serve(pools=PoolLimits(1, 100))
    holder, greedy, many = served.connect(), served.connect(), [served.connect() for _ in range(8)]
    occupy_only_task(served, holder)
    greedy.send(*(RemotingCommand(served.WAIT, n) for n in (1, 2)))
    served.until(lambda: served.server.counts.requests == 3)
    for number, peer in enumerate(many):
        peer.send(RemotingCommand(served.WAIT, 100 + number))
    served.until(lambda: served.server.counts.requests == 11)

    served.gate.set()
    assert {greedy.receive().code, greedy.receive().code, *(peer.receive().code for peer in many)} == {0}
    assert served.begun.index(1) <= 6
    assert served.begun.index(2) <= 10


def test_queue_metrics_have_the_names_that_rocketmq_tools_read(serve: Serve) -> None:
    def told(name: str) -> int:
        now_ns = monotonic_ns()
        fields = {key: value for pool in served.server.pools for key, value in pool.runtime_info_fields(now_ns).items()}
        return int(fields[name])

    served = serve(pools=PoolLimits(1, 100))
    greedy, modest = served.connect(), served.connect()
    assert told("sendThreadPoolQueueSize") == told("sendThreadPoolQueueHeadWaitTimeMills") == 0
    greedy.send(*(RemotingCommand(served.WAIT, n) for n in range(3)))
    served.until(lambda: len(served.begun) == 1)
    modest.send(RemotingCommand(served.WAIT, 100))

    served.until(lambda: told("sendThreadPoolQueueSize") == 3)
    served.until(lambda: told("sendThreadPoolQueueHeadWaitTimeMills") >= 50)
    assert told("sendThreadPoolQueueCapacity") == 100
    assert told("pullThreadPoolQueueSize") == told("pullThreadPoolQueueHeadWaitTimeMills") == 0
    assert told("queryThreadPoolQueueSize") == told("EndTransactionQueueSize") == 0
    assert told("EndTransactionThreadPoolQueueCapacity") == 100

    served.gate.set()
    assert modest.receive().code == 0


def test_a_denied_request_is_answered_and_not_processed(serve: Serve) -> None:
    def check(command: RemotingCommand, channel: Channel) -> None:
        if command.ext_fields.get("secret") != "yes":
            raise AccessDeniedError(16, "not you")

    served = serve(check=check)
    peer = served.connect()

    denied = peer.ask(RemotingCommand(served.LATER, 1))
    allowed = peer.ask(RemotingCommand(served.ECHO, 2, ext_fields={"secret": "yes"}))

    assert (denied.code, denied.remark, allowed.code) == (16, "not you", 0)
    assert served.held == []
    assert served.server.counts.refusals[RequestRefusal.ACCESS] == 1


def test_a_stop_answers_pending_requests_and_closes_connections(served: Any) -> None:
    peer, idle = served.connect(), served.connect()
    peer.send(RemotingCommand(served.WAIT, 1))
    served.until(lambda: served.server.counts.requests == 1)
    stopping = threading.Thread(target=served.server.shutdown)
    stopping.start()

    served.gate.set()

    assert peer.receive().opaque == 1
    assert peer.is_ended()
    assert idle.is_ended()
    stopping.join(60)
    assert not stopping.is_alive()
    assert served.server.counts.endings[ConnectionEnding.SHUTDOWN] == 2


def test_a_server_listens_at_all_of_its_addresses_or_at_none(serve: Serve) -> None:
    served = serve()
    taken = "{}:{}".format(*served.address)
    other = serve()

    with pytest.raises(OSError, match="in use"):
        other.server.listen(["127.0.0.1:0", taken])
    first, second = other.server.listen(["127.0.0.1:0", "127.0.0.1:0"])

    assert first != second


def test_a_connection_that_cannot_be_watched_is_closed_without_affecting_others(served: Any) -> None:
    first = served.connect()
    assert first.ask(RemotingCommand(served.ECHO, 1, body=b"before")).body == b"before"
    poller = served.server.connections._poller
    watch = poller.watch

    def full(what: object, *, receives: bool, sends: bool) -> None:
        raise OSError(ENOSPC, "No space left on device")

    poller.watch = full
    refused = served.connect()
    assert refused.socket.recv(1) == b""
    poller.watch = watch

    assert first.ask(RemotingCommand(served.ECHO, 2, body=b"after")).body == b"after"
    assert served.connect().ask(RemotingCommand(served.ECHO, 3, body=b"again")).body == b"again"
    assert served.server.failure is None
