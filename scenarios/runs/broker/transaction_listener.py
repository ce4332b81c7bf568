"""Transaction listener: commits or rolls back the half messages of one producer.

The listener decides at once, or when the broker sends a check request. The decision is made at random before the send
and never changes. The request with the decision may be lost.
"""

from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress

from ....store.broker.requests import RequestCode
from ....store.formats.message import TRANSACTION_COMMIT, TRANSACTION_ROLLBACK, decode_record
from ....store.formats.remoting.command import RemotingCommand
from ....store.world import World
from ...oracle.evidence import Violation
from ...oracle.invariants import tx
from .account import BrokerAccount
from .commands import HEARTBEAT_MS, end_transaction_command, producer_heartbeat
from .routes import BrokerAddress, Routes

_ANSWER_MS = 3_000


class TransactionListener:
    """Each member of the producer group gives the same answer."""

    def __init__(
        self,
        world: World,
        routes: Routes,
        broker: BrokerAddress,
        client_id: str,
        account: BrokerAccount,
        report: Callable[[Iterable[Violation]], None],
        timeout_ms: int,
        interval_ms: int,
    ) -> None:
        """A single broker sends check requests over the producer's connection.

        timeout_ms: the age at which the broker first asks about a half message. interval_ms: the time between two
        requests.
        """
        self._timeout_ms = timeout_ms
        self._interval_ms = interval_ms
        self._world = world
        self._client_id = client_id
        self._account = account
        self._report = report
        self._asked: deque[RemotingCommand] = deque()
        self._more = world.tasks.signal(f"asked {client_id}")
        routes.on_request = self._on_request
        self._client = routes.client(broker)

    def start(self) -> None:
        self._world.tasks.spawn(f"heartbeat {self._client_id}", self._send_heartbeats)
        self._world.tasks.spawn(f"decide {self._client_id}", self._send_decisions)

    def _on_request(self, request: RemotingCommand) -> None:
        """Queue a check request of the broker, because the task that receives it must not wait."""
        if request.code == RequestCode.CHECK_TRANSACTION_STATE:
            self._asked.append(request)
            self._more.notify()

    def decide(self, name: str, queue_offset: int, log_offset: int, *, asked: bool) -> None:
        transactions = self._account.ledger.transactions
        transaction = transactions.by_name.get(name)
        assert transaction is not None, f"asked about {name}, which nobody sent"
        commits = transaction.behaviour.commits
        decision = TRANSACTION_COMMIT if commits else TRANSACTION_ROLLBACK
        transactions.record_decision(transaction, commits=commits, now_ns=self._world.clock.monotonic_ns())
        self._account.hits["decided when asked"] += asked
        command = end_transaction_command(name, queue_offset, log_offset, decision, asked=asked)
        with suppress(OSError):
            self._client.invoke_one_way(command, _ANSWER_MS)

    def _send_heartbeats(self) -> None:
        while True:
            with suppress(OSError):
                self._client.invoke(producer_heartbeat(self._client_id), _ANSWER_MS)
            self._world.tasks.sleep(HEARTBEAT_MS)

    def _send_decisions(self) -> None:
        while True:
            while not self._asked:
                self._more.wait(None)
            request = self._asked.popleft()
            fields = request.ext_fields
            self._judge_check_request(fields["transactionId"], request.body)
            offsets = int(fields["tranStateTableOffset"]), int(fields["commitLogOffset"])
            self.decide(fields["transactionId"], *offsets, asked=True)

    def _judge_check_request(self, name: str, body: bytes) -> None:
        """Check a check request of the broker.

        The number of a check request may repeat, because the network can lose a request or its answer. A request after
        a decision is no violation, because the decision may have been late or lost.
        """
        transactions = self._account.ledger.transactions
        found = tx.check_check_request(
            transactions.by_name.get(name),
            decode_record(body, 0, file="question about a half message"),
            now_ms=self._world.clock.now_ms(),
            may_be_early=not self._account.has_steady_clock,
            asks_once=False,
            may_come_late=True,
            timeout_ms=self._timeout_ms,
            interval_ms=self._interval_ms if self._account.has_steady_clock and not transactions.resumed else 0,
        )
        self._report(found)
