"""Tailing consumer: follows one queue from its end, in a group of its own.

If light queues are enabled, its group is the group of a light queue, and each pull commits its offset. Otherwise the
group has no offsets. The pulls of a tailing consumer wait for the same messages as other pulls. Each pull must be
answered when the message arrives.
"""

from collections.abc import Callable, Iterable

from ....store.broker.broker_config import MASTER_ID
from ....store.broker.requests import ResponseCode
from ....store.formats.remoting.command import RemotingCommand
from ....store.world import World
from ...claims.plan import Plan
from ...oracle.evidence import Violation
from ...oracle.light_places import LIGHT_PREFIX
from ...workload.drawing import topic_of_users
from .account import BrokerAccount
from .answers import PULLED, TimedPull, check_pull
from .client_machine import ClientMachine
from .commands import max_offset_command, pull_command
from .consumer import PATIENCE_MS, RETRY_MS, BrokerQueue
from .routes import BrokerAddress, Routes

_SUSPEND_MS = 5_000
"""How long the broker holds a pull. The time is long, because most pulls of a run find no message."""

_NOT_HELD_MS = 1_000
_HELD_NS_MIN = 100_000_000


def tailing_group(plan: Plan, number: int) -> str:
    return f"{LIGHT_PREFIX if plan.light_queues.chance else ''}tailing-{number}"


class TailingConsumer:
    """Pulls one queue. On a new machine, or if the broker lacks the offset, it restarts at the queue's end."""

    def __init__(
        self,
        plan: Plan,
        machine: ClientMachine,
        routes: Callable[[World], Routes],
        account: BrokerAccount,
        queue: BrokerQueue,
        group: str,
        report: Callable[[Iterable[Violation]], None],
    ) -> None:
        self._most = plan.broker.pull_messages_max
        self._commits = plan.light_queues.chance > 0
        self._topics = [topic_of_users(number) for number in range(plan.topics)]
        self._make_routes = routes
        self._account = account
        self._queue = queue
        self._group = group
        self._report = report
        self._machine = machine
        machine.begin = self._begin_on_machine
        machine.switch_on()

    def _begin_on_machine(self, world: World) -> None:
        self._world = world
        self._routes = self._make_routes(world)
        self._routes.start(self._topics)
        world.tasks.spawn(f"tail {self._queue}", self._pull_repeatedly)

    def _pull_repeatedly(self) -> None:
        position: int | None = None
        while True:
            asked = self._routes.broker_to_pull_from(self._queue.broker, self._queue.topic, MASTER_ID)
            following = None
            if asked is not None and not asked.is_slave:
                following = self._find_end(asked) if position is None else self._pull_once(asked, position)
            if following is None:
                self._world.tasks.sleep(RETRY_MS)
            position = following

    def _find_end(self, asked: BrokerAddress) -> int | None:
        response, _ = self._send_request(asked, max_offset_command(*self._queue.queue), PATIENCE_MS)
        if response is None or response.code != ResponseCode.SUCCESS:
            return None
        return int(response.ext_fields["offset"])

    def _pull_once(self, asked: BrokerAddress, position: int) -> int | None:
        """Return the next offset, None without an answer or if the broker lacks the offset."""
        account, queue, asked_in = self._account, self._queue.queue, self._account.ledger.life
        before, began_ns = account.pulls.known_bounds(queue), self._world.clock.monotonic_ns()
        command = pull_command(
            *queue,
            position,
            account.subscription,
            most=self._most,
            suspend_ms=_SUSPEND_MS,
            commit=self._commits,
            group=self._group,
        )
        response, sent_ns = self._send_request(asked, command, _SUSPEND_MS + PATIENCE_MS)
        if response is None:
            return None
        if asked_in == account.ledger.life:
            pull = TimedPull(queue, position, self._machine.host, _SUSPEND_MS, began_ns, sent_ns)
            self._report(pull.check_times(account, response, self._world.clock.monotonic_ns()))
            self._report(check_pull(account, queue, position, response, before, account.subscription))
        if response.code in PULLED:
            account.ledger.groups.add(self._group)
        if response.code not in (ResponseCode.SUCCESS, ResponseCode.PULL_NOT_FOUND):
            return None
        self._machine.die_by_chance("between two pulls")
        if response.code == ResponseCode.PULL_NOT_FOUND and self._world.clock.monotonic_ns() < sent_ns + _HELD_NS_MIN:
            self._world.tasks.sleep(_NOT_HELD_MS)  # the broker holds no more pulls
        return int(response.ext_fields["nextBeginOffset"])

    def _send_request(
        self, asked: BrokerAddress, command: RemotingCommand, timeout_ms: int
    ) -> tuple[RemotingCommand | None, int]:
        try:
            return self._routes.send_request(asked, command, timeout_ms)
        except OSError:
            return None, 0
