"""Figure client: a lookup client that also reads figures, as operators' tools and monitoring do (READ).

    GET_CONSUME_STATS  QUERY_CONSUME_TIME_SPAN  VIEW_BROKER_STATS_DATA  GET_BROKER_RUNTIME_INFO

It commits offsets and pulls for groups of its own, so that it knows their progress and counts. It asks masters only.
Source: RocketMQ AdminBrokerProcessor, and the commands consumerProgress, statsAll and brokerStatus of mqadmin.
"""

from collections import Counter
from typing import Any

import msgspec

from ....store.broker.requests import RequestCode, ResponseCode
from ....store.formats.messages import PutMessageStatus
from ...oracle.invariants import lookups
from ...oracle.invariants.lookups import QueueBounds
from .answers import PULLED
from .broker_user import UserContext
from .commands import make_request, pull_command, pulled_records, update_offset_command
from .consumer import BrokerQueue
from .lookup_client import QUEUE_FIGURES, LookupClient
from .message_options import EVERYTHING

_MOST = (1, 2, 32)
_PUTS, _GETS, _GET_BYTES = "TOPIC_PUT_NUMS", "GROUP_GET_NUMS", "GROUP_GET_SIZE"


class FigureClient(LookupClient):
    """Looks up one thing after another at random, among them figures."""

    def __init__(self, run: UserContext, number: int, queues: list[BrokerQueue]) -> None:
        super().__init__(run, number, queues)
        self._groups = 0
        self._unanswered_in: dict[str, int] = {}
        """Broker -> its start in which it may still execute a pull without an answer."""
        self._got: dict[tuple[str, int, str], Counter[str]] = {}
        """Broker, its start and topic -> the counts of the messages that the client has pulled."""
        self._looks_at_queues += [self._look_at_progress, self._look_at_counts]
        self._looks.append(self._look_at_broker)

    def _ask_for(self, broker: str, code: RequestCode, **fields: object) -> bytes | None:
        """Return the body of a successful answer since the master's last start. A refusal has an empty body."""
        reply = self.ask(broker, make_request(code, **fields))
        if reply is None or not reply.is_of_this_life:
            return None
        if reply.response.code not in (ResponseCode.SUCCESS, ResponseCode.SYSTEM_ERROR):
            return None
        return reply.response.body if reply.is_success else b""

    def _look_at_progress(self, queue: BrokerQueue) -> None:
        """Commit an offset for a new group, and compare its progress with the messages."""
        (broker, topic, queue_id), life = queue, self.run.accounts[queue.broker].ledger.life
        before = self.find_bounds(queue)
        if self._slave is not None or before is None or before.low or not before.high:
            return
        self._groups += 1
        own, group = self._forms.randint(0, before.high, "offset of a group"), f"{self.name}-{self._groups}"
        committed, asked_ms = self.ask(broker, update_offset_command(*queue.queue, own, group)), self._now_ms
        progress = self._ask_for(broker, RequestCode.GET_CONSUME_STATS, consumerGroup=group, topic=topic)
        spans = self._ask_for(broker, RequestCode.QUERY_CONSUME_TIME_SPAN, topic=topic, group=group)
        answered_ms, after = self._now_ms, self.find_bounds(queue)
        times: dict[int, int] = {}
        for at in {0, own - 1, own, before.high - 1} - {-1}:
            times |= self.store_time_at(queue, at)
        account = self.run.accounts[broker]
        if not (committed and committed.is_success and progress and spans and after) or account.ledger.life != life:
            return
        found: dict[str, int] = {}
        for place, figures in QUEUE_FIGURES.findall(progress):
            found |= msgspec.json.decode(figures) if msgspec.json.decode(place)["queueId"] == queue_id else {}
        for span in msgspec.json.decode(spans)["consumeTimeSpanSet"]:
            found |= span if span["messageQueue"]["queueId"] == queue_id else {}
        if found or not self.plan.broker.operators:  # operators may take a queue from its topic
            ends = QueueBounds(before.high, after.high)
            asked = range(asked_ms, answered_ms + 1) if account.has_steady_clock else None
            self.run.report(lookups.check_progress(queue.queue, own, found, times, ends, asked))

    @property
    def _now_ms(self) -> int:
        return self.world.clock.now_ms()

    def _look_at_counts(self, queue: BrokerQueue) -> None:
        """Pull messages, and compare the counts since the start of the broker."""
        (broker, topic, _), ledger = queue, self.run.accounts[queue.broker].ledger
        life, group = ledger.life, f"{self.name}-counts"
        if self._slave is not None or self._unanswered_in.get(broker) == life:
            return
        self._unanswered_in[broker] = life
        most = self._forms.choice(_MOST, "messages to count")
        pulled = self.ask(broker, pull_command(*queue.queue, 0, EVERYTHING, most=most, suspend_ms=0, group=group))
        if pulled is None or not pulled.is_of_this_life:
            return
        del self._unanswered_in[broker]
        if pulled.response.code not in PULLED:
            return
        ledger.groups.add(group)
        got = self._got.setdefault((broker, life, topic), Counter())
        got[_GETS] += len(list(pulled_records(pulled.response.body)))
        got[_GET_BYTES] += len(pulled.response.body)
        puts = [put for put in ledger.puts_of_this_life() if put.topic == topic and put.waiting_place is None]
        stored = sum(put.status is PutMessageStatus.PUT_OK for put in puts)
        counts, dispatched_to = self._counts(broker, topic, group), self._dispatched_to(broker)
        store = self._store_of(broker)
        is_dispatched = store is not None and dispatched_to >= store.log.put_offset
        figures = self._ask_for(broker, RequestCode.GET_TOPIC_STATS_INFO, topic=topic)
        if counts is None or not figures or ledger.life != life:
            return
        end = sum(msgspec.json.decode(found)["maxOffset"] for _, found in QUEUE_FIGURES.findall(figures))
        loses_ends = self.plan.retention.deletes_queues or self.plan.broker.operators or not is_dispatched
        most_of_puts = counts[_PUTS] if loses_ends else end
        ranges = {name: range(got[name], got[name] + 1) for name in (_GETS, _GET_BYTES)}
        self.run.report(lookups.check_counts(topic, counts, {_PUTS: range(stored, most_of_puts + 1), **ranges}))

    def _counts(self, broker: str, topic: str, group: str) -> dict[str, int] | None:
        """Return the totals since the broker's start, by name."""
        counts = {}
        for name in (_PUTS, _GETS, _GET_BYTES):
            key = topic if name == _PUTS else f"{topic}@{group}"
            body = self._ask_for(broker, RequestCode.VIEW_BROKER_STATS_DATA, statsName=name, statsKey=key)
            if body is None:
                return None
            counts[name] = msgspec.json.decode(body)["statsDay"]["sum"] if body else 0
        return counts

    def _look_at_broker(self) -> None:
        """Ask for the figures of a broker."""
        broker = self.stream.choice(self._queues, "broker").broker
        self._slave, ledger = None, self.run.accounts[broker].ledger
        dispatched_to = self._dispatched_to(broker)
        body = self._ask_for(broker, RequestCode.GET_BROKER_RUNTIME_INFO)
        if not body:
            return
        table: dict[str, Any] = msgspec.json.decode(body)["table"]
        begin_ms = {put.physical_offset: put.stored_ms for put in ledger.puts}.get(int(table["commitLogMinOffset"]))
        self.run.report(lookups.check_runtime_info(table, dispatched_to, begin_ms))
