"""A simulated consumer: it has some queues to itself and pulls them as RocketMQ's push consumer does.

Its machine may die with messages in hand. Then it goes on with another one from where the group has committed, or
another member of the group does.
"""

from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from functools import partial

from ....store.broker.remoting_client import RemotingClient
from ....store.broker.requests import ResponseCode
from ....store.formats.remoting.command import RemotingCommand
from ....store.world import World
from ...claims.plan import Plan
from ...oracle.evidence import Violation
from .client_ledger import ClientLedger, MessagePlace
from .client_machine import ClientMachine
from .commands import (
    CONSUMER_GROUP,
    HEARTBEAT_MS,
    consumer_heartbeat,
    pull_command,
    pulled_records,
    query_offset_command,
    update_offset_command,
)
from .message_options import EVERYTHING
from .pull_times import Queue

_RETRY_MS = 100
_BREATH_MS = 10
"""Between two pulls that find nothing, so that time passes."""
PATIENCE_MS = 3_000
"""How much longer than a pull may be held its answer may take."""
_PULLED = (
    ResponseCode.SUCCESS,
    ResponseCode.PULL_NOT_FOUND,
    ResponseCode.PULL_RETRY_IMMEDIATELY,
    ResponseCode.PULL_OFFSET_MOVED,
)
"""Answers of a broker that has carried a pull out, and has noted the offset that came along."""


class BrokerConsumer:
    """Pulls its queues, each in a task, from where the group has committed on; commits what it was given."""

    def __init__(
        self,
        plan: Plan,
        machine: ClientMachine,
        address: str,
        ledger: ClientLedger,
        queues: Sequence[Queue],
        report: Callable[[Iterable[Violation]], None],
    ) -> None:
        self.positions: dict[Queue, int | None] = dict.fromkeys(queues)
        """What it wants next of each queue; None: it is about to ask where the group is."""
        self.insists = False
        """Whether each of its requests is to be answered in time from now on."""
        self._plan = plan
        self._machine = machine
        self._address = address
        self._ledger = ledger
        self._report = report
        machine.begin = self._begin
        machine.switch_on()

    def _begin(self, world: World) -> None:
        """Pull from a new machine."""
        self._world = world
        self._client = RemotingClient(world, self._address)
        self.restart()
        for queue in self.positions:
            self._start(queue)
        if self._plan.broker.client_death_chance:
            world.tasks.spawn("heartbeat", self._beat)

    def _beat(self) -> None:
        topics = sorted({topic for topic, _ in self.positions})
        command = consumer_heartbeat(self._machine.host, topics, self._ledger.subscription)
        while True:
            self._invoke(command, PATIENCE_MS)
            self._world.tasks.sleep(HEARTBEAT_MS)

    def _start(self, queue: Queue) -> None:
        self._world.tasks.spawn(f"pull {queue[0]}/{queue[1]}", partial(self._consume, queue))

    def restart(self) -> None:
        """Forget how far it came; what was committed counts."""
        for queue in self.positions:
            self.positions[queue] = None

    def hand_over(self, other: "BrokerConsumer") -> None:
        """Have another member of the group take its queues over, now that its machine is off."""
        queues = list(self.positions)
        self.positions.clear()
        for queue in queues:
            other.positions[queue] = None
            if other._machine.is_on:
                other._start(queue)

    def _consume(self, queue: Queue) -> None:
        while True:
            position = self.positions[queue]
            if position is None:
                position = self.positions[queue] = self._find_position(queue)
            self._pull(queue, position)

    def _find_position(self, queue: Queue) -> int:
        """Ask what the group has committed, until that is answered."""
        while True:
            asked_in = self._ledger.life
            response = self._invoke(query_offset_command(*queue), PATIENCE_MS)
            if response is not None and response.code == ResponseCode.QUERY_NOT_FOUND:
                return 0
            if response is not None and response.code == ResponseCode.SUCCESS:
                offset = int(response.ext_fields["offset"])
                self._report(self._ledger.check_commit(queue, offset, asked_in=asked_in))
                return offset
            self._world.tasks.sleep(_RETRY_MS)

    def _pull(self, queue: Queue, position: int) -> None:
        broker, tasks = self._plan.broker, self._world.tasks
        commits = broker.commits_with_pulls
        most, suspend_ms = broker.pull_messages_max, broker.suspend_ms
        wanted = self._ledger.subscription
        command = pull_command(*queue, position, wanted, most=most, suspend_ms=suspend_ms, commit=commits)
        asked_in, is_made = self._ledger.life, queue[0] in self._ledger.topics
        with self._ledger.committing(queue, position) if commits else nullcontext() as commit:
            response, sent_ns = self._timed(command, suspend_ms + PATIENCE_MS)
            if commit is not None and response is not None:
                commit.is_answered = response.code in _PULLED
        if response is None:
            tasks.sleep(_RETRY_MS)
            return
        if response.code in _PULLED:
            self._ledger.groups.add(CONSUMER_GROUP)
        if asked_in == self._ledger.life:
            now_ns = self._world.clock.monotonic_ns()
            times, body_bytes = self._ledger.pull_times, len(response.body)
            self._report(times.check(queue, position, sent_ns=sent_ns, now_ns=now_ns, body_bytes=body_bytes))
        if response.code == ResponseCode.SUCCESS:
            self._take(queue, position, response, asked_in)
            return
        if response.code == ResponseCode.TOPIC_NOT_EXIST and is_made:  # when that was asked
            self._report(self._ledger.check_topic(queue[0]))
        tasks.sleep(_BREATH_MS if response.code == ResponseCode.PULL_NOT_FOUND else _RETRY_MS)
        if response.code in (ResponseCode.PULL_OFFSET_MOVED, ResponseCode.PULL_RETRY_IMMEDIATELY):
            self._move(queue, position, int(response.ext_fields["nextBeginOffset"]))

    def _take(self, queue: Queue, position: int, response: RemotingCommand, asked_in: int) -> None:
        """Take messages in: each is the next of its queue, or of those that are wanted."""
        following, given = position, []
        passes_over = self._ledger.subscription is not EVERYTHING
        for record in pulled_records(response.body):
            place = MessagePlace(record.topic, record.queue_id, record.queue_offset)
            is_behind = passes_over and place[:2] == queue and place.queue_offset > following
            if place != (*queue, following) and not is_behind:
                facts = ("", -1, "next message", str(MessagePlace(*queue, following)), str(place))
                self._report([Violation("READ", "a pull skips or repeats", *facts)])
            now_ns = self._world.clock.monotonic_ns()
            shown = (place, record.body, record.physical_offset)
            self._report(self._ledger.show(*shown, asked_in=asked_in, now_ns=now_ns))
            given.append(place)
            following = place.queue_offset + 1
        if passes_over:
            following = max(following, int(response.ext_fields["nextBeginOffset"]))
        self._machine.may_die("with messages in hand")
        if self._plan.broker.work_ms:
            self._world.tasks.sleep(self._plan.broker.work_ms)
        self._ledger.deal_with(given)
        self._move(queue, position, following)
        if not self._plan.broker.commits_with_pulls:
            with self._ledger.committing(queue, following) as commit:
                answer = self._invoke(update_offset_command(*queue, following), PATIENCE_MS)
                commit.is_answered = answer is not None and answer.code == ResponseCode.SUCCESS

    def _move(self, queue: Queue, before: int, after: int) -> None:
        """Go on elsewhere, unless it was restarted meanwhile."""
        self._ledger.pass_over(queue, after)
        if self.positions[queue] == before:
            self.positions[queue] = after

    def _invoke(self, command: RemotingCommand, timeout_ms: int) -> RemotingCommand | None:
        return self._timed(command, timeout_ms)[0]

    def _timed(self, command: RemotingCommand, timeout_ms: int) -> tuple[RemotingCommand | None, int]:
        """Return the response to a request, None if none came, and when it was sent: connecting may take a while."""
        insisted, sent_ns = self.insists, 0
        try:
            invocation = self._client.begin(command, timeout_ms)
            sent_ns = self._world.clock.monotonic_ns()
            return invocation.wait(timeout_ms), sent_ns
        except OSError as error:
            if insisted and isinstance(error, TimeoutError):
                summary = f"a request of a consumer is not answered in {timeout_ms} ms"
                self._report([Violation("LIVE", summary, field="answer", expected="one", found=str(error))])
            return None, sent_ns
