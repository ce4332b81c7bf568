"""Transaction listener: commits or rolls back the half messages of one producer.

The listener decides at once, or when the master sends a check request; to the first ones it may answer "unknown". The
decision is made at random before the send and never changes. The request with the decision may be lost. Some requests
are repeated, or wait for their answer. RocketMQ's clients wait for none.
"""

from collections import deque
from contextlib import suppress
from functools import partial

from ....faults.plan import FaultPlan
from ....store.broker.remoting_client import ClientConnection, RemotingClient
from ....store.broker.requests import RequestCode
from ....store.formats.message import TRANSACTION_COMMIT, TRANSACTION_NONE, TRANSACTION_ROLLBACK, decode_record
from ....store.formats.remoting.command import RemotingCommand
from ...oracle.invariants import tx
from .broker_user import ANSWER_MS, BrokerUser
from .commands import HEARTBEAT_MS, end_transaction_command, producer_heartbeat

_ROUTE_MS = 100
"""The interval of looks for a route to the master."""
_REPEAT_CHANCE, _WAIT_CHANCE = 0.1, 0.2


class TransactionListener:
    """Each member of the producer group gives the same answer."""

    def __init__(self, user: BrokerUser) -> None:
        """Start the tasks. The only master sends check requests over the producer's connection."""
        ((self._broker, self._account),) = user.run.accounts.items()
        tasks = user.world.tasks
        self._user = user
        self._stream = user.run.streams(f"{user.name}/decisions")
        plan = user.plan
        self._is_calm = plan.faults == FaultPlan() and not (
            plan.capacity_bytes or plan.retention.deletes_segments or plan.cluster.slaves
        )
        self._asked: deque[tuple[RemotingCommand, int]] = deque()
        """Check requests, each with the life of the broker that sent it."""
        self._more = tasks.signal(f"asked {user.name}")
        user.routes.on_request = self._on_request
        tasks.spawn(f"heartbeat {user.name}", self._send_heartbeats)
        tasks.spawn(f"decide {user.name}", self._send_decisions)

    def _on_request(self, request: RemotingCommand, _: ClientConnection) -> None:
        """Queue a check request of the broker, because the task that receives it must not wait."""
        if request.code == RequestCode.CHECK_TRANSACTION_STATE:
            self._asked.append((request, self._account.ledger.life))
            self._more.notify()

    def decide(self, name: str, queue_offset: int, log_offset: int, *, asked_in: int | None) -> None:
        """asked_in: the life of the broker that asked; None: the producer has just sent the message."""
        transactions = self._account.ledger.transactions
        transaction = transactions.by_name.get(name)
        assert transaction is not None, f"a check request for {name}, which no producer sent"
        behaviour, asked = transaction.behaviour, asked_in is not None
        transaction.questions += asked
        command = partial(end_transaction_command, name, queue_offset, log_offset, asked=asked)
        if asked and transaction.questions <= behaviour.unknowns:
            self._send(command(TRANSACTION_NONE), waits=False)
            return
        self._account.hits["half message decided in check"] += asked
        decision = TRANSACTION_COMMIT if behaviour.commits else TRANSACTION_ROLLBACK
        for _ in range(1 + self._stream.chance(_REPEAT_CHANCE, "repeats its decision")):
            transactions.record_decision(transaction, commits=behaviour.commits, now_ns=self._user.now_ns)
            answer = self._send(command(decision), waits=self._stream.chance(_WAIT_CHANCE, "waits for the answer"))
            # A restart may have lost the half message.
            if answer is not None and self._is_calm and asked_in == self._account.ledger.life:
                self._user.run.report(tx.check_decision_accepted(name, answer.code, answer.remark))

    def _send(self, command: RemotingCommand, *, waits: bool) -> RemotingCommand | None:
        """Return the answer, if the listener waits for it and gets it."""
        client = self._client_of_master
        if client is None:
            return None
        with suppress(OSError):
            if waits:
                return client.invoke(command, ANSWER_MS)
            client.invoke_one_way(command, ANSWER_MS)
        return None

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
            request, asked_in = self._asked.popleft()
            fields = request.ext_fields
            self._judge_check_request(fields["transactionId"], request.body)
            offsets = int(fields["tranStateTableOffset"]), int(fields["commitLogOffset"])
            self.decide(fields["transactionId"], *offsets, asked_in=asked_in)

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
