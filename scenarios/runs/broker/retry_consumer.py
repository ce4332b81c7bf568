"""Retry consumer: fails to process messages, and sends each back until a retry succeeds or none is left.

The consumer pulls the queues of users and the retry queues of its group. Without an answer it sends the message back
again, so the message may be stored more than once. By the plan's chance it sends the message to the retry topic itself.
RocketMQ's clients do so after a failed request, and orderly ones once the maximum of retries is reached.
Source: RocketMQ DefaultMQPushConsumerImpl.sendMessageBack, ConsumeMessageConcurrentlyService,
ConsumeMessageOrderlyService.
"""

from collections.abc import Callable, Sequence
from functools import partial

from ....store.broker.requests import BROKER_VERSION, RequestCode, ResponseCode
from ....store.formats.delay_level import SCHEDULE_TOPIC
from ....store.formats.host import Host
from ....store.formats.remoting.command import RemotingCommand
from ....store.formats.remoting.json_body import encode_json_body
from ...claims.machine import DELAYS_MS
from ...oracle.reader import LogRecord, ReadRecord
from ...oracle.returned import FIRST_LEVEL, RetrySend, SendBackRequest
from .broker_user import BrokerUser, UserContext
from .commands import HEARTBEAT_MS, consumer_heartbeat, retry_send_command, send_back_command
from .consumer import BrokerQueue
from .message_options import EVERYTHING

GROUP = "retriers"
RETRIES_NET = 130
"""The last byte of the address of the first retry consumer."""
RETRY_TOPIC, DEAD_TOPIC = f"%RETRY%{GROUP}", f"%DLQ%{GROUP}"
_SUSPEND_MS = 2_000
_RETRY_MS, _IDLE_MS = 200, 1_000
_LEVELS = (0, 0, 0, *range(1, len(DELAYS_MS) + 1), 99, -1)
"""RocketMQ's clients ask for level 0 unless their user chooses another. 99 is the longest delay, -1 a dead message."""
_LEFT_OUT_CHANCE, _READS_DEAD_CHANCE = 0.5, 0.2
_OLD_VERSION, _FIRST_VERSION = 0, 121
"""RocketMQ 3.4.9, with version 121, is the first whose consumers send their maximum of retries."""
_ORDERLY_CHANCE = 0.3
_MORE_QUEUES_CHANCE = 0.3
_UNNAMED_CHANCE = 0.4
"""How often a consumer leaves the maximum of retries to its group."""


class RetryConsumer(BrokerUser):
    """Pulls each of its queues in a task. The positions survive the death of its machine."""

    def __init__(self, run: UserContext, number: int, queues: Sequence[BrokerQueue]) -> None:
        super().__init__(run, f"retrier-{number}", RETRIES_NET + number)
        retry = self._retry = run.plan.retry
        own = [BrokerQueue(name, RETRY_TOPIC, number) for name in run.accounts for number in range(retry.retry_queues)]
        if self.stream.chance(_READS_DEAD_CHANCE, "reads dead letters"):
            own += [BrokerQueue(name, DEAD_TOPIC, 0) for name in run.accounts]
        every = [*queues, *own]
        self._positions = dict.fromkeys(every[number :: retry.failing_consumers], 0)
        version = self.stream.choice((BROKER_VERSION, _FIRST_VERSION), "version of the client")
        self._version = _OLD_VERSION if retry.old_clients else version
        self._forms = run.streams(f"{self.name}/forms")
        self.machine.switch_on()

    def begin(self) -> None:
        self.world.tasks.spawn("heartbeat", self._send_heartbeats)
        if self._retry.retry_queues and self.stream.chance(_MORE_QUEUES_CHANCE, "gets more retry queues"):
            self.world.tasks.spawn("change the group", self._add_retry_queues)
        for queue in self._positions:
            self.world.tasks.spawn(f"consume {queue}", partial(self._consume_queue, queue))

    def _send_heartbeats(self) -> None:
        while True:
            for broker in self.run.accounts:
                self._send_heartbeat(broker)
            self.world.tasks.sleep(HEARTBEAT_MS)

    def _add_retry_queues(self) -> None:
        """Let the group have more retry queues from now on. The retry topic, which exists, keeps its queues."""
        settings = {"retryQueueNums": self._retry.retry_queues + 2, "retryMaxTimes": self._retry.retries_max_of_group}
        body = encode_json_body({"groupName": GROUP, **settings})
        for broker in self.run.accounts:
            if self._send_heartbeat(broker):
                self.ask(broker, RemotingCommand(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, 0, body=body))

    def _send_heartbeat(self, broker: str) -> bool:
        """Let the broker create the retry topic. Return whether it has answered SUCCESS."""
        topics = [*self.run.topics, RETRY_TOPIC]
        reply = self.ask(broker, consumer_heartbeat(self.client_id, topics, EVERYTHING, GROUP))
        return reply is not None and reply.is_success

    def _consume_queue(self, queue: BrokerQueue) -> None:
        while True:
            before = self._positions[queue]
            self._positions[queue] = self._pull_once(queue, before)
            if self._positions[queue] == before:
                self.world.tasks.sleep(_IDLE_MS)

    def _pull_once(self, queue: BrokerQueue, position: int) -> int:
        """Pull and process messages. Return the next offset."""
        pulled = self.pull(queue.broker, queue.queue, position, _SUSPEND_MS, GROUP)
        if pulled is None:
            return position
        _, reply, readings = pulled
        if reply.response.code in (ResponseCode.PULL_OFFSET_MOVED, ResponseCode.PULL_RETRY_IMMEDIATELY):
            return reply.field("nextBeginOffset")
        if not reply.is_success:
            return position
        retry = self._retry
        for reading in readings:
            self.machine.die_by_chance("with a message to retry")
            if queue.topic == DEAD_TOPIC or not self.stream.chance(retry.fail_chance, "fails"):
                continue
            if retry.retry_queues and self.stream.chance(retry.own_send_chance, "sends itself"):
                self._send_to_retry_topic(queue.broker, reading)
            else:
                self._send_back(queue.broker, reading.record)
        return reply.field("nextBeginOffset")

    def _send_back(self, broker: str, record: LogRecord) -> None:
        """Send a message back until the broker answers SUCCESS, or does not have the message."""
        account, retry, offset = self.run.accounts[broker], self._retry, record.physical_offset
        level, is_named = self.stream.choice(_LEVELS, "level"), not self.stream.chance(_UNNAMED_CHANCE, "no maximum")
        most = retry.retries_max if is_named else retry.retries_max_of_group
        while True:
            asked_in = account.ledger.life
            request = SendBackRequest(GROUP, level, most, retry.retry_queues, is_named)
            account.ledger.returned.add_request(offset, request)
            topic = "" if self._forms.chance(_LEFT_OUT_CHANCE, "leaves out optional fields") else record.topic
            reply = self.ask(broker, send_back_command(topic, offset, request, version=self._version))
            if reply is not None and reply.is_success:
                request.is_kept = asked_in == account.ledger.life
                account.hits["message sent back"] += 1
                return
            if reply is not None and "expected the offset of a message" in (reply.response.remark or ""):
                return
            self.world.tasks.sleep(_RETRY_MS)

    def _send_to_retry_topic(self, broker: str, reading: ReadRecord) -> None:
        """Send a message to the retry topic until the broker answers SUCCESS."""
        account, retry, record = self.run.accounts[broker], self._retry, reading.record
        put = account.ledger.put_seen_in(record) or account.ledger.put_returned_in(record)
        assert put is not None, record
        is_named = not self.stream.chance(_UNNAMED_CHANCE, "no maximum")
        before, most = record.head.reconsume_times, retry.retries_max if is_named else retry.retries_max_of_group
        times = max(before, most) if self.stream.chance(_ORDERLY_CHANCE, "orderly") else before + 1
        new_send = partial(RetrySend, GROUP, FIRST_LEVEL + before, most, retry.retry_queues, is_named, times=times)
        while True:
            # RocketMQ's client chooses a queue of the route, so the topic exists.
            if self._send_heartbeat(broker) and self._send_once(broker, put.name, new_send, reading):
                account.hits["sent to retry topic"] += 1
                return
            self.world.tasks.sleep(_RETRY_MS)

    def _send_once(self, broker: str, name: str, new_send: Callable[..., RetrySend], reading: ReadRecord) -> bool:
        """Return whether the broker has answered SUCCESS."""
        ledger, host = self.run.accounts[broker].ledger, Host.of_address(f"{self.machine.host}:0")
        send = new_send(born=(self.world.clock.now_ms(), host.address))
        ledger.returned.add_send(name, send)
        queue_id = self.stream.randbelow(send.retry_queues, "retry queue")
        reply = self.ask(broker, retry_send_command(send, queue_id, reading, version=self._version))
        if reply is None or not reply.is_success:
            return False
        send.is_kept = reply.is_of_this_life
        return True

    def unfinished_text(self) -> str:
        """Return a queue that the consumer has not processed to its end, or a delay level that has not delivered all.

        Each delivery may cause another retry.
        """
        for queue, position in self._positions.items():
            store = self.run.master_store(queue.broker)
            end = 0 if store is None else store.get_max_offset_in_queue(*queue.queue)
            if position < end:
                return f"{queue} of {GROUP} {position} of {end}"
            if store is not None:
                for level, delivered in sorted(store.schedule.offsets.items()):
                    end = store.get_max_offset_in_queue(SCHEDULE_TOPIC, level - 1)
                    if delivered < end:
                        return f"level {level} of {queue.broker} {delivered} of {end}"
        return ""
