"""Broker user: the base of all clients and operators. Each has a machine of its own, and outlives its machines.

A slave's answer may be older than the ledger.
"""

from collections.abc import Callable, Iterable, Mapping
from copy import copy
from dataclasses import dataclass
from typing import NamedTuple, Self

from ....sim.choices import Stream
from ....store.broker.remoting_client import ClientConnection
from ....store.broker.requests import RequestCode, ResponseCode
from ....store.formats.remoting.command import RemotingCommand
from ....store.message_store import MessageStore
from ....store.world import World
from ...claims.plan import Plan
from ...oracle.evidence import Violation
from ...oracle.group_delivery import Queue
from ...oracle.invariants import live
from ...oracle.queue_locks import QueueLocks
from ...oracle.reader import ReadRecord
from ...oracle.received_messages import ReceivedMessages
from ...workload.drawing import topic_of_users
from .account import BrokerAccount
from .answers import PULLED, TimedPull
from .client_machine import ClientMachine
from .commands import granted_queues, lock_command, pull_command, pulled_records
from .message_options import EVERYTHING, Subscription
from .routes import BrokerAddress, Routes

ANSWER_MS = 3_000
"""The time limit for an answer, as in RocketMQ's clients, in addition to the time for which a pull is held."""
_REST_STEP_MS = 1_000


@dataclass(frozen=True, slots=True)
class UserContext:
    """The parts of a broker run that its users need."""

    plan: Plan
    accounts: Mapping[str, BrokerAccount]
    make_machine: Callable[[str, int], ClientMachine]
    """Arguments: the name of the machine, and the last byte of its address."""
    make_routes: Callable[[World], Routes]
    streams: Callable[[str], Stream]
    report: Callable[[Iterable[Violation]], None]
    master_store: Callable[[str], MessageStore | None]
    """The store of a broker's running master; None while no master runs."""
    store_at: Callable[[BrokerAddress], MessageStore | None]
    """The store of a broker that runs."""
    now_ns: Callable[[], int]
    """Virtual time, also after the death of a user's machine."""
    tidies_at_ns: Callable[[str], int] = lambda broker: 0
    """When a broker next expires locks and members. In the past if it is off."""

    @property
    def topics(self) -> list[str]:
        return [topic_of_users(number) for number in range(self.plan.topics)]


class Reply(NamedTuple):
    """An answer to a user's request, with its times in virtual ns."""

    response: RemotingCommand
    asked_ns: int
    sent_ns: int
    """After the connection was made."""
    answered_ns: int
    is_of_this_life: bool
    """Whether the broker has not restarted since the request."""

    @property
    def is_success(self) -> bool:
        return self.response.code == ResponseCode.SUCCESS

    @property
    def text(self) -> str:
        """Code and remark."""
        code = self.response.code
        name = next((each.name for each in ResponseCode if each == code), str(code))
        return ", ".join(filter(None, (name, self.response.remark)))

    def field(self, name: str) -> int:
        return int(self.response.ext_fields[name])


class BrokerUser:
    """A client or operator with its own machine."""

    def __init__(self, run: UserContext, name: str, host_number: int) -> None:
        self.insists = False
        """Whether each request must be answered in time from now on."""
        self.name = name
        self.run = run
        self.plan = run.plan
        self.stream = run.streams(name)
        self.machine = run.make_machine(name, host_number)
        self.machine.begin = self._begin_on_machine

    def _begin_on_machine(self, world: World) -> None:
        self.world = world
        self.routes = self.run.make_routes(world)
        self.routes.on_request = self.receive_request
        self.routes.start(self.run.topics)
        self.begin()

    def with_own_connections(self) -> Self:
        """Return the user with other connections, over which no broker sends requests. Close its routes at the end."""
        other = copy(self)
        other.routes = self.run.make_routes(self.world)
        return other

    def begin(self) -> None:
        """Start the tasks of the user on a new machine."""
        raise NotImplementedError

    def receive_request(self, request: RemotingCommand, connection: ClientConnection) -> None:
        """Take a request of a broker. The calling task must not wait."""

    def unfinished_text(self) -> str:
        """Return the work that the user must still finish after all faults, or an empty text."""
        return ""

    @property
    def now_ns(self) -> int:
        return self.run.now_ns()

    @property
    def client_id(self) -> str:
        """A client has another id after each start of its process."""
        return f"{self.machine.host}@{self.machine.lives}"

    def rest(self, ms: int) -> None:
        """Sleep, but only until all faults have ended."""
        due_ns = self.now_ns + ms * 1_000_000
        while not self.insists and (left_ns := due_ns - self.now_ns) > 0:
            self.world.tasks.sleep(min(_REST_STEP_MS, -(-left_ns // 1_000_000)))

    def received_messages(self, wanted: Subscription = EVERYTHING) -> dict[str, ReceivedMessages]:
        """Return the messages that the user receives, by broker."""
        return {
            name: ReceivedMessages(
                account.ledger,
                self.run.report,
                self.run.now_ns,
                lambda put: wanted.wants(put.properties),
                wanted.text,
                account.has_steady_clock,
                account.sync_flush,
                may_skip=wanted is not EVERYTHING,
            )
            for name, account in self.run.accounts.items()
        }

    def send(
        self, broker: BrokerAddress | None, command: RemotingCommand, timeout_ms: int = ANSWER_MS
    ) -> tuple[RemotingCommand | None, int]:
        """Return a broker's answer or None, and the time in ns at which the request was sent."""
        insisted = self.insists
        if broker is None:
            return None, 0
        try:
            return self.routes.send_request(broker, command, timeout_ms)
        except OSError as error:
            if insisted and self.run.store_at(broker) is not None:  # a master may be lost at the end of a run
                self.run.report(live.violation_of_time_out(timeout_ms, error))
            return None, 0

    def ask(self, broker: str, command: RemotingCommand, timeout_ms: int = ANSWER_MS) -> Reply | None:
        """Return the answer of a master, or None without an answer in time."""
        account = self.run.accounts[broker]
        asked_in, asked_ns = account.ledger.life, self.now_ns
        asked = self.routes.broker_for_offsets(broker, self.run.topics[0])
        if asked is None or asked.is_slave:
            return None
        response, sent_ns = self.send(asked, command, timeout_ms)
        if response is None:
            account.members.record_failed_request(self.client_id, asked_ns)
            return None
        return Reply(response, asked_ns, sent_ns, self.now_ns, asked_in == account.ledger.life)

    def pull(
        self, broker: str, queue: Queue, position: int, suspend_ms: int, group: str
    ) -> tuple[TimedPull, Reply, list[ReadRecord]] | None:
        """Pull messages with any properties from a master, and check the answer if the broker has not restarted.

        Return None without an answer in time.
        """
        account, most = self.run.accounts[broker], self.plan.broker.pull_messages_max
        command = pull_command(*queue, position, EVERYTHING, most=most, suspend_ms=suspend_ms, group=group)
        before = account.pulls.known_bounds(queue)
        reply = self.ask(broker, command, suspend_ms + ANSWER_MS)
        if reply is None:
            return None
        pull = TimedPull(queue, position, self.machine.host, suspend_ms, before, reply.asked_ns, reply.sent_ns)
        readings = list(pulled_records(reply.response.body)) if reply.is_success else []
        if reply.is_of_this_life:
            given = [record.queue_offset for record, _ in readings]
            checked = pull.check_answer(account, reply.response, reply.answered_ns, EVERYTHING, given, most)
            self.run.report(checked)
        if reply.response.code in PULLED:
            account.ledger.groups.add(group)
        return pull, reply, readings

    def ask_name_server(self, name_server: BrokerAddress, command: RemotingCommand) -> bool:
        """Return whether the name server has executed a request."""
        try:
            response, _ = self.routes.send_request(name_server, command, ANSWER_MS)
        except OSError:
            return False
        return response.code == ResponseCode.SUCCESS

    def ask_for_locks(self, broker: str, group: str, locks: QueueLocks, queues: list[Queue]) -> list[Queue] | None:
        """Ask for the locks of queues, and check the answer. Return the queues that the answer grants, if there is one.

        locks: the group's locks at the broker.
        """
        ledger, client_id = self.run.accounts[broker].ledger, self.client_id
        existing = [queue for queue in queues if queue[1] <= ledger.topics.get(queue[0], -1)]
        locks.record_request(client_id, queues)
        try:
            reply = self.ask(broker, lock_command(RequestCode.LOCK_BATCH_MQ, group, client_id, broker, queues))
            if reply is None or not reply.is_success or not reply.is_of_this_life:
                return None
            granted = granted_queues(reply.response)
            times_ns = reply.asked_ns, reply.answered_ns
            self.run.report(locks.check_answer(client_id, queues, granted, times_ns, existing))
            return granted
        finally:
            locks.record_no_answer(client_id, queues, self.now_ns)
