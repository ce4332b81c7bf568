"""Light reader: reads one light queue through a broker, from the committed offset of a light group on.

Each message must have the offset that its properties name for the queue, and no offset is left out (READ). The group
commits like others (META, REDEL), and reaches the end of the queue once faults have ended (LIVE).
Source: RocketMQ PullMessageProcessor and LmqTopicConfigManager, the queues of its MQTT broker.
"""

from ....store.broker.requests import RequestCode, ResponseCode
from ...oracle.evidence import Violation, record_tried
from ...oracle.group_delivery import Queue
from ...oracle.invariants import delivery
from ...oracle.invariants.lookups import QueueBounds
from ...oracle.light_places import LIGHT_PREFIX
from ...workload.options import LIGHT_NAMES
from .answers import PULLED, bounds_of_pull
from .broker_user import BrokerUser, Reply, UserContext
from .commands import make_request, query_offset_command, update_offset_command
from .consumer import RETRY_MS

LIGHT_READERS_NET = 140
"""The last byte of the address of the first light reader."""
_SUSPEND_MS, _IDLE_MS = 5_000, 1_000
_NAMES = tuple(name for name in LIGHT_NAMES if name.startswith(LIGHT_PREFIX))


def light_reader_group(number: int) -> str:
    return f"{LIGHT_PREFIX}reader-{number}"


class LightReader(BrokerUser):
    """Pulls one light queue at a master, and commits each position."""

    def __init__(self, run: UserContext, number: int) -> None:
        super().__init__(run, light_reader_group(number), LIGHT_READERS_NET + number)
        self._queue: Queue = self.stream.choice(_NAMES, "light queue"), 0
        self._broker = self.stream.choice(sorted(run.accounts), "broker")
        self._account = run.accounts[self._broker]
        self._given = self.received_messages()[self._broker]
        self._done = 0
        """The offset after the last processed message."""
        self.machine.switch_on()

    def begin(self) -> None:
        self.world.tasks.spawn(f"read {self._queue[0]}", self._read)

    def _read(self) -> None:
        position: int | None = None
        while True:
            position = self._find_position() if position is None else self._pull_once(position)
            if position is None:
                self.world.tasks.sleep(RETRY_MS)
            else:
                self._done = position

    def _look_at_bounds(self) -> None:
        """Ask for the bounds of the queue, which has no topic."""
        pulls = self._account.pulls
        before, bounds = pulls.known_bounds(self._queue), []
        for code in (RequestCode.GET_MIN_OFFSET, RequestCode.GET_MAX_OFFSET):
            reply = self.ask(self._broker, make_request(code, topic=self._queue[0], queueId=self._queue[1]))
            if reply is None or not reply.is_success or not reply.is_of_this_life:
                return
            bounds.append(reply.field("offset"))
        self.run.report(pulls.check_bounds(self._queue, QueueBounds(*bounds), before))

    def _find_position(self) -> int | None:
        commits = self._account.ledger.commits
        asked_in, group = commits.life, (self.name, *self._queue)
        reply = self.ask(self._broker, query_offset_command(*self._queue, self.name))
        if reply is None:
            return None
        if reply.response.code == ResponseCode.QUERY_NOT_FOUND:
            found = delivery.check_missing_group_offset(commits, group, asked_in=asked_in, begins_at_zero=False)
            self.run.report(found)
            return 0
        if not reply.is_success:
            return None
        offset = reply.field("offset")
        self.run.report(delivery.check_group_offset(commits, group, offset, asked_in=asked_in))
        return offset

    def _pull_once(self, position: int) -> int | None:
        """Pull and commit. Return the next offset; None without an answer."""
        account, asked_in = self._account, self._account.ledger.life
        pulled = self.pull(self._broker, self._queue, position, _SUSPEND_MS, self.name)
        if pulled is None:
            return None
        _, reply, readings = pulled
        if reply.response.code not in PULLED:
            self._judge_refusal(reply)
            return None
        bounds = bounds_of_pull(reply.response)
        if reply.is_success:
            account.hits["light queue read"] += 1
            answered = [(None, reading) for reading in readings]
            self._given.judge_answer(self._queue, position, answered, bounds, asked_in)
            self.machine.die_by_chance("with messages of a light queue")
            self._commit(bounds.next_begin_offset)
        else:
            self._look_at_bounds()
            self.world.tasks.sleep(_IDLE_MS)  # the broker may hold no more pulls
        return bounds.next_begin_offset

    def _judge_refusal(self, reply: Reply) -> None:
        """A light queue needs no topic, and exists before its first message."""
        record_tried("STATUS")
        if reply.response.code == ResponseCode.TOPIC_NOT_EXIST:
            summary = f"a pull of {self._queue[0]} is refused"
            self.run.report([Violation("STATUS", summary, field="code", expected="none", found="TOPIC_NOT_EXIST")])

    def _commit(self, offset: int) -> None:
        commits = self._account.ledger.commits
        with commits.committing((self.name, *self._queue), offset, self.world.clock.monotonic_ns) as commit:
            reply = self.ask(self._broker, update_offset_command(*self._queue, offset, self.name))
            commit.is_answered = reply is not None and reply.is_success

    def unfinished_text(self) -> str:
        store = self.run.master_store(self._broker)
        end = 0 if store is None else store.get_max_offset_in_queue(*self._queue)
        return f"{self._queue[0]} of {self.name} {self._done} of {end}" if self._done < end else ""
