"""Broker consumer: pulls a set of queues as RocketMQ's push consumer does.

The consumer's machine may die while it processes messages. The consumer's next machine, or another group member,
then continues at the committed offset.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from functools import partial
from typing import NamedTuple

from ....sim.errors import MachineDied
from ....store.broker.broker_config import MASTER_ID
from ....store.broker.requests import ResponseCode
from ....store.formats.remoting.command import RemotingCommand
from ...claims.machine import DELAYS_MS
from ...oracle.evidence import Violation
from ...oracle.group_commits import Commit
from ...oracle.group_delivery import Queue
from ...oracle.invariants import delivery
from ...oracle.invariants.side_files import check_topic
from ...oracle.reader import ReadRecord, UnreadableError
from ...oracle.returned import SendBackRequest
from .answers import PULLED, TimedPull, bounds_of_pull
from .broker_user import ANSWER_MS, BrokerUser, UserContext
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
from .routes import BROKER, BrokerAddress

CONSUMERS_NET = 30
"""The last byte of the address of the first consumer."""
RETRY_MS = 100
_IDLE_MS_MIN, _IDLE_MS_MAX = 10, 640
"""The back-off between two pulls without messages. The back-off doubles, because most pulls find no message."""
_ALL_IN_MEMORY_BYTES = 1 << 30
_LAG_CHANCE = 0.2
_NEW_GROUP = "newcomers"
_OFFSET_CODES = (ResponseCode.SUCCESS, ResponseCode.QUERY_NOT_FOUND)
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


class BrokerConsumer(BrokerUser):
    """Pulls each queue in its own task from the committed offset on, and commits its position."""

    def __init__(self, run: UserContext, number: int, queues: Sequence[BrokerQueue]) -> None:
        super().__init__(run, f"consumer-{number}", CONSUMERS_NET + number)
        self.positions: dict[BrokerQueue, int | None] = dict.fromkeys(queues)
        """The next offset to pull; None while the committed offset is unknown."""
        self._wanted = next(iter(run.accounts.values())).subscription
        self._sent_back = run.streams(f"{self.name}/sent back")
        self._given = self.received_messages(self._wanted)
        self._redirects = Redirects(run.plan, run.store_at)
        self._lags = run.streams(f"{self.name}/lags")
        self._handled_from: dict[BrokerQueue, int] = {}
        """The offset of the messages that the consumer processed last since it began at a committed offset."""
        self._pulling_in = 0
        """The number of the machine on which all pull tasks were started."""
        self.machine.switch_on()

    def begin(self) -> None:
        self._suggested: dict[BrokerQueue, int] = {}
        """The broker id that the last answer suggests: the master or a slave."""
        self._idle_ms: dict[BrokerQueue, int] = {}
        self.restart_at_committed()
        for queue in self.positions:
            self._start_pulling(queue)
        self._pulling_in = self.machine.lives
        filters_in_advance = self.plan.broker.registers_filters or self.plan.broker_settings.enable_calc_filter_bit_map
        if self.plan.broker.client_death_chance or filters_in_advance:
            self.world.tasks.spawn("heartbeat", self._send_heartbeats)

    def _send_heartbeats(self) -> None:
        while True:
            for broker in self.run.accounts:
                self._send_heartbeat(self.routes.broker_for_offsets(broker, ""))
            self.world.tasks.sleep(HEARTBEAT_MS)

    def _send_heartbeat(self, broker: BrokerAddress | None) -> None:
        self.send(broker, consumer_heartbeat(self.machine.host, self.run.topics, self._wanted))

    def _start_pulling(self, queue: BrokerQueue) -> None:
        self.world.tasks.spawn(f"pull {queue}", partial(self._consume_queue, queue))

    def restart_at_committed(self) -> None:
        self._handled_from.clear()
        for queue in self.positions:
            self.positions[queue] = None

    def hand_over_queues(self, other: "BrokerConsumer") -> None:
        queues = list(self.positions)
        self.positions.clear()
        for queue in queues:
            other.positions[queue] = None
            if other.machine.is_on and other._pulling_in == other.machine.lives:
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
        account = self.run.accounts[queue.broker]
        while True:
            asked_in, asked = account.ledger.life, self.routes.broker_for_offsets(queue.broker, queue.topic)
            response, _ = self.send(asked, query_offset_command(*queue.queue))
            if response is not None and response.code == ResponseCode.QUERY_NOT_FOUND:
                if asked is not None and not asked.is_slave:
                    self.run.report(self._judge_missing_offset(queue, asked_in))
                return 0
            if asked is not None and response is not None and response.code == ResponseCode.SUCCESS:
                offset = int(response.ext_fields["offset"])
                known_in = None if asked.is_slave else asked_in
                group = (CONSUMER_GROUP, *queue.queue)
                self.run.report(delivery.check_group_offset(account.ledger.commits, group, offset, asked_in=known_in))
                if known_in is not None and self.plan.retention.deletes_segments:
                    self._ask_as_new_group(queue, asked)
                return offset
            self.world.tasks.sleep(RETRY_MS)

    def _ask_as_new_group(self, queue: BrokerQueue, master: BrokerAddress) -> None:
        """Query the offset of a group that never commits, if the first messages of the queue have expired."""
        store, ledger = self.run.store_at(master), self.run.accounts[queue.broker].ledger
        begin, asked_in = 0 if store is None else store.get_min_offset_in_queue(*queue.queue), ledger.life
        if begin <= 0:
            return
        response, _ = self.send(master, query_offset_command(*queue.queue, group=_NEW_GROUP))
        if response is not None and response.code in _OFFSET_CODES and asked_in == ledger.life:
            has_offset = response.code == ResponseCode.SUCCESS
            self.run.report(delivery.check_new_group_offset(queue.queue, begin, has_offset=has_offset))

    def _judge_missing_offset(self, queue: BrokerQueue, asked_in: int) -> Iterator[Violation]:
        plan, group = self.plan, (CONSUMER_GROUP, *queue.queue)
        is_in_memory = plan.settings.physical_memory_bytes >= _ALL_IN_MEMORY_BYTES and not plan.broker.slaves_are_read
        begins_at_zero = is_in_memory and not plan.retention.deletes_segments
        commits = self.run.accounts[queue.broker].ledger.commits
        return delivery.check_missing_group_offset(commits, group, asked_in=asked_in, begins_at_zero=begins_at_zero)

    def _pull_repeatedly(self, queue: BrokerQueue, position: int) -> None:
        account, broker, tasks = self.run.accounts[queue.broker], self.plan.broker, self.world.tasks
        ledger, most, suspend_ms = account.ledger, broker.pull_messages_max, broker.suspend_ms
        asked = self.routes.broker_to_pull_from(queue.broker, queue.topic, self._suggested.get(queue, MASTER_ID))
        is_slave = asked is not None and asked.is_slave
        commits = broker.commits_with_pulls and not is_slave
        committed = self._draw_committed(queue, position) if commits else None
        command = pull_command(*queue.queue, position, self._wanted, most=most, suspend_ms=suspend_ms, commit=committed)
        if broker.registers_filters:
            command = without_expression(command)
        began_ns = self.now_ns
        asked_in, is_made, before = ledger.life, queue.topic in ledger.topics, account.pulls.known_bounds(queue.queue)
        log_state = self._redirects.log_state(asked)
        with nullcontext() if committed is None else self._record_commit(queue, committed) as commit:
            response, sent_ns = self.send(asked, command, suspend_ms + ANSWER_MS)
            if commit is not None and response is not None:
                commit.is_answered = response.code in PULLED
        if response is None:
            tasks.sleep(RETRY_MS)
            return
        readings = self._records_in(response) if response.code == ResponseCode.SUCCESS else []
        if response.code in PULLED:
            self._suggested[queue] = int(response.ext_fields["suggestWhichBrokerId"])
            if self.plan.cluster.slaves:
                assert asked is not None, "the broker has answered"
                self._judge_redirect(queue, asked, PullAnswer.of(position, response, readings), log_state)
            if not is_slave:
                ledger.groups.add(CONSUMER_GROUP)
        if asked_in == ledger.life and not is_slave:
            pull = TimedPull(queue.queue, position, self.machine.host, suspend_ms, before, began_ns, sent_ns)
            given = [record.queue_offset for record, _ in readings]
            self.run.report(pull.check_answer(account, response, self.now_ns, self._wanted, given, most))
        if response.code == ResponseCode.SUCCESS:
            account.hits["pulled from a slave"] += is_slave
            self._handle_answer(queue, position, response, readings, asked_in)
            return
        if response.code == ResponseCode.SUBSCRIPTION_NOT_EXIST:
            self._send_heartbeat(asked)
        # `is_made` tells whether the topic existed at the request.
        if response.code == ResponseCode.TOPIC_NOT_EXIST and is_made and not is_slave:
            self.run.report(check_topic(ledger, queue.topic))
        if response.code in (ResponseCode.PULL_OFFSET_MOVED, ResponseCode.PULL_RETRY_IMMEDIATELY):
            following = int(response.ext_fields["nextBeginOffset"])
            if response.code == ResponseCode.PULL_OFFSET_MOVED and not is_slave:
                account.hits["consumer moved past expired"] += following > position
            account.group.record_position(queue.queue, following, asked_in=asked_in)
            self._set_position(queue, position, following)  # before the pause, because the broker may die during it
        idle_ms = self._idle_ms.get(queue, _IDLE_MS_MIN)
        self._idle_ms[queue] = min(2 * idle_ms, _IDLE_MS_MAX)
        if response.code == ResponseCode.SYSTEM_BUSY:  # pulls in step with others would be refused for ever
            idle_ms += self.stream.randbelow(RETRY_MS, "ms until the next try")
        tasks.sleep(idle_ms if response.code == ResponseCode.PULL_NOT_FOUND else max(idle_ms, RETRY_MS))

    def _draw_committed(self, queue: BrokerQueue, position: int) -> int:
        """Return the offset that a pull commits: during faults at times that of messages processed before."""
        lags = not self.insists and self._lags.chance(_LAG_CHANCE, "the commit lags")
        return min(self._handled_from.get(queue, position), position) if lags else position

    def _judge_redirect(
        self, queue: BrokerQueue, asked: BrokerAddress, answer: PullAnswer, state: LogState | None
    ) -> None:
        ledger = self.run.accounts[queue.broker].ledger
        self.run.report(self._redirects.check_answer(ledger, queue.queue, asked, answer, state))
        if asked.is_slave and answer.last is None and self.run.store_at(asked) is not None:  # it is no master by now
            may_skip, is_read = self._wanted is not EVERYTHING, self.plan.broker.slaves_are_read
            self.run.report(check_slave_answer(ledger, answer, may_skip=may_skip, is_read=is_read))

    def _handle_answer(
        self,
        queue: BrokerQueue,
        position: int,
        response: RemotingCommand,
        readings: Sequence[ReadRecord],
        asked_in: int,
    ) -> None:
        account = self.run.accounts[queue.broker]
        self._idle_ms.pop(queue, None)
        bounds = bounds_of_pull(response)
        answered = [(None, reading) for reading in readings]
        given = self._given[queue.broker].judge_answer(queue.queue, position, answered, bounds, asked_in)
        following = bounds.next_begin_offset
        for place in given:
            account.group.record_position(place[:2], place.queue_offset + 1, asked_in=asked_in)
        account.group.record_position(queue.queue, following, asked_in=asked_in)
        self.machine.die_by_chance("with messages in hand")
        if self.plan.broker.work_ms:
            self.world.tasks.sleep(self.plan.broker.work_ms)
        if self.plan.broker.send_back_chance and not self.insists:
            self._send_back(queue, readings, asked_in)
        account.group.record_handled(given)
        self._handled_from[queue] = position
        self._set_position(queue, position, following)
        if not self.plan.broker.commits_with_pulls:
            with self._record_commit(queue, following) as commit:
                kept_by = self.routes.broker_for_offsets(queue.broker, queue.topic)
                answer, _ = self.send(kept_by, update_offset_command(*queue.queue, following))
                is_kept = kept_by is not None and not kept_by.is_slave  # a slave replaces its table by its master's
                commit.is_answered = is_kept and answer is not None and answer.code == ResponseCode.SUCCESS

    def _record_commit(self, queue: BrokerQueue, offset: int) -> AbstractContextManager[Commit]:
        commits = self.run.accounts[queue.broker].ledger.commits
        return commits.committing((CONSUMER_GROUP, *queue.queue), offset, self.world.clock.monotonic_ns)

    def _send_back(self, queue: BrokerQueue, given: Iterable[ReadRecord], asked_in: int) -> None:
        """Send some messages back to the master, once each. An unanswered message does not count as sent back.

        A request contains the log offset of its message. After a crash another record may be at this offset.
        """
        account, chance = self.run.accounts[queue.broker], self.plan.broker.send_back_chance
        for record, _ in given:
            if not self._sent_back.chance(chance, "sent back"):
                continue
            level = self._sent_back.randbelow(len(DELAYS_MS) + 1, "level")
            asked = self.routes.broker_for_offsets(queue.broker, queue.topic)
            request, returned = SendBackRequest(CONSUMER_GROUP, level, _RETRIES_MAX), account.ledger.returned
            returned.add_request(record.physical_offset, request)
            response, _ = self.send(asked, send_back_command(record.topic, record.physical_offset, request))
            if response is None or response.code != ResponseCode.SUCCESS:
                continue
            account.hits["message sent back"] += 1
            put = account.ledger.put_seen_in(record)
            assert put is not None, record
            request.is_kept = asked_in == account.ledger.life
            if request.is_kept or account.sync_flush:
                returned.kept.add(put.name)

    def _records_in(self, response: RemotingCommand) -> list[ReadRecord]:
        try:
            return list(pulled_records(response.body))
        except UnreadableError as error:
            summary, place = "a pull is answered with an invalid record", (error.file, error.offset)
            self.run.report([Violation("READ", summary, *place, error.field, error.expected, error.found)])
            raise

    def _set_position(self, queue: BrokerQueue, before: int, after: int) -> None:
        """Change a position, unless a restart has reset it since the pull."""
        if self.positions[queue] == before:
            self.positions[queue] = after
