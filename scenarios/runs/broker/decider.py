"""A transaction listener: it decides half messages, at once or when it is asked about them.

What it decides of a message it has decided before it sends it, and never changes; what it says may be lost.
"""

from collections import deque
from contextlib import suppress

from ....store.broker.remoting_client import RemotingClient
from ....store.broker.requests import RequestCode
from ....store.formats.message import TRANSACTION_COMMIT, TRANSACTION_ROLLBACK
from ....store.formats.remoting.command import RemotingCommand
from ....store.world import World
from .client_ledger import ClientLedger
from .commands import end_transaction_command, heartbeat_command

_HEARTBEAT_MS = 1_000
_ANSWER_MS = 3_000


class Decider:
    """Decides the transactions of one producer's group; whoever of the group is asked, the answer is the same."""

    def __init__(self, world: World, client_id: str, ledger: ClientLedger) -> None:
        self.client: RemotingClient | None = None
        self._world = world
        self._client_id = client_id
        self._ledger = ledger
        self._asked: deque[RemotingCommand] = deque()
        self._more = world.tasks.signal(f"asked {client_id}")

    def start(self, client: RemotingClient) -> None:
        """Begin to say who it is, and to answer what it is asked over this client's connections."""
        self.client = client
        self._world.tasks.spawn(f"heartbeat {self._client_id}", self._beat)
        self._world.tasks.spawn(f"decide {self._client_id}", self._answer)

    def on_request(self, request: RemotingCommand) -> None:
        """Take note of what the broker asks; the task that receives must not wait."""
        if request.code == RequestCode.CHECK_TRANSACTION_STATE:
            self._asked.append(request)
            self._more.notify()

    def decide(self, name: str, queue_offset: int, log_offset: int, *, asked: bool) -> None:
        """Say what is to become of a half message, if that gets through."""
        send = self._ledger.sends.get(name)
        assert send is not None, f"asked about {name}, which nobody sent"
        decision = TRANSACTION_COMMIT if send.commits else TRANSACTION_ROLLBACK
        if send.commits:
            send.maybe += 1
        self._ledger.hits["decided when asked"] += asked
        assert self.client is not None, "it has been started"
        with suppress(OSError):
            self.client.send_one_way(
                end_transaction_command(name, queue_offset, log_offset, decision, asked=asked), _ANSWER_MS
            )

    def _beat(self) -> None:
        assert self.client is not None, "it has been started"
        while True:
            with suppress(OSError):
                self.client.invoke(heartbeat_command(self._client_id), _ANSWER_MS)
            self._world.tasks.sleep(_HEARTBEAT_MS)

    def _answer(self) -> None:
        while True:
            while not self._asked:
                self._more.wait(None)
            fields = self._asked.popleft().ext_fields
            offsets = int(fields["tranStateTableOffset"]), int(fields["commitLogOffset"])
            self.decide(fields["transactionId"], *offsets, asked=True)
