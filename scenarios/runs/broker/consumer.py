"""A simulated consumer: it has some queues to itself and pulls them as RocketMQ's push consumer does."""

from collections.abc import Callable, Iterable, Sequence
from functools import partial

from ....store.broker.remoting_client import RemotingClient
from ....store.broker.requests import ResponseCode
from ....store.formats.remoting.command import RemotingCommand
from ....store.world import World
from ...claims.plan import Plan
from ...oracle.evidence import Violation
from .client_ledger import ClientLedger, MessagePlace, Queue
from .commands import pull_command, pulled_records, query_offset_command, update_offset_command

_RETRY_MS = 100
_BREATH_MS = 10
"""Between two pulls that find nothing, so that time passes."""
_PATIENCE_MS = 3_000
"""How much longer than a pull may be held its answer may take."""


class BrokerConsumer:
    """Pulls its queues, each in a task, from where the group has committed on; commits what it was given."""

    def __init__(
        self,
        plan: Plan,
        world: World,
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
        self._world = world
        self._client = RemotingClient(world, address)
        self._ledger = ledger
        self._report = report

    def start(self) -> None:
        """Begin to pull."""
        for queue in self.positions:
            self._world.tasks.spawn(f"pull {queue[0]}/{queue[1]}", partial(self._consume, queue))

    def restart(self) -> None:
        """Forget how far it came; what was committed counts."""
        for queue in self.positions:
            self.positions[queue] = None

    def _consume(self, queue: Queue) -> None:
        while True:
            position = self.positions[queue]
            if position is None:
                position = self.positions[queue] = self._find_position(queue)
            self._pull(queue, position)

    def _find_position(self, queue: Queue) -> int:
        """Ask what the group has committed, until that is answered."""
        while True:
            response = self._invoke(query_offset_command(*queue), _PATIENCE_MS)
            if response is not None and response.code == ResponseCode.QUERY_NOT_FOUND:
                return 0
            if response is not None and response.code == ResponseCode.SUCCESS:
                offset = int(response.ext_fields["offset"])
                self._report(self._ledger.check_commit(queue, offset))
                return offset
            self._world.tasks.sleep(_RETRY_MS)

    def _pull(self, queue: Queue, position: int) -> None:
        broker, tasks = self._plan.broker, self._world.tasks
        commits = broker.commits_with_pulls
        most, suspend_ms = broker.pull_messages_max, broker.suspend_ms
        command = pull_command(*queue, position, most=most, suspend_ms=suspend_ms, commit=commits)
        asked_in = self._ledger.life
        if commits:
            self._ledger.commit(queue, position)
        response = self._invoke(command, suspend_ms + _PATIENCE_MS)
        if response is None:
            tasks.sleep(_RETRY_MS)
            return
        if commits:
            self._ledger.answer_commit(queue, position, asked_in=asked_in)
        if response.code == ResponseCode.SUCCESS:
            self._take(queue, position, response, asked_in)
            return
        tasks.sleep(_BREATH_MS if response.code == ResponseCode.PULL_NOT_FOUND else _RETRY_MS)
        if response.code in (ResponseCode.PULL_OFFSET_MOVED, ResponseCode.PULL_RETRY_IMMEDIATELY):
            self._move(queue, position, int(response.ext_fields["nextBeginOffset"]))

    def _take(self, queue: Queue, position: int, response: RemotingCommand, asked_in: int) -> None:
        """Take messages in: each is the next of its queue."""
        wanted = position
        for record in pulled_records(response.body):
            place = MessagePlace(record.topic, record.queue_id, record.queue_offset)
            if place != (*queue, wanted):
                facts = ("", -1, "next message", str(MessagePlace(*queue, wanted)), str(place))
                self._report([Violation("READ", "a pull skips or repeats", *facts)])
            self._report(self._ledger.show(place, record.body, record.physical_offset, asked_in=asked_in))
            wanted += 1
        self._move(queue, position, wanted)
        if not self._plan.broker.commits_with_pulls:
            asked_in = self._ledger.life
            self._ledger.commit(queue, wanted)
            if self._invoke(update_offset_command(*queue, wanted), _PATIENCE_MS) is not None:
                self._ledger.answer_commit(queue, wanted, asked_in=asked_in)

    def _move(self, queue: Queue, before: int, after: int) -> None:
        """Go on elsewhere, unless it was restarted meanwhile."""
        if self.positions[queue] == before:
            self.positions[queue] = after

    def _invoke(self, command: RemotingCommand, timeout_ms: int) -> RemotingCommand | None:
        insisted = self.insists
        try:
            return self._client.invoke(command, timeout_ms)
        except OSError as error:
            if insisted and isinstance(error, TimeoutError):
                summary = f"a request of a consumer is not answered in {timeout_ms} ms"
                self._report([Violation("LIVE", summary, field="answer", expected="one", found=str(error))])
            return None
