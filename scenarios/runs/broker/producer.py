"""A simulated producer: it sends one message after another, each again until it is answered or given up.

Beside it stands a transaction listener, which decides half messages, at once or when it is asked about them. What it
decides of a message it has decided before it sends it, and never changes; what it says may be lost.
"""

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass

from ....sim.choices import Stream
from ....store.broker.requests import RequestCode, ResponseCode
from ....store.formats.host import Host, decode_message_id
from ....store.formats.message import TRANSACTION_COMMIT, TRANSACTION_ROLLBACK
from ....store.formats.remoting.command import RemotingCommand
from ....store.world import World
from ...claims.plan import Plan
from ...oracle.evidence import Violation
from ...oracle.ledger import HALF_TOPIC
from ...oracle.put_entry import Detour, PutContent, PutEntry
from ...oracle.reader import in_map_order
from ...oracle.transactions import Behaviour
from ...workload.options import draw_given, make_detour, redirect
from ...workload.skew import EVEN, Skew
from .account import BrokerAccount
from .answers import note_answer
from .client_machine import ClientMachine
from .commands import HEARTBEAT_MS, PRODUCER_GROUP, end_transaction_command, producer_heartbeat, send_command
from .message_options import MessageOptions, body_of, draw_options, put_name, topic_of_users
from .routes import BrokerAddress, Routes

_RETRY_MS = 50
_ANSWER_MS = 3_000
_ROLLBACK_CHANCE = 0.3
_WAITS_CHANCE = 0.3
_BESIDE_BODY_BYTES = 200
_CLUSTER = "DefaultCluster"
"""The name that a broker adds to the properties of a message."""


@dataclass(frozen=True, slots=True)
class DrawnMessage:
    """A message as it was drawn, before a producer sends it for the first time."""

    name: str
    body: bytes
    topic: str
    queue_id: int | None
    """None: queues take turns."""
    options: MessageOptions
    behaviour: Behaviour | None
    """What becomes of a half message; None for any other message."""
    given: PutContent
    stream: Stream

    def put(self, tries: int, queue_id: int, *, now_ns: int, now_ms: int, store_host: tuple[bytes, int]) -> PutEntry:
        """Return the put for one send of the message, counted from 1."""
        name = put_name(self.name, tries)
        properties = in_map_order(self.properties(name) | {"CLUSTER": _CLUSTER})
        put = PutEntry(name, self.topic, queue_id, self.options.tag, self.body, properties, True, now_ns)
        # a half message is asked about by its age
        ago_ms = 0 if self.behaviour is not None else -self.given.born_timestamp_ms
        put.given = self.given._replace(born_timestamp_ms=now_ms - ago_ms, store_host=store_host)
        put.knows_port, put.over_in = False, None
        if self.options.delay_level:
            redirect(put, self.options.delay_level)
        elif self.behaviour is not None:
            make_detour(put, Detour((HALF_TOPIC, 0)))
        return put

    def properties(self, put: str) -> dict[str, str]:
        """Return the properties with which a put is sent."""
        named = {"KEYS": put, **self.options.properties}
        if self.behaviour is not None:
            named |= {"TRAN_MSG": "true", "PGROUP": PRODUCER_GROUP, "UNIQ_KEY": put}
        return named


class TransactionListener:
    """Decides the transactions of one producer's group; whoever of the group is asked, the answer is the same."""

    def __init__(
        self, world: World, routes: Routes, broker: BrokerAddress, client_id: str, account: BrokerAccount
    ) -> None:
        """Make one for a lone broker, which asks over the producer's connection."""
        self._world = world
        self._client_id = client_id
        self._account = account
        self._asked: deque[RemotingCommand] = deque()
        self._more = world.tasks.signal(f"asked {client_id}")
        routes.on_request = self._on_request
        self._client = routes.client(broker)

    def start(self) -> None:
        """Begin to say who it is, and to answer what it is asked."""
        self._world.tasks.spawn(f"heartbeat {self._client_id}", self._beat)
        self._world.tasks.spawn(f"decide {self._client_id}", self._answer)

    def _on_request(self, request: RemotingCommand) -> None:
        """Take note of what the broker asks; the task that receives must not wait."""
        if request.code == RequestCode.CHECK_TRANSACTION_STATE:
            self._asked.append(request)
            self._more.notify()

    def decide(self, name: str, queue_offset: int, log_offset: int, *, asked: bool) -> None:
        """Say what is to become of a half message, if that gets through."""
        transactions = self._account.ledger.transactions
        transaction = transactions.by_name.get(name)
        assert transaction is not None, f"asked about {name}, which nobody sent"
        commits = transaction.behaviour.commits
        decision = TRANSACTION_COMMIT if commits else TRANSACTION_ROLLBACK
        transactions.ask(transaction, commits=commits, now_ns=self._world.clock.monotonic_ns())
        self._account.hits["decided when asked"] += asked
        command = end_transaction_command(name, queue_offset, log_offset, decision, asked=asked)
        with suppress(OSError):
            self._client.send_one_way(command, _ANSWER_MS)

    def _beat(self) -> None:
        while True:
            with suppress(OSError):
                self._client.invoke(producer_heartbeat(self._client_id), _ANSWER_MS)
            self._world.tasks.sleep(HEARTBEAT_MS)

    def _answer(self) -> None:
        while True:
            while not self._asked:
                self._more.wait(None)
            fields = self._asked.popleft().ext_fields
            offsets = int(fields["tranStateTableOffset"]), int(fields["commitLogOffset"])
            self.decide(fields["transactionId"], *offsets, asked=True)


class Producer:
    """Sends what it is given. Its machine may die in the midst of a send; on the next one it sends that again."""

    def __init__(
        self,
        plan: Plan,
        number: int,
        machine: ClientMachine,
        routes: Callable[[World], Routes],
        accounts: Mapping[str, BrokerAccount],
        stream: Stream,
        headers: Stream,
        report: Callable[[Iterable[Violation]], None],
    ) -> None:
        """Make a producer.

        routes: makes what a machine knows of brokers; accounts: of each broker, by its name; headers: from which flags
        and times are drawn.
        """
        self.insists = False
        """Whether it gives nothing up any more."""
        self.answered_us: list[int] = []
        """How long each send took that was answered SUCCESS."""
        self._plan = plan
        self._number = number
        self._machine = machine
        self._make_routes = routes
        self._accounts = accounts
        self.drawn = 0
        """How many messages it has begun with."""
        self._stream = stream
        self._headers = headers
        self._host = Host.of_address(f"{machine.host}:0")
        self._report = report
        self._names: deque[str] = deque()
        """What is to be sent."""
        self._next: DrawnMessage | None = None
        """The first of these, if it has been begun with."""
        self._tries = 0
        """How often that was sent."""
        self._skew = EVEN
        self._turn = number
        self._failed = ""
        """The name of the broker that has not answered SUCCESS the last time; empty if it has."""
        machine.begin = self._begin
        machine.switch_on()

    @property
    def waiting(self) -> int:
        """Return how many messages it was given that are neither answered nor given up."""
        return len(self._names)

    def give(self, names: Iterable[str], skew: Skew) -> None:
        """Have more messages sent, and all from now on with that skew; without any, queues take turns."""
        self._names += names
        self._skew = skew
        self._more.notify()

    def _begin(self, world: World) -> None:
        """Send from a new machine."""
        self._world = world
        self._more = world.tasks.signal(f"producer {self._number}")
        self._routes = routes = self._make_routes(world)
        self._listener: TransactionListener | None = None
        if self._plan.transactions.chance:
            assert routes.lone is not None, "half messages are for a lone broker"
            self._listener = TransactionListener(
                world, routes, routes.lone, f"producer-{self._number}", self._accounts[routes.lone.broker]
            )
            self._listener.start()
        routes.start([topic_of_users(number) for number in range(self._plan.topics)])
        world.tasks.spawn("send", self._run)

    def _run(self) -> None:
        while True:
            while not self._names:
                self._more.wait(None)
            if self._next is None:
                self._next, self._tries = self._drawn(self._names[0]), 0
            self._send(self._next)
            self._names.popleft()
            self._next = None

    def _drawn(self, name: str) -> DrawnMessage:
        """Draw a message; pause maybe."""
        plan, stream, tasks = self._plan, self._stream.within(name), self._world.tasks
        if stream.chance(plan.pauses.chance, "pause"):
            tasks.sleep(stream.between(1, plan.pauses.ms_max, "ms of a pause"))
        topic_number, queue_id = self._skew.place(stream, plan)
        # a segment has room for the message, but maybe not for the same one that is sent back, with more properties
        size_bytes = min(plan.messages.body_bytes_max, plan.commit_log_bytes - _BESIDE_BODY_BYTES)
        if not plan.messages.equal_sizes:
            size_bytes = stream.between(0, size_bytes, "body bytes")
        is_half = stream.chance(plan.transactions.chance, "is a half message")
        commits = is_half and not stream.chance(_ROLLBACK_CHANCE, "is rolled back")
        self.drawn += 1
        return DrawnMessage(
            name,
            body_of(name, size_bytes),
            topic_of_users(topic_number),
            None if self._skew == EVEN else queue_id,
            draw_options(stream, plan, is_half=is_half),
            Behaviour(commits, None, False, 0, 0, 0) if is_half else None,
            draw_given(self._headers.within(name), 0, one_size=True)._replace(born_host=self._host),
            stream,
        )

    def _send(self, message: DrawnMessage) -> None:
        tries = 0
        while not self._try(message):
            tries += 1
            if tries >= self._plan.broker.sends_max and not self.insists:
                return
            self._world.tasks.sleep(_RETRY_MS)

    def _try(self, message: DrawnMessage) -> bool:
        """Send a message once, to its queue or to the one whose turn it is; return whether it was answered SUCCESS."""
        queues, clock = self._plan.queues_per_topic, self._world.clock
        broker = self._routes.to_send(message.topic, self._turn, self._failed)
        if broker is None:
            return False
        account = self._accounts[broker.broker]
        account.hits["sent to another broker"] += self._failed not in ("", broker.broker)
        self._failed = broker.broker
        queue_id = message.queue_id
        if queue_id is None:
            queue_id, self._turn = self._turn % queues, self._turn + 1
        self._tries += 1
        host, began_ns = Host.of_address(broker.address), clock.monotonic_ns()
        put = message.put(self._tries, queue_id, now_ns=began_ns, now_ms=clock.now_ms(), store_host=host)
        ledger = account.ledger
        ledger.ask(put)
        if message.behaviour is not None:
            ledger.transactions.prepare(put.name, message.behaviour).is_insisted_on = self.insists
        asked_in = ledger.life
        try:
            self._machine.may_die("in a send")
            command = send_command(put, queues, {"WAIT": "true", **message.properties(put.name)})
            response = self._routes.client(broker).invoke(command, self._plan.broker.send_timeout_ms)
        except OSError:
            return False
        finally:
            put.over_in = ledger.life
        now_ns = clock.monotonic_ns()
        self._report(note_answer(account, put, response, asked_in=asked_in, now_ns=now_ns))
        if response.code != ResponseCode.SUCCESS:
            return False
        self._failed = ""
        self.answered_us.append((now_ns - began_ns) // 1000)
        if message.behaviour is not None and not message.stream.chance(_WAITS_CHANCE, "waits to be asked"):
            assert self._listener is not None, "there are half messages"
            _, log_offset = decode_message_id(response.ext_fields["msgId"])
            self._listener.decide(put.name, int(response.ext_fields["queueOffset"]), log_offset, asked=False)
        return True
