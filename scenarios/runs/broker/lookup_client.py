"""Lookup client: looks up messages by key, id and time, and the bounds of queues, as operators' tools do.

    QUERY_MESSAGE  VIEW_MESSAGE_BY_ID
    GET_MIN_OFFSET  GET_MAX_OFFSET  SEARCH_OFFSET_BY_TIMESTAMP  GET_EARLIEST_MSG_STORETIME
    GET_TOPIC_STATS_INFO  QUERY_CONSUME_QUEUE

Most lookups at a broker with slaves ask a slave, also after the death of the master. The answer of a slave must
contain the messages that the slave has dispatched.
Source: RocketMQ MQAdminImpl, and the commands queryMsgByKey, queryMsgById, queryMsgByOffset, topicStatus and queryCq of
mqadmin.
"""

import re
from collections.abc import Callable
from typing import Any

import msgspec

from ....store.broker.requests import RequestCode, ResponseCode
from ....store.formats.remoting.command import RemotingCommand
from ....store.index.key_query import QueryMessageResult
from ....store.message_store import MessageStore
from ...oracle.invariants import idx, lookups
from ...oracle.invariants.lookups import ENTRY_BYTES, QueueBounds
from ...oracle.put_entry import PutEntry
from ...workload.options import SHARED_KEYS, UNIQUE_KEYS
from .answers import PULLED
from .broker_user import ANSWER_MS, BrokerUser, Reply, UserContext
from .commands import make_request, pull_command, pulled_records
from .consumer import BrokerQueue
from .message_options import EVERYTHING
from .redirects import PullAnswer, check_slave_answer
from .refused_requests import BEYOND
from .routes import BrokerAddress

LOOKUPS_NET = 90
"""The last byte of the address of the first lookup client."""
_PAUSES_MS = (5, 100, 1_000, 5_000)
_SHARED_CHANCE = 0.5
_UNIQUE_CHANCE = 0.2
_WINDOW_CHANCE = 0.3
_INSIDE_RECORD_CHANCE = 0.2
_MAX_NUMBERS = (1, 2, 32, 64, 1_000, 0, -1)
_REVERSED_CHANCE, _EXTREME_CHANCE = 0.1, 0.15
_EXTREME_TIMES_MS = (0, -1, 1 << 60)
_NO_OFFSETS = (-1, BEYOND)
_UNIQUE_QUERY_MAX = 32
"""RocketMQ's defaultQueryMaxNum, which replaces the maximum of a query by unique key."""
_AGO_MS_MAX = 10_000
_STORE_TIME_CHANCE = 0.4
_MISSING_CHANCE, _MISSING = 0.1, "nobody-s"
GROUP = "lookups"
_SLAVE_CHANCE = 0.7
_COUNTS = (1, 2, 10, 1_000)
QUEUE_FIGURES = re.compile(rb'(\{"brokerName":[^{}]*\}):(\{[^{}]*\})')
"""A queue as the key of a table, and its figures."""


class LookupClient(BrokerUser):
    """Looks up one thing after another at random."""

    def __init__(self, run: UserContext, number: int, queues: list[BrokerQueue]) -> None:
        super().__init__(run, f"lookup-{number}", LOOKUPS_NET + number)
        self._queues = queues
        self._forms = run.streams(f"{self.name}/forms")
        self._looks: list[Callable[[], None]] = [self._look_by_key, self._look_by_id, self._look_at_queue]
        self._looks_at_queues: list[Callable[[BrokerQueue], None]] = [
            *(self._look_at_bounds,) * 2,
            self._look_at_topic,
            self._look_at_entries,
        ]
        self.machine.switch_on()

    def begin(self) -> None:
        self._bounds: dict[tuple[BrokerQueue, BrokerAddress | None], tuple[object, QueueBounds]] = {}
        """Queue and slave -> the broker's start, and the bounds in the last answers."""
        self._slave: BrokerAddress | None = None
        """The slave that the present lookup asks; None: the master."""
        self.world.tasks.spawn("look up", self._look_repeatedly)

    def _look_repeatedly(self) -> None:
        while True:
            self.world.tasks.sleep(self.stream.choice(_PAUSES_MS, "pause"))
            self.stream.choice(self._looks, "lookup")()

    def _draw_slave(self, broker: str) -> None:
        slaves = self.routes.slaves_of(broker) if self.plan.cluster.slaves else []
        asks_slave = slaves and self.stream.chance(_SLAVE_CHANCE, "asks a slave")
        self._slave = self.stream.choice(slaves, "slave") if asks_slave else None

    def _store_of(self, broker: str) -> MessageStore | None:
        return self.run.master_store(broker) if self._slave is None else self.run.store_at(self._slave)

    def _start_of(self, broker: str) -> object:
        """Return a value that changes at each start of the asked broker."""
        return self.run.accounts[broker].ledger.life if self._slave is None else self._store_of(broker)

    def _dispatched_to(self, broker: str) -> int:
        store = self._store_of(broker)
        return 0 if store is None else store.dispatch.reput_from.get()

    def ask(self, broker: str, command: RemotingCommand, timeout_ms: int = ANSWER_MS) -> Reply | None:
        """Return the answer of the master or of the drawn slave, or None without an answer in time."""
        if self._slave is None:
            return super().ask(broker, command, timeout_ms)
        start, asked_ns = self._store_of(broker), self.now_ns
        try:
            response, sent_ns = self.routes.send_request(self._slave, command, timeout_ms)
        except OSError:
            return None
        is_of_this_life = start is not None and self._store_of(broker) is start
        self.run.accounts[broker].hits["lookup at a slave"] += is_of_this_life
        return Reply(response, asked_ns, sent_ns, self.now_ns, is_of_this_life)

    def _draw_put(self, broker: str) -> PutEntry | None:
        puts = [put for put in self.run.accounts[broker].ledger.puts if put.waiting_place is None]
        return self.stream.choice(puts, "put") if puts else None

    def _begin_of_log(self, broker: str) -> int:
        """Return the log offset at which a slave's log begins, 0 for a master."""
        store = None if self._slave is None else self._store_of(broker)
        return 0 if store is None else max(store.log.min_offset, 0)

    # -- keys --------------------------------------------------------------------------------------

    def _look_by_key(self) -> None:
        broker, stream = self.stream.choice(self._queues, "broker").broker, self.stream
        self._draw_slave(broker)
        topic, put = stream.choice(self.run.topics, "topic"), self._draw_put(broker)
        key = stream.choice((*SHARED_KEYS, *UNIQUE_KEYS), "shared key")
        if put is not None and not stream.chance(_SHARED_CHANCE, "shared"):
            topic, key = put.topic, put.name
        most, is_unique = stream.choice(_MAX_NUMBERS, "most"), stream.chance(_UNIQUE_CHANCE, "unique key")
        window_ms = idx.ALWAYS_MS
        if stream.chance(_WINDOW_CHANCE, "window"):
            ago_ms, now_ms = stream.randbelow(_AGO_MS_MAX, "begins ms ago"), self.world.clock.now_ms()
            window_ms = now_ms - ago_ms, now_ms - stream.randbelow(ago_ms + 1, "ends ms ago")
            if self._forms.chance(_REVERSED_CHANCE, "reversed"):
                window_ms = window_ms[::-1]
        fields = {"topic": topic, "key": key, "maxNum": most}
        fields |= {"beginTimestamp": window_ms[0], "endTimestamp": window_ms[1]}
        fields |= {"_UNIQUE_KEY_QUERY": True} if is_unique else {}
        dispatched_to = self._dispatched_to(broker)
        reply = self.ask(broker, make_request(RequestCode.QUERY_MESSAGE, **fields))
        store = self._store_of(broker)
        if reply is None or store is None or not reply.is_of_this_life:
            return
        if reply.is_success or reply.response.code == ResponseCode.QUERY_NOT_FOUND:
            result = _result_of(reply)
            ledger = self.run.accounts[broker].ledger
            limit = _UNIQUE_QUERY_MAX if is_unique else max(0, min(most, idx.ANSWERS_MAX))
            asked = topic, key
            self.run.report(idx.check_lookup_answer(store, ledger, asked, window_ms, result, dispatched_to, most=limit))

    # -- ids ---------------------------------------------------------------------------------------

    def _look_by_id(self) -> None:
        broker = self.stream.choice(self._queues, "broker").broker
        self._draw_slave(broker)
        put, ledger = self._draw_put(broker), self.run.accounts[broker].ledger
        if put is None or put.physical_offset is None:
            return
        offset = put.physical_offset
        if self._forms.chance(_EXTREME_CHANCE, "no offset of the log"):
            offset = self._forms.choice(_NO_OFFSETS, "offset")
        elif self.stream.chance(_INSIDE_RECORD_CHANCE, "beside"):
            offset += self.stream.randint(1, put.record_bytes - 1, "bytes after")
        is_there = put.name not in ledger.lost_puts and offset == put.physical_offset
        must_be_there = is_there and offset + put.record_bytes <= self._dispatched_to(broker)
        must_be_there &= self._begin_of_log(broker) <= offset
        reply = self.ask(broker, make_request(RequestCode.VIEW_MESSAGE_BY_ID, offset=offset))
        if reply is None or not reply.is_of_this_life:
            return
        if reply.response.code not in (ResponseCode.SUCCESS, ResponseCode.SYSTEM_ERROR):
            return
        must_be_there = must_be_there and not ledger.may_be_removed(put)
        found = pulled_records(reply.response.body) if reply.is_success else []
        self.run.report(lookups.check_viewed_message(ledger, put, offset, found, must_be_there=must_be_there))

    # -- queues ------------------------------------------------------------------------------------

    def _look_at_queue(self) -> None:
        queue = self.stream.choice(self._queues, "queue")
        self._draw_slave(queue.broker)
        if self._slave is not None and self._begin_of_log(queue.broker):
            return  # the slave began with its master's last file
        self._forms.choice(self._looks_at_queues, "look at a queue")(queue)

    def _look_at_bounds(self, queue: BrokerQueue) -> None:
        if self.stream.chance(_MISSING_CHANCE, "missing queue"):
            self._look_at_missing_queue(queue)
            return
        bounds = self.find_bounds(queue)
        if bounds is None or not bounds.low < bounds.high:
            return
        if self.stream.chance(0.5, "by time"):
            self._search_by_time(queue, bounds)
        else:
            self._find_earliest_time(queue)

    def find_bounds(self, queue: BrokerQueue) -> QueueBounds | None:
        asked_in, dispatched_to = self._start_of(queue.broker), self._dispatched_to(queue.broker)
        low = self._ask_about_queue(RequestCode.GET_MIN_OFFSET, queue, "offset")
        high = self._ask_about_queue(RequestCode.GET_MAX_OFFSET, queue, "offset")
        if low is None or high is None:
            return None
        found = QueueBounds(low, high)
        return found if self._check_bounds(queue, found, asked_in, dispatched_to) else None

    def _check_bounds(self, queue: BrokerQueue, found: QueueBounds, asked_in: object, dispatched_to: int) -> bool:
        """Check bounds in an answer. Return False if they cannot be judged.

        asked_in, dispatched_to: `_start_of` and `_dispatched_to` before the request.
        """
        ledger = self.run.accounts[queue.broker].ledger
        if asked_in != self._start_of(queue.broker) or queue.topic not in ledger.topics:
            return False
        if self._slave is not None and self._begin_of_log(queue.broker):
            return False  # the slave had no log before the request, and began with its master's last file meanwhile
        place = queue, self._slave
        known_in, before = self._bounds.get(place, (-1, QueueBounds(0, 0)))
        before = before if known_in == asked_in else QueueBounds(0, 0)
        self.run.report(lookups.check_queue_bounds(ledger, queue.queue, found, before, dispatched_to))
        self._bounds[place] = asked_in, found
        return True

    def _look_at_topic(self, queue: BrokerQueue) -> None:
        """Ask for the bounds of all queues of a topic, and for the store times of their last messages."""
        asked_in, dispatched_to = self._start_of(queue.broker), self._dispatched_to(queue.broker)
        reply = self.ask(queue.broker, make_request(RequestCode.GET_TOPIC_STATS_INFO, topic=queue.topic))
        if reply is None or not reply.is_success or not reply.is_of_this_life:
            return
        for place, figures in QUEUE_FIGURES.findall(reply.response.body):
            one, found = queue._replace(queue_id=msgspec.json.decode(place)["queueId"]), msgspec.json.decode(figures)
            bounds = QueueBounds(found["minOffset"], found["maxOffset"])
            if self._check_bounds(one, bounds, asked_in, dispatched_to):
                last_ms = self.store_time_at(one, bounds.high - 1).get(bounds.high - 1)
                self.run.report(lookups.check_last_time(one.queue, found["lastUpdateTimestamp"], last_ms))

    def _look_at_entries(self, queue: BrokerQueue) -> None:
        bounds = self.find_bounds(queue)
        if bounds is None:
            return
        first, count = self._forms.randbelow(bounds.high + 2, "first entry"), self._forms.choice(_COUNTS, "entries")
        fields = {"topic": queue.topic, "queueId": queue.queue_id, "index": first, "count": count}
        reply = self.ask(queue.broker, make_request(RequestCode.QUERY_CONSUME_QUEUE, **fields))
        ledger = self.run.accounts[queue.broker].ledger
        if reply is None or not reply.is_of_this_life or queue.topic not in ledger.topics:
            return
        answer: dict[str, Any] = {"minQueueIndex": 0 if not ledger.expired_to else bounds.high, "queueData": []}
        answer |= msgspec.json.decode(reply.response.body) if reply.is_success else {}
        low = answer["minQueueIndex"]
        if low > max(first, bounds.low):
            return  # messages have expired, perhaps between the entries and the begin of the queue
        entries = [lookups.ListedEntry(each["physicOffset"], each["physicSize"]) for each in answer["queueData"]]
        by_offset, asked = dict(enumerate(entries, max(first, low))), range(first, first + count)
        known = QueueBounds(low, bounds.high)
        self.run.report(lookups.check_queue_entries(ledger, queue.queue, asked, by_offset, known))

    def _ask_about_queue(self, code: RequestCode, queue: BrokerQueue, field: str, **more: object) -> int | None:
        """Return a number from the answer, None without an answer since the broker's last start."""
        reply = self.ask(queue.broker, make_request(code, topic=queue.topic, queueId=queue.queue_id, **more))
        return reply.field(field) if reply is not None and reply.is_success and reply.is_of_this_life else None

    def _search_by_time(self, queue: BrokerQueue, bounds: QueueBounds) -> None:
        wanted_ms = self._draw_time_ms(queue, bounds)
        code = RequestCode.SEARCH_OFFSET_BY_TIMESTAMP
        offset = self._ask_about_queue(code, queue, "offset", timestamp=wanted_ms)
        if offset is None or not self.run.accounts[queue.broker].has_steady_clock:
            return
        times: dict[int, int] = {}
        for near in {bounds.low, *range(max(offset - 1, bounds.low), offset + 2)}:
            times |= self.store_time_at(queue, near)
        per_file = self.plan.consume_queue_bytes // ENTRY_BYTES
        self.run.report(lookups.check_offset_by_time(queue.queue, wanted_ms, offset, times, bounds, per_file))

    def _draw_time_ms(self, queue: BrokerQueue, bounds: QueueBounds) -> int:
        """Return a time of the last seconds, or the store time of a message, or 1 ms before it."""
        if self._forms.chance(_EXTREME_CHANCE, "extreme time"):
            return self._forms.choice(_EXTREME_TIMES_MS, "time")
        if self.stream.chance(_STORE_TIME_CHANCE, "a store time"):
            at = self.stream.choice((bounds.low, self.stream.randint(bounds.low, bounds.high - 1, "message")), "at")
            stored_ms = self.store_time_at(queue, at).get(at)
            if stored_ms is not None:
                return stored_ms - self.stream.randbelow(2, "ms before")
        return self.world.clock.now_ms() - self.stream.randbelow(_AGO_MS_MAX, "ms ago")

    def _look_at_missing_queue(self, queue: BrokerQueue) -> None:
        """Ask about a queue or topic that does not exist. The answers are those for an empty queue."""
        topic, other = queue.topic, (_MISSING, f"%RETRY%{_MISSING}", f"%DLQ%{_MISSING}")
        after_last = topic, self.plan.queues_per_topic
        places = after_last, after_last, (topic, 1 << 30), (topic, -1), *((each, 0) for each in other)
        missing = BrokerQueue(queue.broker, *self._forms.choice(places, "what is missing"))
        now_ms = self.world.clock.now_ms()
        for code, field, expected in (
            (RequestCode.GET_MIN_OFFSET, "offset", 0),
            (RequestCode.GET_MAX_OFFSET, "offset", 0),
            (RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, "offset", 0),
            (RequestCode.GET_EARLIEST_MSG_STORETIME, "timestamp", -1),
        ):
            found = self._ask_about_queue(code, missing, field, timestamp=now_ms)
            if found is not None:
                self.run.report(lookups.check_missing_queue(missing.queue, field, expected, found))

    def _find_earliest_time(self, queue: BrokerQueue) -> None:
        answered_ms = self._ask_about_queue(RequestCode.GET_EARLIEST_MSG_STORETIME, queue, "timestamp")
        if answered_ms is None:
            return
        bounds = self.find_bounds(queue)  # the begin of a queue only grows, so the first message was the same before
        if bounds is not None and bounds.low == 0:
            first_ms = self.store_time_at(queue, 0).get(0)
            self.run.report(lookups.check_earliest_time(queue.queue, answered_ms, first_ms))

    def store_time_at(self, queue: BrokerQueue, offset: int) -> dict[int, int]:
        """Return queue offset -> store time of the message there, empty without a message."""
        command = pull_command(*queue.queue, offset, EVERYTHING, most=1, suspend_ms=0, group=GROUP)
        reply, ledger = self.ask(queue.broker, command), self.run.accounts[queue.broker].ledger
        if reply is None or not reply.is_of_this_life:
            return {}
        is_redirected = self._slave is not None and not self.plan.broker.slaves_are_read
        if is_redirected and reply.response.code in PULLED:
            answer = PullAnswer.of(offset, reply.response, ())
            self.run.report(check_slave_answer(ledger, answer, may_skip=False, is_read=False))
        if not reply.is_success:
            return {}
        if self._slave is None:
            ledger.groups.add(GROUP)
        records = [record for record, _ in pulled_records(reply.response.body)]
        return {each.queue_offset: each.store_timestamp_ms for each in records if each.queue_offset == offset}


def _result_of(reply: Reply) -> QueryMessageResult:
    body, at, result = reply.response.body, 0, QueryMessageResult()
    if "indexLastUpdatePhyoffset" in reply.response.ext_fields:  # a query by key, not by id
        result.index_last_update_physical_offset = reply.field("indexLastUpdatePhyoffset")
    for record, _ in pulled_records(body):
        result.physical_offsets.append(record.physical_offset)
        result.records.append(body[at : at + record.size_bytes])
        at += record.size_bytes
    return result
