"""Transaction listener: commits or rolls back the half messages of one producer.

The listener decides at once, or when the master sends a check request. The decision is made at random before the send
and never changes. The request with the decision may be lost.
"""

from collections import deque
from contextlib import suppress

from ....store.broker.remoting_client import ClientConnection, RemotingClient
from ....store.broker.requests import RequestCode
from ....store.formats.message import TRANSACTION_COMMIT, TRANSACTION_ROLLBACK, decode_record
from ....store.formats.remoting.command import RemotingCommand
from ...oracle.invariants import tx
from .broker_user import ANSWER_MS, BrokerUser
from .commands import HEARTBEAT_MS, end_transaction_command, producer_heartbeat

_ROUTE_MS = 100
"""The interval of looks for a route to the master."""


class TransactionListener:
    """Each member of the producer group gives the same answer."""

    def __init__(self, user: BrokerUser) -> None:
        """Start the tasks. The only master sends check requests over the producer's connection."""
        ((self._broker, self._account),) = user.run.accounts.items()
        tasks = user.world.tasks
        self._user = user
        self._asked: deque[RemotingCommand] = deque()
        self._more = tasks.signal(f"asked {user.name}")
        user.routes.on_request = self._on_request
        tasks.spawn(f"heartbeat {user.name}", self._send_heartbeats)
        tasks.spawn(f"decide {user.name}", self._send_decisions)

    def _on_request(self, request: RemotingCommand, _: ClientConnection) -> None:
        """Queue a check request of the broker, because the task that receives it must not wait."""
        if request.code == RequestCode.CHECK_TRANSACTION_STATE:
            self._asked.append(request)
            self._more.notify()

    def decide(self, name: str, queue_offset: int, log_offset: int, *, asked: bool) -> None:
        transactions = self._account.ledger.transactions
        transaction = transactions.by_name.get(name)
        assert transaction is not None, f"a check request for {name}, which no producer sent"
        commits = transaction.behaviour.commits
        decision = TRANSACTION_COMMIT if commits else TRANSACTION_ROLLBACK
        transactions.record_decision(transaction, commits=commits, now_ns=self._user.now_ns)
        self._account.hits["half message decided in check"] += asked
        command = end_transaction_command(name, queue_offset, log_offset, decision, asked=asked)
        if (client := self._client_of_master) is not None:
            with suppress(OSError):
                client.invoke_one_way(command, ANSWER_MS)

    @property
    def _client_of_master(self) -> RemotingClient | None:
        master = self._user.routes.master_of(self._broker)
        return None if master is None else self._user.routes.client(master)

    def _send_heartbeats(self) -> None:
        while True:
            client = self._client_of_master
            if client is not None:
                with suppress(OSError):
                    client.invoke(producer_heartbeat(self._user.name), ANSWER_MS)
            self._user.world.tasks.sleep(_ROUTE_MS if client is None else HEARTBEAT_MS)

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
        transactions, settings = self._account.ledger.transactions, self._user.plan.broker_settings
        is_steady = self._account.has_steady_clock
        found = tx.check_check_request(
            transactions.by_name.get(name),
            decode_record(body, 0, file="question about a half message"),
            now_ms=self._user.world.clock.now_ms(),
            may_be_early=not is_steady,
            asks_once=False,
            may_come_late=True,
            timeout_ms=settings.transaction_timeout_ms,
            interval_ms=settings.transaction_check_interval_ms if is_steady and not transactions.resumed else 0,
        )
        self._user.run.report(found)
