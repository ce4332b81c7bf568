"""Retry consumer: fails to process messages, and sends each back until a retry succeeds or none is left.

The consumer pulls the queues of users and the retry queues of its group. A message whose request gets no answer is sent
back again, so it may be stored more than once. RocketMQ's client sends it to the retry topic itself then, which no
simulated user does. Source: RocketMQ DefaultMQPushConsumerImpl.sendMessageBack, ConsumeMessageConcurrentlyService.
"""

from collections.abc import Sequence
from functools import partial

from ....store.broker.requests import BROKER_VERSION, ResponseCode
from ....store.formats.delay_level import SCHEDULE_TOPIC
from ...claims.machine import DELAYS_MS
from ...oracle.reader import LogRecord
from ...oracle.returned import SendBackRequest
from .answers import PULLED
from .broker_user import BrokerUser, RunOfUsers
from .commands import HEARTBEAT_MS, consumer_heartbeat, pull_command, pulled_records, send_back_command
from .consumer import BrokerQueue
from .message_options import EVERYTHING

GROUP = "retriers"
RETRIES_NET = 130
"""The last byte of the address of the first retry consumer."""
RETRY_TOPIC = f"%RETRY%{GROUP}"
_SUSPEND_MS = 2_000
_RETRY_MS, _IDLE_MS = 200, 1_000
_LEVELS = (0, 0, 0, *range(1, len(DELAYS_MS) + 1), -1)
"""RocketMQ's clients ask for level 0 unless their user chooses another. -1: the message is hopeless."""
_OLD_VERSION = 0


class RetryConsumer(BrokerUser):
    """Pulls each of its queues in a task. The positions survive the death of its machine."""

    def __init__(self, run: RunOfUsers, number: int, queues: Sequence[BrokerQueue]) -> None:
        super().__init__(run, f"retrier-{number}", RETRIES_NET + number)
        retry = self._retry = run.plan.retry
        own = [BrokerQueue(name, RETRY_TOPIC, number) for name in run.accounts for number in range(retry.retry_queues)]
        every = [*queues, *own]
        self._positions = dict.fromkeys(every[number :: retry.failing_consumers], 0)
        self.machine.switch_on()

    def begin(self) -> None:
        self.world.tasks.spawn("heartbeat", self._send_heartbeats)
        for queue in self._positions:
            self.world.tasks.spawn(f"consume {queue}", partial(self._consume_queue, queue))

    def _send_heartbeats(self) -> None:
        """A heartbeat creates the retry topic."""
        topics = [*self.run.topics, RETRY_TOPIC]
        while True:
            for broker in self.run.accounts:
                self.ask(broker, consumer_heartbeat(self.client_id, topics, EVERYTHING, GROUP))
            self.world.tasks.sleep(HEARTBEAT_MS)

    def _consume_queue(self, queue: BrokerQueue) -> None:
        while True:
            before = self._positions[queue]
            self._positions[queue] = self._pull_once(queue, before)
            if self._positions[queue] == before:
                self.world.tasks.sleep(_IDLE_MS)

    def _pull_once(self, queue: BrokerQueue, position: int) -> int:
        """Pull and process messages. Return the next offset."""
        account, most = self.run.accounts[queue.broker], self.plan.broker.pull_messages_max
        command = pull_command(*queue.queue, position, EVERYTHING, most=most, suspend_ms=_SUSPEND_MS, group=GROUP)
        reply = self.ask(queue.broker, command, _SUSPEND_MS + 3_000)
        if reply is None:
            return position
        if reply.response.code in PULLED:
            account.ledger.groups.add(GROUP)
        if reply.response.code in (ResponseCode.PULL_OFFSET_MOVED, ResponseCode.PULL_RETRY_IMMEDIATELY):
            return reply.field("nextBeginOffset")
        if not reply.is_success:
            return position
        for record, _ in pulled_records(reply.response.body):
            self.machine.die_by_chance("with a message to retry")
            if self.stream.chance(self._retry.fail_chance, "fails"):
                self._send_back(queue.broker, record)
        return reply.field("nextBeginOffset")

    def _send_back(self, broker: str, record: LogRecord) -> None:
        """Send a message back until the broker answers SUCCESS, or does not have the message."""
        account, retry, offset = self.run.accounts[broker], self._retry, record.physical_offset
        level = self.stream.choice(_LEVELS, "level")
        version = _OLD_VERSION if retry.old_clients else BROKER_VERSION
        while True:
            asked_in = account.ledger.life
            request = SendBackRequest(GROUP, level, retry.retries_max, retry.retry_queues)
            account.ledger.returned.add_request(offset, request)
            reply = self.ask(broker, send_back_command(record.topic, offset, request, version=version))
            if reply is not None and reply.is_success:
                request.is_kept = asked_in == account.ledger.life
                account.hits["sent back"] += 1
                return
            if reply is not None and "expected that of a message" in (reply.response.remark or ""):
                return
            self.world.tasks.sleep(_RETRY_MS)

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
