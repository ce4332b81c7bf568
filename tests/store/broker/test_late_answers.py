"""Sends that wait for a put occupy no task and are answered when the put completes, in virtual time."""

from collections.abc import Iterable

import pytest

from tornlog.store.broker import late_answers
from tornlog.store.broker.limits import PoolLimits, ServerLimits
from tornlog.store.broker.remoting_client import RemotingClient
from tornlog.store.broker.requests import ResponseCode, response_to
from tornlog.store.broker.router import Channel, LateResponse, Pool, RequestRoute, Response
from tornlog.store.broker.sending import PUT_CODES
from tornlog.store.broker.server import DRAIN_MS, RemotingServer
from tornlog.store.formats.messages import LOOPBACK_BROKER, AppendMessageResult, PutMessageResult
from tornlog.store.formats.remoting.command import ONE_WAY_FLAG, RemotingCommand
from tornlog.store.log.flush import GroupCommitRequest
from tornlog.store.log.put_wait import PutWait
from tornlog.store.world import World

SEND = 310
ADDRESS = "10.0.0.1:10911"
TIMEOUT_MS = 5_000


class Broker:
    """A server with one task for sends. The test completes the puts."""

    def __init__(self, here: World, there: World, *, timeout_ms: int = TIMEOUT_MS) -> None:
        self.here = here
        self.there = there
        self.printed: list[str] = []
        self.syncs: list[GroupCommitRequest] = []
        """The wait of each send."""
        self.known_before: bool | None = None
        """If set, a put completes at once with this result."""
        self.breaks = False
        """Whether building a response raises an exception."""
        self._timeout_ms = timeout_ms
        limits = ServerLimits(pools={pool: PoolLimits(1, 100) for pool in Pool})
        self.server = RemotingServer(here, limits, self.printed.append)
        self.server.listen([ADDRESS])
        self.server.start({SEND: RequestRoute(Pool.SEND_MESSAGE, self._send)})
        self.client = RemotingClient(there, ADDRESS)

    def _send(self, command: RemotingCommand, _: Channel) -> Response:
        def respond(put: PutMessageResult) -> RemotingCommand:
            if self.breaks:
                raise LookupError("no such thing")
            return response_to(command, PUT_CODES[put.status], body=command.body)

        late = LateResponse(respond)
        offset = 100 * len(self.syncs)
        sync = GroupCommitRequest(self.here, offset + 100, self._timeout_ms, late.notify)
        self.syncs.append(sync)
        if self.known_before is not None:
            sync.complete(self.known_before)
        append = AppendMessageResult(offset, 100, 0, 0, LOOPBACK_BROKER)
        return late.response_or_self(PutWait(append, sync, None, None))

    def ask(self, count: int, ms: int = 60_000) -> list[tuple[int, int]]:
        """Send one request from each of `count` clients. Return the code and the latency in ms of each answer.

        The code of a missing answer is -1.
        """
        answers = [(-1, -1)] * count
        begun_ns = self.there.clock.monotonic_ns()

        def ask_one(number: int) -> None:
            client = RemotingClient(self.there, ADDRESS)
            try:
                code = client.invoke(RemotingCommand(SEND, 0, body=b"%d" % number), ms).code
                answers[number] = code, (self.there.clock.monotonic_ns() - begun_ns) // 1_000_000
            except OSError:
                pass
            finally:
                client.close()

        self.tasks = [self.there.tasks.spawn(f"ask {number}", lambda n=number: ask_one(n)) for number in range(count)]
        return answers

    def join(self) -> None:
        for task in self.tasks:
            task.join(None)

    def until_taken(self, count: int) -> None:
        while len(self.syncs) < count:
            self.here.tasks.sleep(1)

    def sync(self, which: Iterable[int], *, durable: bool = True) -> None:
        """Complete the puts of the given sends in this order."""
        for number in which:
            self.syncs[number].complete(durable)


def codes(answers: list[tuple[int, int]]) -> list[int]:
    return [code for code, _ in answers]


def test_pending_sends_occupy_no_task_and_are_answered_by_one_fsync(here: World, there: World) -> None:
    broker = Broker(here, there)
    answers = broker.ask(20)
    broker.until_taken(20)
    here.tasks.sleep(100)
    assert codes(answers) == [-1] * 20
    broker.sync(range(20))
    broker.join()
    assert codes(answers) == [ResponseCode.SUCCESS] * 20
    assert max(ms for _, ms in answers) < 200
    assert broker.server.shutdown()
    assert broker.server.connections.held_bytes == 0


def test_an_fsync_answers_only_the_sends_that_it_covers(here: World, there: World) -> None:
    broker = Broker(here, there)
    broker.ask(3)
    broker.until_taken(3)
    first = RemotingClient(there, ADDRESS).invoke_async(RemotingCommand(SEND, 0))
    broker.until_taken(4)
    broker.sync([3])
    assert first.wait(1_000).code == ResponseCode.SUCCESS
    broker.sync(range(3), durable=False)
    broker.join()
    assert broker.server.shutdown()


@pytest.mark.parametrize("is_durable", [False, True])
def test_a_put_that_completes_at_once_is_answered_at_once(here: World, there: World, is_durable: bool) -> None:
    broker = Broker(here, there)
    broker.known_before = is_durable
    answers = broker.ask(3)
    broker.join()
    expected = ResponseCode.SUCCESS if is_durable else ResponseCode.FLUSH_DISK_TIMEOUT
    assert codes(answers) == [expected] * 3
    assert max(ms for _, ms in answers) < 100
    assert broker.server.shutdown()


def test_each_send_is_answered_at_its_own_timeout(here: World, there: World) -> None:
    broker = Broker(here, there)
    answers = broker.ask(3)
    broker.until_taken(3)
    broker.sync([1])
    here.tasks.sleep(2_000)
    later = RemotingClient(there, ADDRESS).invoke_async(RemotingCommand(SEND, 0))
    broker.join()
    begun_ns = there.clock.monotonic_ns()
    assert sorted(codes(answers)) == [ResponseCode.SUCCESS] + [ResponseCode.FLUSH_DISK_TIMEOUT] * 2
    assert [ms >= TIMEOUT_MS for code, ms in answers if code] == [True] * 2
    assert max(ms for _, ms in answers) < TIMEOUT_MS + 100
    assert later.wait(60_000).code == ResponseCode.FLUSH_DISK_TIMEOUT
    assert 1_900 < (there.clock.monotonic_ns() - begun_ns) // 1_000_000 < 2_100
    broker.sync([0, 2])  # too late, because the waits have timed out
    assert broker.server.shutdown()


def test_a_shorter_timeout_than_earlier_ones_is_respected(here: World, there: World) -> None:
    broker = Broker(here, there)
    first = broker.client.invoke_async(RemotingCommand(SEND, 0))
    broker.until_taken(1)
    broker._timeout_ms = 100
    assert codes([(RemotingClient(there, ADDRESS).invoke(RemotingCommand(SEND, 0), 500).code, 0)]) == [
        ResponseCode.FLUSH_DISK_TIMEOUT
    ]
    broker.sync([0])
    assert first.wait(1_000).code == ResponseCode.SUCCESS
    assert broker.server.shutdown()


def test_a_stop_waits_for_the_results_of_pending_puts(here: World, there: World) -> None:
    broker = Broker(here, there)
    answers = broker.ask(3)
    broker.until_taken(3)

    def sync_soon() -> None:
        here.tasks.sleep(1_000)
        broker.sync(range(3))

    here.tasks.spawn("sync soon", sync_soon)
    begun_ns = here.clock.monotonic_ns()
    assert broker.server.shutdown()
    assert (here.clock.monotonic_ns() - begun_ns) // 1_000_000 < 1_100
    broker.join()
    assert codes(answers) == [ResponseCode.SUCCESS] * 3
    assert broker.server.connections.held_bytes == 0


def test_a_second_stop_returns_at_once(here: World, there: World) -> None:
    broker = Broker(here, there)
    assert broker.server.shutdown()
    begun_ns = here.clock.monotonic_ns()
    assert all(broker.server.shutdown() for _ in range(3))
    assert here.clock.monotonic_ns() - begun_ns < 1_000_000_000


def test_a_stop_that_times_out_answers_no_pending_send(here: World, there: World) -> None:
    broker = Broker(here, there, timeout_ms=10 * DRAIN_MS)
    answers = broker.ask(3)
    broker.until_taken(3)
    begun_ns = here.clock.monotonic_ns()
    assert not broker.server.shutdown()
    assert DRAIN_MS <= (here.clock.monotonic_ns() - begun_ns) // 1_000_000 < DRAIN_MS + 100
    broker.join()
    assert codes(answers) == [-1] * 3
    assert broker.server.connections.held_bytes == 0
    broker.sync(range(3))  # the clients have disconnected by now


def test_a_disconnected_client_leaves_no_held_bytes(here: World, there: World) -> None:
    broker = Broker(here, there)
    broker.client.invoke_async(RemotingCommand(SEND, 0))
    broker.until_taken(1)
    broker.client.close()
    here.tasks.sleep(100)
    broker.sync([0])
    here.tasks.sleep(100)
    assert broker.server.connections.held_bytes == 0
    assert broker.server.shutdown()


def test_a_one_way_send_is_pending_until_its_put_completes(here: World, there: World) -> None:
    broker = Broker(here, there)
    broker.client.invoke_one_way(RemotingCommand(SEND, 0, ONE_WAY_FLAG), 1_000)
    broker.until_taken(1)
    here.tasks.sleep(100)
    assert broker.server.connections.held_bytes > 0
    broker.sync([0])
    here.tasks.sleep(100)
    assert broker.server.connections.held_bytes == 0
    assert broker.server.shutdown()


def test_a_response_that_cannot_be_sent_affects_only_its_client(here: World, there: World) -> None:
    broker = Broker(here, there)
    broker.breaks = True
    first = broker.client.invoke_async(RemotingCommand(SEND, 0))
    broker.until_taken(1)
    broker.sync([0])
    found = first.wait(1_000)
    assert (found.code, found.remark) == (ResponseCode.SYSTEM_ERROR, "LookupError: no such thing")
    assert "LookupError" in broker.printed[-1]
    broker.breaks = False
    second = broker.client.invoke_async(RemotingCommand(SEND, 0))
    broker.until_taken(2)
    broker.sync([1])
    assert second.wait(1_000).code == ResponseCode.SUCCESS
    assert broker.server.shutdown()


def test_deadlines_of_answered_sends_do_not_accumulate(
    here: World, there: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(late_answers, "_LEFTOVERS_MAX", 3)
    broker = Broker(here, there)
    for number in range(20):
        waiting = broker.client.invoke_async(RemotingCommand(SEND, 0))
        broker.until_taken(number + 1)
        broker.sync([number])
        assert waiting.wait(1_000).code == ResponseCode.SUCCESS
        assert len(broker.server._late._due) <= 5
    last = broker.client.invoke_async(RemotingCommand(SEND, 0))
    assert last.wait(2 * TIMEOUT_MS).code == ResponseCode.FLUSH_DISK_TIMEOUT
    assert broker.server.shutdown()
