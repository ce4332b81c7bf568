"""Remoting client: sends concurrent requests to a server over one connection.

    client = RemotingClient(world, "127.0.0.1:10911")
    response = client.invoke(RemotingCommand(code, 0, ext_fields={...}), timeout_ms=3_000)
    client.close()

If the connection is missing or broken, a request opens a new one. So the client works again after a server restart.
Source: RocketMQ NettyRemotingClient.
"""

from collections.abc import Callable
from dataclasses import replace

from ..errors import CorruptFileError
from ..formats.remoting.command import ONE_WAY_FLAG, RESPONSE_FLAG, RemotingCommand
from ..formats.remoting.frame import CommandReader, encode_frame
from ..network import Connection
from ..world import Task, World

CONNECT_MS = 3_000
_RECEIVE_BYTES = 64 * 1024
_OPAQUE_MASK = 0x7FFFFFFF
GIVEN_UP_MAX = 1_024
"""Number of abandoned requests that a connection remembers, to recognise their late responses."""

Sign = Callable[[RemotingCommand], RemotingCommand]
Encode = Callable[[RemotingCommand], bytes]
OnRequest = Callable[[RemotingCommand, "ClientConnection"], None]
"""The receiving task calls this function with each request from the server, and the connection for a response."""
OnUnmatched = Callable[[RemotingCommand], None]
"""The receiving task calls this function with each response that belongs to no open request of its connection."""


class Invocation:
    """A request in flight."""

    def __init__(self, link: "ClientConnection", opaque: int) -> None:
        self._link = link
        self._opaque = opaque
        self._answered = link.world.tasks.signal("answered")
        self._response: RemotingCommand | None = None

    def wait(self, timeout_ms: int) -> RemotingCommand:
        """Return the response. Raises TimeoutError, or ConnectionError if the connection ended."""
        address = self._link.address
        if not self._answered.wait(timeout_ms):
            self._link.forget_request(self._opaque)
            raise TimeoutError(f"{address}: no response to request {self._opaque} in {timeout_ms} ms")
        if self._response is None:
            raise ConnectionError(f"{address}: the connection broke before request {self._opaque} was answered")
        return self._response

    def complete(self, response: RemotingCommand | None) -> None:
        """End the wait. `response` is None if the connection ended."""
        self._response = response
        self._answered.notify()


class RemotingClient:
    """Client of a server. Thread-safe.

    `sign` signs each command. `encode` encodes each frame, for example like a client in another language.
    """

    def __init__(
        self,
        world: World,
        address: str,
        *,
        sign: Sign | None = None,
        on_request: OnRequest | None = None,
        on_unmatched: OnUnmatched | None = None,
        encode: Encode = encode_frame,
    ) -> None:
        self.address = address
        self.connects = 0
        """The number of connections so far."""
        self._world = world
        self._sign = sign
        self._on_request = on_request
        self._on_unmatched = on_unmatched
        self._encode = encode
        self._lock = world.tasks.lock(f"client of {address}")
        self._opaques = world.tasks.cell(f"opaques of {address}")
        self._link: ClientConnection | None = None
        self._failed_connects = 0
        self._connect_error: OSError | None = None
        """The error of the last failed attempt to connect."""
        self._receivers: list[Task] = []
        self._closed = False

    def invoke(self, command: RemotingCommand, timeout_ms: int) -> RemotingCommand:
        """Send a request with a new opaque. Return the response, also if it has an error code.

        Raises TimeoutError if the response is late; the server may nevertheless execute the request. Raises
        ConnectionError, or another OSError while connecting, if no response can arrive.
        """
        return self.invoke_async(command, timeout_ms).wait(timeout_ms)

    def invoke_async(self, command: RemotingCommand, timeout_ms: int = CONNECT_MS) -> Invocation:
        """Send without waiting for the response. Raises the errors of `invoke` except TimeoutError."""
        link = self._open_link()
        opaque = self._opaques.add(1) & _OPAQUE_MASK
        invocation = link.register_request(opaque)  # the response may arrive during the send
        try:
            link.send(self._encode_frame(command, opaque, 0), timeout_ms)
        except BaseException:
            link.forget_request(opaque)
            raise
        return invocation

    def invoke_one_way(self, command: RemotingCommand, timeout_ms: int = CONNECT_MS) -> None:
        """Send a request that has no response. Raises OSError if the send fails."""
        link = self._open_link()
        link.send(self._encode_frame(command, self._opaques.add(1) & _OPAQUE_MASK, ONE_WAY_FLAG), timeout_ms)

    def close(self) -> None:
        """Waiting invocations raise ConnectionError."""
        with self._lock:
            self._closed = True
            link, self._link = self._link, None
        if link is not None:
            link.close()
        for receiver in self._receivers:
            receiver.join(CONNECT_MS)  # the closed connection ends this task

    def _encode_frame(self, command: RemotingCommand, opaque: int, flag: int) -> bytes:
        signed = command if self._sign is None else self._sign(command)
        numbers = signed.code, opaque, signed.flag | flag, signed.language, signed.version
        # `replace` would take longer than the encoding.
        return self._encode(RemotingCommand(*numbers, signed.remark, signed.ext_fields, signed.body, signed.form))

    def _open_link(self) -> "ClientConnection":
        """Return the open connection, or connect. An attempt that fails also fails for all requests that wait for it.

        If each of them connected again, a request would wait for an unreachable server as long as all others together.
        """
        failed_before = self._failed_connects
        with self._lock:
            if self._closed:
                raise ConnectionError(f"{self.address}: the client is closed")
            if self._link is None or self._link.is_broken:
                if self._failed_connects != failed_before:
                    raise ConnectionError(f"{self.address}: cannot connect") from self._connect_error
                network = self._world.network
                assert network is not None, "a client needs a network"
                try:
                    connection = network.connect(self.address, CONNECT_MS)
                except OSError as error:
                    self._failed_connects, self._connect_error = self._failed_connects + 1, error
                    raise
                self.connects += 1
                functions = self._encode, self._on_request, self._on_unmatched
                self._link = ClientConnection(self._world, self.address, connection, *functions)
                receiver = self._world.tasks.spawn(f"client of {self.address}", self._link.receive)
                self._receivers = [*(each for each in self._receivers if not each.join(0)), receiver]
            return self._link


class ClientConnection:
    """A connection of a client to its server. Thread-safe."""

    def __init__(
        self,
        world: World,
        address: str,
        connection: Connection,
        encode: Encode,
        on_request: OnRequest | None,
        on_unmatched: OnUnmatched | None,
    ) -> None:
        self.world = world
        self.address = address
        self.is_broken = False
        self._connection = connection
        self._encode = encode
        self._on_request = on_request
        self._on_unmatched = on_unmatched
        self._sending = world.tasks.lock(f"sending to {address}")
        self._guard = world.tasks.lock(f"invocations of {address}")
        self._expected: dict[int, Invocation] = {}
        self._given_up: dict[int, None] = {}
        """Opaques of abandoned requests, the oldest first.

        The server may never respond, so the oldest are removed. A later response to a removed one is unmatched.
        """

    def register_request(self, opaque: int) -> Invocation:
        invocation = Invocation(self, opaque)
        with self._guard:
            if self.is_broken:
                raise ConnectionError(f"{self.address}: the connection broke")
            expected = self._expected
            assert opaque not in expected, opaque  # the response to the old request would go to the new one
            expected[opaque] = invocation
        return invocation

    def forget_request(self, opaque: int) -> None:
        """Ignore a late response to the request."""
        with self._guard:
            if self._expected.pop(opaque, None) is not None:
                self._give_up(opaque)

    def _give_up(self, opaque: int) -> None:
        """The caller holds `_guard`."""
        given_up = self._given_up
        given_up[opaque] = None
        if len(given_up) > GIVEN_UP_MAX:
            del given_up[next(iter(given_up))]
        assert len(given_up) <= GIVEN_UP_MAX, len(given_up)

    def send(self, frame: bytes, timeout_ms: int) -> None:
        """Close the connection after an error."""
        unsent = memoryview(frame)
        with self._sending:
            try:
                while unsent:
                    unsent = unsent[self._connection.send(unsent, timeout_ms) :]
            except OSError:
                self.close()  # the peer may have part of a frame
                raise

    def respond(self, request: RemotingCommand, response: RemotingCommand, timeout_ms: int = CONNECT_MS) -> None:
        """Send the response to a request of the server. Raises OSError if the send fails."""
        flag = response.flag | RESPONSE_FLAG
        self.send(self._encode(replace(response, opaque=request.opaque, flag=flag)), timeout_ms)

    def receive(self) -> None:
        reader = CommandReader(self.address)
        try:
            while data := self._connection.receive(_RECEIVE_BYTES, None):
                for command, _ in reader.commands(data):
                    self._complete_or_pass_on(command)
        except (OSError, CorruptFileError):
            pass  # `close` fails the waiting invocations
        finally:
            self.close()

    def close(self) -> None:
        with self._guard:
            self.is_broken = True
            unanswered = list(self._expected.values())
            for opaque in self._expected:  # the receiving task may have read responses that it has not completed
                self._give_up(opaque)
            self._expected.clear()
        self._connection.close()
        for invocation in unanswered:  # a late response finds no entry, so each invocation ends once
            invocation.complete(None)

    def _complete_or_pass_on(self, command: RemotingCommand) -> None:
        if not command.is_response:
            if self._on_request is not None:
                self._on_request(command, self)
            return
        with self._guard:
            invocation = self._expected.pop(command.opaque, None)
            is_late = command.opaque in self._given_up
            self._given_up.pop(command.opaque, None)
        if invocation is not None:
            invocation.complete(command)
        elif not is_late and self._on_unmatched is not None:
            self._on_unmatched(command)
