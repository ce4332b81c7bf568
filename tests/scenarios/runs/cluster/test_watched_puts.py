"""Each result of a store's puts is observed when the store knows it, and connections to other ports are not."""

from collections.abc import Callable
from typing import Any, cast

from tornlog.scenarios.runs.cluster.watched_network import Watch, WatchedNetwork
from tornlog.scenarios.runs.cluster.watched_puts import WatchedPut, watch_puts
from tornlog.store.formats.messages import PUT_OK, AppendMessageResult, Message, PutMessageResult, PutMessageStatus
from tornlog.store.log.commit_log import CommitLog
from tornlog.store.log.flush import GroupCommitRequest
from tornlog.store.log.put_wait import PutWait
from tornlog.store.network import Network

APPEND = AppendMessageResult(100, 10, 0, 1, Message.create("T0", b"").store_host, (0,))


class Flush:
    status: PutMessageStatus | None = None

    def poll(self, now_ns: int) -> PutMessageStatus | None:
        return self.status


class Log:
    """A log that answers its second put later."""

    def __init__(self) -> None:
        self.flush = Flush()
        self.answers = iter(
            [
                PutMessageResult(PutMessageStatus.SLAVE_NOT_AVAILABLE, APPEND),
                PutWait(APPEND, cast(GroupCommitRequest, self.flush), None, None),
            ]
        )

    def begin_put(self, message: Message, on_known: Callable[[], None] | None = None) -> PutMessageResult | PutWait:
        return next(self.answers)


def test_a_put_is_observed_at_its_answer() -> None:
    log, times, seen = Log(), iter(range(1, 10)), list[tuple[WatchedPut, PutMessageStatus]]()
    watch_puts(cast(CommitLog, log), lambda: next(times), lambda put, result: seen.append((put, result.status)))

    log.begin_put(Message.create("T0", b"refused"))
    assert seen == [(WatchedPut("a put to T0", True, 1, 2), PutMessageStatus.SLAVE_NOT_AVAILABLE)]

    message = Message.create("T1", b"late")
    message.wait_store_ok = False
    waiting = log.begin_put(message)
    assert isinstance(waiting, PutWait)
    assert waiting.poll(0) is None
    assert len(seen) == 1
    log.flush.status = PUT_OK
    assert waiting.poll(0) == PutMessageResult(PUT_OK, APPEND)
    assert seen[1:] == [(WatchedPut("a put to T1", False, 3, 4), PUT_OK)]


class OtherNetwork:
    def __init__(self) -> None:
        self.connection, self.listener = object(), object()

    def connect(self, address: str, timeout_ms: int) -> Any:
        return self.connection

    def listen(self, address: str) -> Any:
        return self.listener


class Connections:
    def __init__(self) -> None:
        self.addresses: list[str] = []

    def before_connect(self, address: str) -> None:
        self.addresses.append(address)

    def connected(self) -> Watch:
        return cast(Watch, object())

    def failed(self) -> None:
        raise AssertionError("no attempt fails")


def test_only_connections_to_the_port_of_replication_are_watched() -> None:
    other, own = OtherNetwork(), Connections()
    network = WatchedNetwork(cast(Network, other), 10912, lambda _: cast(Watch, object()), own)

    assert network.connect("10.0.0.1:10911", 1) is other.connection
    assert network.listen("10.0.0.1:10911") is other.listener
    assert own.addresses == []
    assert network.connect("10.0.0.1:10912", 1) is not other.connection
    assert network.listen("10.0.0.1:10912") is not other.listener
    assert own.addresses == ["10.0.0.1:10912"]
