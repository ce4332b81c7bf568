"""Broker consumer: pulls a set of queues as RocketMQ's push consumer does.

The consumer's machine may die while it processes messages. The consumer's next machine, or another group member,
then continues at the committed offset.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from functools import partial
from typing import NamedTuple

from ....sim.choices import Stream
from ....sim.errors import MachineDied
from ....store.broker.broker_config import MASTER_ID
from ....store.broker.requests import ResponseCode
from ....store.formats.remoting.command import RemotingCommand
from ....store.message_store import MessageStore
from ....store.world import World
from ...claims.machine import DELAYS_MS
from ...claims.plan import Plan
from ...oracle.evidence import Violation
from ...oracle.given import ReceivedMessages
from ...oracle.group_commits import Commit
from ...oracle.group_delivery import Queue
from ...oracle.invariants import consumers, delivery, live
from ...oracle.invariants.lookups import QueueBounds
from ...oracle.invariants.side_files import check_topic
from ...oracle.reader import ReadRecord, UnreadableError
from ...oracle.returned import SendBackRequest
from ...workload.drawing import topic_of_users
from .account import BrokerAccount
from .answers import PULLED, TimedPull, check_pull
from .client_machine import ClientMachine
from .commands import (
    CONSUMER_GROUP,
    HEARTBEAT_MS,
    consumer_heartbeat,
    pull_command,
    pulled_records,
    query_offset_command,
    send_back_command,
    update_offset_command,
    without_expression,
)
from .message_options import EVERYTHING
from .redirects import LogState, PullAnswer, Redirects, check_slave_answer
from .routes import BROKER, BrokerAddress, Routes

RETRY_MS = 100
_IDLE_MS_MIN, _IDLE_MS_MAX = 10, 640
"""The back-off between two pulls without messages. The back-off doubles, because most pulls find no message."""
PATIENCE_MS = 3_000
"""The time limit for an answer, in addition to the time for which a pull is held."""
_ALL_IN_MEMORY_BYTES = 1 << 30
_RETRIES_MAX = 16
"""The maximum of a group that the broker created."""


class BrokerQueue(NamedTuple):
    """A queue at one broker and its slaves."""

    broker: str
    topic: str
    queue_id: int

    @property
    def queue(self) -> Queue:
        return self.topic, self.queue_id

    def __str__(self) -> str:
        return f"{self.topic}/{self.queue_id}{'' if self.broker == BROKER else f' of {self.broker}'}"


class BrokerConsumer:
    """Pulls each queue in its own task from the committed offset on, and commits its position."""

    def __init__(
        self,
        plan: Plan,
        machine: ClientMachine,
        routes: Callable[[World], Routes],
        accounts: Mapping[str, BrokerAccount],
        queues: Sequence[BrokerQueue],
        stream: Stream,
        report: Callable[[Iterable[Violation]], None],
        find_store: Callable[[BrokerAddress], MessageStore | None],
    ) -> None:
        """accounts: by name of the broker; stream: decides which messages are sent back.

        find_store: returns the store of a broker that runs.
        """
        self.positions: dict[BrokerQueue, int | None] = dict.fromkeys(queues)
        """The next offset to pull; None while the committed offset is unknown."""
        self.insists = False
        """Whether each request must be answered in time from now on."""
        self._plan = plan
        self._machine = machine
        self._make_routes = routes
        self._accounts = accounts
        self._wanted = next(iter(accounts.values())).subscription
        self._stream = stream
        self._report = report
        self._given = {
            name: ReceivedMessages(
                account.ledger,
                report,
                lambda: self._world.clock.monotonic_ns(),
                lambda put: self._wanted.wants(put.properties),
                self._wanted.text,
                account.has_steady_clock,
                account.sync_flush,
                self._wanted is not EVERYTHING,
            )
            for name, account in accounts.items()
        }
        self._redirects = Redirects(plan, find_store)
        self._pulling_in = 0
        """The number of the machine on which all pull tasks were started."""
        machine.begin = self._begin_on_machine
        machine.switch_on()

    def _begin_on_machine(self, world: World) -> None:
        self._world = world
        self._routes = self._make_routes(world)
        self._routes.start(self._topics)
        self._suggested: dict[BrokerQueue, int] = {}
        """The broker id that the last answer suggests: the master or a slave."""
        self._idle_ms: dict[BrokerQueue, int] = {}
        self.restart_at_committed()
        for queue in self.positions:
            self._start_pulling(queue)
        self._pulling_in = self._machine.lives
        filters_in_advance = (
            self._plan.broker.registers_filters or self._plan.broker_settings.enable_calc_filter_bit_map
        )
        if self._plan.broker.client_death_chance or filters_in_advance:
            world.tasks.spawn("heartbeat", self._send_heartbeats)

    @property
    def _topics(self) -> list[str]:
        """All topics. Members of a group must have the same subscriptions, so each names all topics in heartbeats."""
        return [topic_of_users(number) for number in range(self._plan.topics)]

    def _send_heartbeats(self) -> None:
        while True:
            for broker in self._accounts:
                self._send_heartbeat(self._routes.broker_for_offsets(broker, ""))
            self._world.tasks.sleep(HEARTBEAT_MS)

    def _send_heartbeat(self, broker: BrokerAddress | None) -> None:
        command = consumer_heartbeat(self._machine.host, self._topics, self._wanted)
        self._send_request(broker, command, PATIENCE_MS)

    def _start_pulling(self, queue: BrokerQueue) -> None:
        self._world.tasks.spawn(f"pull {queue}", partial(self._consume_queue, queue))

    def restart_at_committed(self) -> None:
        for queue in self.positions:
            self.positions[queue] = None

    def hand_over_queues(self, other: "BrokerConsumer") -> None:
        queues = list(self.positions)
        self.positions.clear()
        for queue in queues:
            other.positions[queue] = None
            if other._machine.is_on and other._pulling_in == other._machine.lives:
                with suppress(MachineDied):  # the machine died between two queues; the next one starts with all queues
                    other._start_pulling(queue)

    def _consume_queue(self, queue: BrokerQueue) -> None:
        while True:
            position = self.positions[queue]
            if position is None:
                position = self.positions[queue] = self._find_position(queue)
            self._pull_repeatedly(queue, position)

    def _find_position(self, queue: BrokerQueue) -> int:
        """Query the committed offset until an answer arrives. A slave's answer may be older."""
        account = self._accounts[queue.broker]
        while True:
            asked_in, asked = account.ledger.life, self._routes.broker_for_offsets(queue.broker, queue.topic)
            response = self._send_request(asked, query_offset_command(*queue.queue), PATIENCE_MS)
            if response is not None and response.code == ResponseCode.QUERY_NOT_FOUND:
                if asked is not None and not asked.is_slave:
                    self._report(self._judge_missing_offset(queue, asked_in))
                return 0
            if asked is not None and response is not None and response.code == ResponseCode.SUCCESS:
                offset = int(response.ext_fields["offset"])
                known_in = None if asked.is_slave else asked_in
                group = (CONSUMER_GROUP, *queue.queue)
                self._report(delivery.check_group_offset(account.ledger.commits, group, offset, asked_in=known_in))
                return offset
            self._world.tasks.sleep(RETRY_MS)

    def _judge_missing_offset(self, queue: BrokerQueue, asked_in: int) -> Iterator[Violation]:
        plan, group = self._plan, (CONSUMER_GROUP, *queue.queue)
        is_in_memory = plan.settings.physical_memory_bytes >= _ALL_IN_MEMORY_BYTES and not plan.broker.slaves_are_read
        begins_at_zero = is_in_memory and not plan.retention.deletes_segments
        commits = self._accounts[queue.broker].ledger.commits
        return delivery.check_missing_group_offset(commits, group, asked_in=asked_in, begins_at_zero=begins_at_zero)

    def _pull_repeatedly(self, queue: BrokerQueue, position: int) -> None:
        account, broker, tasks = self._accounts[queue.broker], self._plan.broker, self._world.tasks
        ledger, most, suspend_ms = account.ledger, broker.pull_messages_max, broker.suspend_ms
        asked = self._routes.broker_to_pull_from(queue.broker, queue.topic, self._suggested.get(queue, MASTER_ID))
        is_slave = asked is not None and asked.is_slave
        commits = broker.commits_with_pulls and not is_slave
        command = pull_command(*queue.queue, position, self._wanted, most=most, suspend_ms=suspend_ms, commit=commits)
        if broker.registers_filters and not is_slave:
            command = without_expression(command)
        began_ns = self._world.clock.monotonic_ns()
        asked_in, is_made, before = ledger.life, queue.topic in ledger.topics, account.pulls.known_bounds(queue.queue)
        log_state = self._redirects.log_state(asked)
        with self._record_commit(queue, position) if commits else nullcontext() as commit:
            response, sent_ns = self._send_timed_request(asked, command, suspend_ms + PATIENCE_MS)
            if commit is not None and response is not None:
                commit.is_answered = response.code in PULLED
        if response is None:
            tasks.sleep(RETRY_MS)
            return
        readings = self._records_in(response) if response.code == ResponseCode.SUCCESS else []
        if response.code in PULLED:
            self._suggested[queue] = int(response.ext_fields["suggestWhichBrokerId"])
            if self._plan.cluster.slaves:
                assert asked is not None, "it has answered"
                self._judge_redirect(queue, asked, position, response, readings, log_state)
            if not is_slave:
                ledger.groups.add(CONSUMER_GROUP)
        if asked_in == ledger.life and not is_slave:
            self._judge_pull(queue, position, response, readings, before, (began_ns, sent_ns))
        if response.code == ResponseCode.SUCCESS:
            account.hits["pulled from a slave"] += is_slave
            self._handle_answer(queue, position, response, readings, asked_in)
            return
        if response.code == ResponseCode.SUBSCRIPTION_NOT_EXIST:
            self._send_heartbeat(asked)
        # `is_made` tells whether the topic existed at the request.
        if response.code == ResponseCode.TOPIC_NOT_EXIST and is_made and not is_slave:
            self._report(check_topic(ledger, queue.topic))
        if response.code in (ResponseCode.PULL_OFFSET_MOVED, ResponseCode.PULL_RETRY_IMMEDIATELY):
            following = int(response.ext_fields["nextBeginOffset"])
            if response.code == ResponseCode.PULL_OFFSET_MOVED and not is_slave:
                account.hits["moved to what is left"] += following > position
            account.group.record_position(queue.queue, following, asked_in=asked_in)
            self._set_position(queue, position, following)  # before the pause, because the broker may die during it
        idle_ms = self._idle_ms.get(queue, _IDLE_MS_MIN)
        self._idle_ms[queue] = min(2 * idle_ms, _IDLE_MS_MAX)
        tasks.sleep(idle_ms if response.code == ResponseCode.PULL_NOT_FOUND else max(idle_ms, RETRY_MS))

    def _judge_redirect(
        self,
        queue: BrokerQueue,
        asked: BrokerAddress,
        position: int,
        response: RemotingCommand,
        readings: Sequence[ReadRecord],
        state: LogState | None,
    ) -> None:
        names = ("suggestWhichBrokerId", "nextBeginOffset", "maxOffset")
        suggested_id, following, max_offset = (int(response.ext_fields[name]) for name in names)
        last = readings[-1].record if readings else None
        answer = PullAnswer(response.code, suggested_id, position, following, max_offset, last)
        ledger = self._accounts[queue.broker].ledger
        self._report(self._redirects.check_answer(ledger, queue.queue, asked, answer, state))
        if asked.is_slave and last is None:
            self._report(check_slave_answer(ledger, answer, may_skip=self._wanted is not EVERYTHING))

    def _judge_pull(
        self,
        queue: BrokerQueue,
        position: int,
        response: RemotingCommand,
        readings: Sequence[ReadRecord],
        before: QueueBounds,
        times_ns: tuple[int, int],
    ) -> None:
        """Check time, status and offsets of a master's answer since its last start.

        times_ns: before and after the request was sent.
        """
        account, host = self._accounts[queue.broker], self._machine.host
        pull = TimedPull(queue.queue, position, host, self._plan.broker.suspend_ms, *times_ns)
        self._report(pull.check_times(account, response, self._world.clock.monotonic_ns()))
        given = [record.queue_offset for record, _ in readings]
        self._report(
            check_pull(
                account,
                queue.queue,
                position,
                response,
                before,
                self._wanted,
                given,
                self._plan.broker.pull_messages_max,
            )
        )

    def _handle_answer(
        self,
        queue: BrokerQueue,
        position: int,
        response: RemotingCommand,
        readings: Sequence[ReadRecord],
        asked_in: int,
    ) -> None:
        account, fields = self._accounts[queue.broker], response.ext_fields
        self._idle_ms.pop(queue, None)
        bounds = consumers.PullBounds(*(int(fields[name]) for name in ("minOffset", "nextBeginOffset", "maxOffset")))
        answered = [(None, reading) for reading in readings]
        given = self._given[queue.broker].judge_answer(queue.queue, position, answered, bounds, asked_in)
        following = bounds.next_begin_offset
        for place in given:
            account.group.record_position(place[:2], place.queue_offset + 1, asked_in=asked_in)
        account.group.record_position(queue.queue, following, asked_in=asked_in)
        self._machine.die_by_chance("with messages in hand")
        if self._plan.broker.work_ms:
            self._world.tasks.sleep(self._plan.broker.work_ms)
        if self._plan.broker.send_back_chance and not self.insists:
            self._send_back(queue, readings, asked_in)
        account.group.record_handled(given)
        self._set_position(queue, position, following)
        if not self._plan.broker.commits_with_pulls:
            with self._record_commit(queue, following) as commit:
                kept_by = self._routes.broker_for_offsets(queue.broker, queue.topic)
                answer = self._send_request(kept_by, update_offset_command(*queue.queue, following), PATIENCE_MS)
                is_kept = kept_by is not None and not kept_by.is_slave  # a slave replaces its table by its master's
                commit.is_answered = is_kept and answer is not None and answer.code == ResponseCode.SUCCESS

    def _record_commit(self, queue: BrokerQueue, offset: int) -> AbstractContextManager[Commit]:
        commits = self._accounts[queue.broker].ledger.commits
        return commits.committing((CONSUMER_GROUP, *queue.queue), offset, self._world.clock.monotonic_ns)

    def _send_back(self, queue: BrokerQueue, given: Iterable[ReadRecord], asked_in: int) -> None:
        """Send some messages back to the master, once each. An unanswered message does not count as sent back.

        A request contains the log offset of its message. After a crash another record may be at this offset.
        """
        account, chance = self._accounts[queue.broker], self._plan.broker.send_back_chance
        for record, _ in given:
            if not self._stream.chance(chance, "sent back"):
                continue
            level = self._stream.randbelow(len(DELAYS_MS) + 1, "level")
            asked = self._routes.broker_for_offsets(queue.broker, queue.topic)
            request, returned = SendBackRequest(CONSUMER_GROUP, level, _RETRIES_MAX), account.ledger.returned
            returned.add_request(record.physical_offset, request)
            command = send_back_command(record.topic, record.physical_offset, request)
            response = self._send_request(asked, command, PATIENCE_MS)
            if response is None or response.code != ResponseCode.SUCCESS:
                continue
            account.hits["sent back"] += 1
            put = account.ledger.put_seen_in(record)
            assert put is not None, record
            request.is_kept = asked_in == account.ledger.life
            if request.is_kept or account.sync_flush:
                returned.kept.add(put.name)

    def _records_in(self, response: RemotingCommand) -> list[ReadRecord]:
        try:
            return list(pulled_records(response.body))
        except UnreadableError as error:
            summary, place = "a pull is answered with what is no record", (error.file, error.offset)
            self._report([Violation("READ", summary, *place, error.field, error.expected, error.found)])
            raise

    def _set_position(self, queue: BrokerQueue, before: int, after: int) -> None:
        """Change a position, unless a restart has reset it since the pull."""
        if self.positions[queue] == before:
            self.positions[queue] = after

    def _send_request(
        self, broker: BrokerAddress | None, command: RemotingCommand, timeout_ms: int
    ) -> RemotingCommand | None:
        return self._send_timed_request(broker, command, timeout_ms)[0]

    def _send_timed_request(
        self, broker: BrokerAddress | None, command: RemotingCommand, timeout_ms: int
    ) -> tuple[RemotingCommand | None, int]:
        """Return a broker's answer, None if there is none, and the time of the request."""
        insisted = self.insists
        if broker is None:
            return None, 0
        try:
            return self._routes.send_request(broker, command, timeout_ms)
        except OSError as error:
            if insisted:
                self._report(live.violation_of_time_out(timeout_ms, error))
            return None, 0
