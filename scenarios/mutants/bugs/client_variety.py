"""Bugs that need clients which differ: in filters, forms of requests, queues, times, or how fast they read."""

from contextlib import suppress
from dataclasses import replace

from ....store import message_store
from ....store.broker.long_polling import PullRequestHoldService
from ....store.broker.parts import BrokerParts
from ....store.broker.processors import send
from ....store.broker.processors.pull import PullMessageProcessor
from ....store.broker.processors.send import SendMessageProcessor
from ....store.broker.request_pool import PooledRequest, RequestPool
from ....store.broker.requests import RequestCode, RequestRefusedError
from ....store.broker.router import Channel, LateResponse
from ....store.broker.sending import SendChecks, SendRequest
from ....store.broker.session import Session
from ....store.broker.subscriptions import SubscriptionData
from ....store.broker.topics import TopicConfig, TopicConfigManager
from ....store.filters import sql_expression
from ....store.filters.message_filter import MessageFilter
from ....store.filters.sql_expression import NotComparableError
from ....store.formats.messages import PutMessageResult
from ....store.formats.remoting.command import RemotingCommand
from ....store.formats.scan import ScannedRecord
from ....store.log.commit_log import CommitLog
from ....store.log.segment import Segment
from ....store.queues import pull as store_pull
from ....store.queues.consume_queue import ConsumeQueue
from ....store.queues.dispatch import ArrivalNotifier, MessageArrival
from ....store.services.consumer_filter import ConsumerFilterData, SqlMessageFilter
from ....store.world import Files
from ...claims.catalogue import SCENARIOS
from ..mutant import bit, bug, needs

_IN_FLIGHT = SCENARIOS["requests-in-flight"].ranges
_PULLING = SCENARIOS["consumer-order"].ranges
_OPERATED = SCENARIOS["operator-changes"].ranges
_LOOKING = SCENARIOS["broker-lookups"].ranges
_CRASHING = SCENARIOS["broker-crash"].ranges
_LIGHT = SCENARIOS["consumer-retry"].ranges.replace(light_queues={"chance": (0.3,)}, broker={"light_readers": (1,)})


# -- pulls -------------------------------------------------------------------------------------------------------------


@bug("first-filter-wakes-all", PullRequestHoldService, "on_arriving", found_by=("LIVE",))
@needs(_PULLING, consuming={"filtered": (True,)}, broker={"tailing_consumers": (1, 2)})
def wake_by_first_filter(self: PullRequestHoldService, arrival: MessageArrival) -> None:
    """A message ends the pulls that wait at its queue only if it matches the oldest one."""
    held = self._held.pulls_of_queue((arrival.topic, arrival.queue_id))
    if bit(any(pull.is_ended_by(arrival) for pull in held) and not held[0].is_ended_by(arrival)):
        return
    wake_by_first_filter.original(self, arrival)


# After locationtech/geomesa#7024, where < compares numbers as texts.
@bug("sql-compares-numbers-as-text", sql_expression, "compare", found_by=("READ", "PREFIX", "LIVE"))
@needs(_PULLING, consuming={"filtered": (True,)})
def compare_as_text(left: str | bool | int | float, right: str | bool | int | float) -> int:
    """An SQL filter compares a property with an integer by their texts, so 10 is less than 9."""
    number = right if isinstance(left, str) else left
    if isinstance(left, str) == isinstance(right, str) or type(number) is bool or not isinstance(number, int):
        order: int = compare_as_text.original(left, right)
        return order
    first, second = str(left), str(right)
    order = (first > second) - (first < second)
    with suppress(NotComparableError):
        bit(order != compare_as_text.original(left, right))
    return order


@bug("registered-filter-replaces-expression", SubscriptionData, "message_filter", found_by=("READ",))
@needs(
    _PULLING,
    consuming={"filtered": (True,)},
    broker={"registers_filters": (True,), "tailing_consumers": (1, 2)},
    settings={"enable_consume_queue_ext": (True,)},
)
def use_registered_filter(self: SubscriptionData, registered: ConsumerFilterData | None = None) -> MessageFilter:
    """A pull with another SQL expression than its group has registered gets the messages of the registered one."""
    if registered is None or self.is_tag or self.class_filter_mode:
        return use_registered_filter.original(self, registered)
    bit(registered.expression.text != self.expression)
    return SqlMessageFilter.of_consumer(registered)


@bug("pull-commits-where-it-reads", PullMessageProcessor, "_pull", found_by=("META", "REDEL"))
@needs(_PULLING, broker={"commits_with_pulls": (True,), "consumer_restart_chance": (1.0,)})
def commit_read_offset(
    self: PullMessageProcessor, request: RemotingCommand, channel: Channel, *, may_hold: bool
) -> RemotingCommand | None:
    """A pull commits the offset that it reads from, although earlier messages are still processed."""
    fields = dict(request.ext_fields)
    bit(bool(int(fields["sysFlag"]) & 1) and fields["commitOffset"] != fields["queueOffset"])
    fields["commitOffset"] = fields["queueOffset"]
    return commit_read_offset.original(self, replace(request, ext_fields=fields), channel, may_hold=may_hold)


@bug("stop-answers-pulls-of-one-queue", PullRequestHoldService, "release", found_by=("LIVE",))
@needs(_PULLING, endings=("stop",), queues_per_topic=(2,))
def release_one_queue(self: PullRequestHoldService) -> None:
    """A broker that stops answers the held pulls of one queue, and the clients of other queues wait in vain."""
    with self._lock:
        self._is_released = True
        queues = self._held.queues
        waiting = self._held.remove_pulls(self._held.pulls_of_queue(queues[0])) if queues else []
    bit(len(queues) > 1)
    for pull in waiting:
        self._answer_pull(pull)


@bug("light-arrival-wakes-nobody", ArrivalNotifier, "notify", found_by=("LIVE",))
@needs(_LIGHT)
def notify_of_own_queue(self: ArrivalNotifier, record: ScannedRecord) -> None:
    """A pull that waits at a light queue gets a new message only at the next check of all queues."""
    listeners, own = self._listeners, (record.topic, record.queue_id)

    def listen(arrival: MessageArrival) -> None:
        for listener, awaits in listeners:
            if (arrival.topic, arrival.queue_id) == own:
                listener(arrival)
            else:
                bit(awaits(arrival.topic, arrival.queue_id))

    self._listeners = ((listen, lambda topic, queue_id: True),)
    notify_of_own_queue.original(self, record)
    self._listeners = listeners


@bug("queue-after-last-is-pulled", PullMessageProcessor, "_require_queue", found_by=("STATUS",))
@needs(_OPERATED)
def require_one_queue_more(self: PullMessageProcessor, topic: str, queue_id: int) -> None:
    """A broker does not refuse a pull of the queue after a topic's last one."""
    is_next = self._parts.require_topic(topic).read_queue_nums == queue_id
    require_one_queue_more.original(self, topic, queue_id - bit(is_next))


# -- sends -------------------------------------------------------------------------------------------------------------


@bug("words-are-no-fields", SendMessageProcessor, "send", found_by=("STATUS",))
@needs(_IN_FLIGHT)
def send_with_letters(
    self: SendMessageProcessor, request: RemotingCommand, channel: Channel
) -> RemotingCommand | LateResponse:
    """A broker refuses sends of clients that use words as the names of fields."""
    if bit(request.code == RequestCode.SEND_MESSAGE):
        raise RequestRefusedError("a: expected a string, found no such field")
    return send_with_letters.original(self, request, channel)


@bug("chosen-queue-not-named", SendMessageProcessor, "_make_send_response", found_by=("QOFF",))
@needs(_IN_FLIGHT, queues_per_topic=(1,))
def answer_with_wanted_queue(
    self: SendMessageProcessor, request: RemotingCommand, queue_id: int, result: PutMessageResult
) -> RemotingCommand:
    """If the broker chooses the queue of a message, its answer does not name the queue."""
    wanted = int(request.ext_fields["queueId" if request.code == RequestCode.SEND_MESSAGE else "e"])
    return answer_with_wanted_queue.original(self, request, wanted if bit(wanted < 0) else queue_id, result)


@bug("topic-as-wide-as-template", TopicConfigManager, "create_by_example", found_by=("META", "QOFF", "LIVE"))
@needs(_IN_FLIGHT, broker_settings={"auto_create_topic_enable": (True,)})
def create_like_template(
    self: TopicConfigManager, topic: str, example: str, queue_nums: int, sys_flag: int = 0
) -> TopicConfig | None:
    """A topic for a first message has more queues than its producer asked for, which no consumer reads."""
    template = self.get(example)
    if template is not None and bit(template.write_queue_nums > queue_nums and self.get(topic) is None):
        queue_nums = template.write_queue_nums
    return create_like_template.original(self, topic, example, queue_nums, sys_flag)


@bug("queue-after-last-is-written", SendChecks, "find_or_create_topic", found_by=("STATUS", "CQ-VALID", "PREFIX"))
@needs(_OPERATED)
def accept_one_queue_more(self: SendChecks, send: SendRequest) -> TopicConfig:
    """A broker stores a message for the queue after a topic's last one, which no consumer reads."""
    known = self._parts.topics.get(send.topic)
    if known is not None and bit(send.queue_id == known.queue_nums):
        send = send._replace(queue_id=send.queue_id - 1)
    return accept_one_queue_more.original(self, send)


@bug("delivery-time-in-batch-ignored", send, "refuse_timer_properties_in_batch", found_by=("STATUS", "PREFIX"))
@needs(_OPERATED)
def accept_delivery_times(body: bytes) -> None:
    """A broker accepts a batch with a delivery time, and delivers its messages at once."""
    try:
        accept_delivery_times.original(body)
    except RequestRefusedError:
        bit(True)


# -- requests and connections ------------------------------------------------------------------------------------------


@bug("full-queue-drops-requests", RequestPool, "enqueue", found_by=("LIVE",))
@needs(
    _IN_FLIGHT,
    heals=(True,),
    broker={"queued_requests_max": (1,), "tasks_each": (1,), "sends_in_flight": (3, 4), "send_timeout_ms": (3_000,)},
)
def drop_if_full(self: RequestPool, request: PooledRequest) -> None:
    """A broker does not answer a request that finds its queue full."""
    if bit(self.count >= self.limits.queue_capacity):
        request.session.count_request_done(request.size_bytes)
    else:
        drop_if_full.original(self, request)


@bug("send-without-wait-is-not-durable", send, "_parse_wait_property", found_by=("STATUS", "DUR", "REP"))
@needs(_CRASHING, sync_flush=(True,), flush={"sync_timeout_ms": (5_000,)})
def wait_only_if_asked(text: str | None) -> bool:
    """A broker answers a send without the property WAIT before it is durable."""
    bit(text is None)
    return text is not None and wait_only_if_asked.original(text)


_stuck: set[Session] = set()


@bug("slow-reader-stays-paused", Session, "_is_within_limits", found_by=("LIVE",))
@needs(_IN_FLIGHT, heals=(True,), broker={"output_pause_bytes": (100,), "buffer_bytes": (300,)})
def stay_paused(self: Session) -> bool:
    """A client that had too many unread answers is not heard again after it has read them."""
    if bit(self.output_bytes > self._keeper.limits.output_pause_bytes):
        _stuck.add(self)
    return self not in _stuck and stay_paused.original(self)


# -- lookups -----------------------------------------------------------------------------------------------------------


@bug("light-queue-has-no-end", BrokerParts, "has_queue", found_by=("READ",))
@needs(_LIGHT)
def has_queue_of_topic(self: BrokerParts, topic: str, queue_id: int) -> bool:
    """The end of a light queue is always 0, because no topic has its name."""
    if bit(self.topics.get(topic) is None and self._is_light_name(topic)):
        return False
    return has_queue_of_topic.original(self, topic, queue_id)


@bug("missing-queue-begins-before-zero", BrokerParts, "min_offset", found_by=("READ",))
@needs(_LOOKING)
def begin_in_store(self: BrokerParts, topic: str, queue_id: int) -> int:
    """The begin of a missing queue is -1, an offset that no client can pull."""
    found = self.store.get_min_offset_in_queue(topic, queue_id)
    bit(found < 0)
    return found


@bug("time-search-in-newest-file", store_pull, "_segment_by_time", found_by=("READ", "META"))
@needs(_LOOKING, consume_queue_bytes=(100,))
def newest_segment(files: Files, queue: ConsumeQueue, timestamp_ms: int) -> Segment | None:
    """A search by time finds only messages in the newest file of a queue."""
    found, segments = newest_segment.original(files, queue, timestamp_ms), queue.queue.segments
    bit(bool(segments) and found is not segments[-1])
    return segments[-1] if segments else found


@bug("exact-time-finds-next", message_store, "offset_by_time", found_by=("READ", "META"))
@needs(_LOOKING)
def search_after_exact_time(
    files: Files, commit_log: CommitLog, queue: ConsumeQueue, timestamp_ms: int, log_limit: int
) -> int:
    """A search by the exact store time of a message finds the message after it."""
    found = search_after_exact_time.original(files, commit_log, queue, timestamp_ms, log_limit)
    entry = queue.entry(found) if found + 1 < queue.max_offset else None
    record = None if entry is None else commit_log.record_at(entry.physical_offset, log_limit)
    return found + (record is not None and bit(record.store_timestamp_ms == timestamp_ms))
