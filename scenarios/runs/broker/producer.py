"""A simulated producer: it sends one message after another, each again until it is answered or given up.

Beside it stands a transaction listener, which decides half messages, at once or when it is asked about them. What it
decides of a message it has decided before it sends it, and never changes; what it says may be lost.
"""

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress

from ....sim.choices import Stream
from ....store.broker.requests import RequestCode, ResponseCode
from ....store.formats.host import Host, decode_message_id
from ....store.formats.message import TRANSACTION_COMMIT, TRANSACTION_ROLLBACK
from ....store.formats.remoting.command import RemotingCommand
from ....store.world import World
from ...claims.plan import Plan
from ...oracle.evidence import Violation
from ...workload.options import draw_given
from ...workload.skew import EVEN, Skew
from .client_ledger import ClientLedger
from .client_machine import ClientMachine
from .commands import HEARTBEAT_MS, end_transaction_command, producer_heartbeat, send_command
from .message_options import draw_options
from .routes import BrokerAddress, Routes
from .sent_messages import MessagePlace, Send, body_of, topic_of_users

_RETRY_MS = 50
_ANSWER_MS = 3_000
_ROLLBACK_CHANCE = 0.3
_WAITS_CHANCE = 0.3
_REFUSED = (
    ResponseCode.SYSTEM_BUSY,
    ResponseCode.MESSAGE_ILLEGAL,
    ResponseCode.SERVICE_NOT_AVAILABLE,
    ResponseCode.NO_PERMISSION,
    ResponseCode.TOPIC_NOT_EXIST,
)
"""Answers which say that nothing was stored."""


class TransactionListener:
    """Decides the transactions of one producer's group; whoever of the group is asked, the answer is the same."""

    def __init__(
        self, world: World, routes: Routes, broker: BrokerAddress, client_id: str, ledger: ClientLedger
    ) -> None:
        """Make one for a lone broker, which asks over the producer's connection."""
        self._world = world
        self._client_id = client_id
        self._ledger = ledger
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
        send = self._ledger.sends.get(name)
        assert send is not None, f"asked about {name}, which nobody sent"
        decision = TRANSACTION_COMMIT if send.commits else TRANSACTION_ROLLBACK
        if send.commits:
            send.maybe += 1
        self._ledger.hits["decided when asked"] += asked
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
        ledgers: Mapping[str, ClientLedger],
        stream: Stream,
        headers: Stream,
        report: Callable[[Iterable[Violation]], None],
    ) -> None:
        """Make a producer.

        routes: makes what a machine knows of brokers; ledgers: of each broker, by its name, of the same messages;
        headers: from which flags and times are drawn.
        """
        self.insists = False
        """Whether it gives nothing up any more."""
        self.answered_us: list[int] = []
        """How long each send took that was answered SUCCESS."""
        self._plan = plan
        self._number = number
        self._machine = machine
        self._make_routes = routes
        self._ledgers = ledgers
        self._ledger = next(iter(ledgers.values()))
        self._stream = stream
        self._headers = headers
        self._host = Host.of_address(f"{machine.host}:0")
        self._report = report
        self._names: deque[str] = deque()
        """What is to be sent."""
        self._next: tuple[Send, str, int | None, Stream] | None = None
        """The first of these, if it has been begun with."""
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
            self._listener = TransactionListener(world, routes, routes.lone, f"producer-{self._number}", self._ledger)
            self._listener.start()
        routes.start([topic_of_users(number) for number in range(self._plan.topics)])
        world.tasks.spawn("send", self._run)

    def _run(self) -> None:
        while True:
            while not self._names:
                self._more.wait(None)
            if self._next is None:
                self._next = self._drawn(self._names[0])
            self._send(*self._next)
            self._names.popleft()
            self._next = None

    def _drawn(self, name: str) -> tuple[Send, str, int | None, Stream]:
        """Return a message, its topic, its queue if none has its turn, and what is left to chance; pause maybe."""
        plan, stream, tasks = self._plan, self._stream.within(name), self._world.tasks
        if stream.chance(plan.pauses.chance, "pause"):
            tasks.sleep(stream.between(1, plan.pauses.ms_max, "ms of a pause"))
        topic_number, queue_id = self._skew.place(stream, plan)
        topic = topic_of_users(topic_number)
        size_bytes = plan.messages.body_bytes_max
        if not plan.messages.equal_sizes:
            size_bytes = stream.between(0, plan.messages.body_bytes_max, "body bytes")
        is_half = stream.chance(plan.transactions.chance, "is a half message")
        commits = is_half and not stream.chance(_ROLLBACK_CHANCE, "is rolled back")
        send = self._ledger.begin(name, body_of(name, size_bytes), is_half=is_half, commits=commits)
        send.options = draw_options(stream, plan, is_half=is_half)
        given = draw_given(self._headers.within(name), 0, one_size=True)
        send.given = given._replace(born_host=self._host)
        return send, topic, None if self._skew == EVEN else queue_id, stream

    def _send(self, send: Send, topic: str, queue_id: int | None, stream: Stream) -> None:
        tries = 0
        while not self._try(send, topic, queue_id, stream):
            tries += 1
            if tries >= self._plan.broker.sends_max and not self.insists:
                return
            self._world.tasks.sleep(_RETRY_MS)

    def _try(self, send: Send, topic: str, queue_id: int | None, stream: Stream) -> bool:
        """Send a message once, to a queue or to the one whose turn it is; return whether it was answered SUCCESS."""
        queues, clock = self._plan.queues_per_topic, self._world.clock
        broker = self._routes.to_send(topic, self._turn, self._failed)
        if broker is None:
            return False
        ledger = self._ledgers[broker.broker]
        ledger.hits["sent to another broker"] += self._failed not in ("", broker.broker)
        self._failed = broker.broker
        if queue_id is None:
            queue_id, self._turn = self._turn % queues, self._turn + 1
        half_of = send.name if send.is_half else None
        # a half message is asked about by its age
        ago_ms = 0 if send.is_half else -send.given.born_timestamp_ms
        given = send.given._replace(born_timestamp_ms=clock.now_ms() - ago_ms)
        send.born_ms.append(given.born_timestamp_ms)
        command = send_command(topic, queue_id, queues, send.body, given, options=send.options, half_of=half_of)
        asked_in, may_be_there = ledger.life, not send.is_half
        send.maybe += may_be_there  # from now on
        began_ns = clock.monotonic_ns()
        if send.asked_ns is None:
            send.asked_ns = began_ns
        self._machine.may_die("in a send")
        try:
            response = self._routes.client(broker).invoke(command, self._plan.broker.send_timeout_ms)
        except OSError:
            return False
        if response.code in _REFUSED:
            send.maybe -= may_be_there
        if response.code != ResponseCode.SUCCESS:
            return False
        self._failed = ""
        send.maybe -= may_be_there
        self.answered_us.append((clock.monotonic_ns() - began_ns) // 1000)
        fields = response.ext_fields
        place = MessagePlace(topic, int(fields["queueId"]), int(fields["queueOffset"]))
        _, log_offset = decode_message_id(fields["msgId"])
        if send.is_half:
            send.is_insisted_on = self.insists
            ledger.answer_half(send, log_offset, asked_in=asked_in)
            if not stream.chance(_WAITS_CHANCE, "waits to be asked"):
                assert self._listener is not None, "there are half messages"
                self._listener.decide(send.name, place.queue_offset, log_offset, asked=False)
            return True
        if send.options.delay_level:
            ledger.answer_delayed(send, log_offset, asked_in=asked_in)
            return True
        now_ns = clock.monotonic_ns()
        self._report(ledger.answer(self._number, send, place, log_offset, asked_in=asked_in, now_ns=now_ns))
        return True
