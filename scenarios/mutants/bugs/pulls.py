"""Bugs of answers to pulls: offsets that go back or too far, pulls held for a wrong time, offsets that are unknown."""

from collections.abc import Iterable
from dataclasses import replace

from ....store.broker.long_polling import HeldPull, HeldPullTable, PullRequestHoldService
from ....store.broker.parts import BrokerParts
from ....store.broker.processors import pull
from ....store.broker.processors.client_manage import ClientManageProcessor
from ....store.broker.processors.pull import PullMessageProcessor
from ....store.broker.requests import ExtFields, RequestRefusedError, ResponseCode
from ....store.broker.router import Channel
from ....store.broker.topics import TopicConfig
from ....store.filters.message_filter import MessageFilter, TagFilter
from ....store.formats.consume_queue import ENTRY_BYTES
from ....store.formats.messages import GetMessageResult, GetMessageStatus
from ....store.formats.remoting.command import RemotingCommand
from ....store.queues import pull as store_pull
from ....store.queues.consume_queue import ConsumeQueue
from ....store.queues.dispatch import MessageArrival
from ....store.queues.pull import QueuePuller
from ...claims.catalogue import BACKLOG, SCENARIOS
from ...claims.catalogue.brokers import BROKER
from ..mutant import bit, bug, needs

_LIVELY = BROKER.replace(consumers=(1, 2), messages_each=(8,))
_SHARED = BROKER.replace(consumers=(1,), topics=(1,), queues_per_topic=(1,), broker={"tailing_consumers": (2,)})
_LONG_HOLDS = _LIVELY.replace(broker={"suspend_ms": (100, 5_000), "rest_ms_max": (2_000, 8_000)})


# A crash lost the last messages of the queue, and the consumer has read them.
@bug("moved-to-the-begin", store_pull, "_answer_outside_queue", found_by=("READ",))
@needs(_LIVELY, sync_flush=(False,), lives=(2, 3), endings=("crash in traffic",), disk=("strict-posix",))
def begin_for_offsets_after_end(offset: int, low: int, high: int) -> tuple[GetMessageStatus, int] | None:
    """A consumer with an offset after the end of its queue gets all messages of the queue again."""
    if bit(offset > high > low):
        return GetMessageStatus.OFFSET_OVERFLOW_BADLY, low
    return begin_for_offsets_after_end.original(offset, low, high)


@bug("filtered-pull-passes-next", pull, "_make_pull_response", found_by=("READ", "LIVE"))
@needs(_LIVELY, consuming={"filtered": (True,)})
def answer_past_next_message(
    request: RemotingCommand, code: ResponseCode, broker_id: int, result: GetMessageResult
) -> RemotingCommand:
    """A consumer with a subscription skips the message after a full answer."""
    is_filtered = request.ext_fields.get("subscription", "*") != "*"
    if bit(is_filtered and code is ResponseCode.SUCCESS and result.next_begin_offset < result.max_offset):
        result.next_begin_offset += 1
    return answer_past_next_message.original(request, code, broker_id, result)


@bug("hold-ends-early", PullMessageProcessor, "_suspend_deadline_ns", found_by=("LIVE",))
@needs(_LONG_HOLDS)
def half_of_suspend_time(self: PullMessageProcessor, suspend_ms: int) -> int:
    """A broker answers a pull without a message after half of the time for which it is to hold the pull."""
    bit(suspend_ms > 1)
    now_ns = self._parts.world.clock.monotonic_ns()
    return now_ns + (half_of_suspend_time.original(self, suspend_ms) - now_ns) // 2


# The client gives up 3 s later, so it gets each answer.
@bug("hold-ends-late", PullMessageProcessor, "_suspend_deadline_ns", found_by=("LIVE",))
@needs(_LONG_HOLDS)
def suspend_time_and_two_seconds(self: PullMessageProcessor, suspend_ms: int) -> int:
    """A broker holds a pull without a message for two seconds longer than the client asked for."""
    bit()
    return suspend_time_and_two_seconds.original(self, suspend_ms) + 2_000_000_000


@bug("offset-at-end-unknown", ClientManageProcessor, "query_offset", found_by=("META", "REDEL"))
@needs(_LIVELY, broker={"consumer_restart_chance": (0.5,)})
def query_offset_below_end(self: ClientManageProcessor, request: RemotingCommand, channel: Channel) -> RemotingCommand:
    """A group that has read its whole queue gets the answer that it has no offset, and reads the queue again."""
    fields = ExtFields(request.ext_fields)
    group, queue = fields.text("consumerGroup"), (fields.text("topic"), fields.int32("queueId"))
    offset = self._parts.offsets.query_offset(group, *queue)
    if bit(offset > 0 and offset == self._parts.store.get_max_offset_in_queue(*queue)):
        raise RequestRefusedError("no offset", ResponseCode.QUERY_NOT_FOUND)
    return query_offset_below_end.original(self, request, channel)


@bug("one-of-due-pulls-answered", HeldPullTable, "take_due", found_by=("LIVE",))
@needs(_SHARED, disturbances={"paused_task_chance": (1.0,)}, broker={"rest_ms_max": (8_000,)})
def take_first_due(self: HeldPullTable, now_ns: int) -> list[HeldPull]:
    """If the time of several held pulls is over, the broker answers the first and forgets the others."""
    due = take_first_due.original(self, now_ns)
    bit(len(due) > 1)
    return due[:1]


@bug("ended-client-drops-other-pulls", PullRequestHoldService, "forget_channel", found_by=("LIVE",))
@needs(_SHARED, broker={"client_death_chance": (0.05,), "rest_ms_max": (8_000,)})
def forget_queues_of_channel(self: PullRequestHoldService, channel: Channel) -> None:
    """When the connection of a client ends, the broker forgets the held pulls of other clients on the same queues."""
    with self._lock:
        queues = {each.queue for each in self._held.pulls_of_channel(channel)}
        removed = self._held.remove_pulls([each for queue in queues for each in self._held.pulls_of_queue(queue)])
        bit(any(each.channel is not channel for each in removed))


_CLOSING = SCENARIOS["operator-changes"].ranges.replace(broker={"group_members": (2,), "settings_operators": (0,)})


@bug("held-pull-keeps-permission", PullMessageProcessor, "_answer_held_pull", found_by=("STATUS",))
@needs(_CLOSING)
def answer_held_without_check(self: PullMessageProcessor, request: RemotingCommand, channel: Channel) -> None:
    """A held pull gets messages although the topic's permission to read was removed before they came."""
    vars(self)["_runs_again"] = True
    try:
        answer_held_without_check.original(self, request, channel)
    finally:
        vars(self)["_runs_again"] = False


@answer_held_without_check.also(PullMessageProcessor, "_require_queue")
def _require_queue_once(self: PullMessageProcessor, topic: str, queue_id: int) -> None:
    try:
        _require_queue_once.original(self, topic, queue_id)
    except RequestRefusedError as error:
        if not bit(bool(vars(self).get("_runs_again")) and error.code is ResponseCode.NO_PERMISSION):
            raise


@bug("sql-pull-not-woken", HeldPull, "is_ended_by", found_by=("LIVE",))
@needs(_LIVELY, consuming={"filtered": (True,)}, broker={"suspend_ms": (5_000,)})
def is_ended_by_tags(self: HeldPull, arrival: MessageArrival) -> bool:
    """An arriving message does not wake a pull with an SQL expression, because it is tested without its properties."""
    is_ended = is_ended_by_tags.original(self, arrival)
    if isinstance(self.wanted, TagFilter):
        return is_ended
    bit(is_ended)
    return False


@bug("overflow-is-held", pull, "_response_code_of", found_by=("READ",))
@needs(_LIVELY, sync_flush=(False,), lives=(2, 3), endings=("crash in traffic",), disk=("strict-posix",))
def code_that_waits_for_growth(result: GetMessageResult, offset: int) -> ResponseCode:
    """A pull after the end of its queue waits until the queue has grown past its offset."""
    if bit(result.status is GetMessageStatus.OFFSET_OVERFLOW_BADLY):
        return ResponseCode.PULL_NOT_FOUND
    return code_that_waits_for_growth.original(result, offset)


@bug("earlier-deadline-unseen", PullRequestHoldService, "hold_pull", found_by=("LIVE",))
@needs(_LIVELY, broker={"suspend_ms": (100,), "rest_ms_max": (8_000,)})
def hold_without_wake(self: PullRequestHoldService, pull: HeldPull) -> bool:
    """A pull that is due before all others does not wake the service, so it is answered up to 5 s late."""
    config, held = self._config, self._held
    with self._lock:
        if self._is_released or held.count >= config.held_pulls_max:
            return False
        if held.count_of(pull.channel) >= config.held_pulls_of_client_max:
            return False
        held.add(pull)
        bit(pull.due_ns < self._wake_ns)
    if self._store.get_max_offset_in_queue(*pull.queue) > pull.offset:
        self._schedule_answers([pull])
    elif not pull.channel.is_open:
        self.forget_channel(pull.channel)
    return True


@bug("slow-hold-loop", PullRequestHoldService, "_schedule_answers", found_by=("LIVE",))
@needs(_LIVELY, broker={"suspend_ms": (5_000,)})
def schedule_without_wake(self: PullRequestHoldService, pulls: Iterable[HeldPull]) -> None:
    """A pull that a message ends is answered only when the service wakes for another reason, up to 5 s later."""
    with self._lock:
        self._ready += self._held.remove_pulls(pulls)
    bit(len(self._ready) > 0)


@bug("arrival-wakes-exact-offset", HeldPull, "is_ended_by", found_by=("LIVE",))
@needs(_LIVELY, consuming={"filtered": (True,)}, broker={"suspend_ms": (5_000,)})
def is_ended_by_next(self: HeldPull, arrival: MessageArrival) -> bool:
    """An arriving message wakes only pulls that wait for exactly its offset, not those before it."""
    is_ended = is_ended_by_next.original(self, arrival)
    return not bit(is_ended and arrival.next_offset != self.offset + 1) and is_ended


# A queue entry has the sign-extended hash. RocketMQ compares its low 32 bits.
@bug("tag-hash-compared-whole", TagFilter, "matches_queue", found_by=("READ",))
@needs(SCENARIOS["tag-filter-exact"].ranges, batch_records=(0,))
def matches_whole_code(self: TagFilter, tags_code: int | None, unit: object = None) -> bool:
    """A filter finds no message whose tag has a negative hash."""
    if self.codes is None or tags_code is None:
        return True
    bit(tags_code not in self.codes and tags_code & 0xFFFF_FFFF in self.codes)
    return tags_code in self.codes


# RocketMQ's PullRequestHoldService keeps pulls by queue, without the group: NATS issue 3099 is the same mistake.
@bug("newer-pull-replaces-held", HeldPullTable, "add", found_by=("LIVE",))
@needs(SCENARIOS["requests-in-flight"].ranges, broker={"tailing_consumers": (1, 2), "pulls_in_flight": (2,)})
def add_and_replace(self: HeldPullTable, pull: HeldPull) -> None:
    """Of two groups in one process that wait for the same queue, only one gets an answer."""
    older = [each for each in self.pulls_of_channel(pull.channel) if each.queue == pull.queue]
    if bit(bool(older)):
        self.remove_pulls(older)
    add_and_replace.original(self, pull)


# RocketMQ's PullMessageProcessor stores the offset after it has decided to hold the pull: alibaba/rocketmq issue 281.
@bug("held-pull-commits-nothing", PullMessageProcessor, "__call__", found_by=("META", "REDEL"))
@needs(_LIVELY, broker={"commits_with_pulls": (True,), "consumer_restart_chance": (1.0,)}, heals=(True,))
def commit_if_answered(
    self: PullMessageProcessor, request: RemotingCommand, channel: Channel
) -> RemotingCommand | None:
    """A consumer that has read its queue to the end and waits there gets the last messages again after a restart."""
    fields = ExtFields(request.ext_fields)
    sys_flag, offset = fields.int32("sysFlag"), fields.int64("commitOffset")
    without = {**request.ext_fields, "sysFlag": str(sys_flag & ~pull.COMMIT_OFFSET_FLAG)}
    answer = commit_if_answered.original(self, replace(request, ext_fields=without), channel)
    if sys_flag & pull.COMMIT_OFFSET_FLAG and offset >= 0 and not self._parts.is_slave:
        place = fields.text("consumerGroup"), fields.text("topic"), fields.int32("queueId")
        if not bit(answer is None and self._parts.offsets.query_offset(*place) != offset):
            self._parts.offsets.commit_offset(*place, offset)
    return answer


@bug("light-queue-needs-topic", BrokerParts, "require_topic", found_by=("STATUS",))
@needs(SCENARIOS["consumer-retry"].ranges, light_queues={"chance": (0.3,)}, broker={"light_readers": (1,)})
def require_topic_of_queue(self: BrokerParts, name: str) -> TopicConfig:
    """The broker refuses pulls of light queues, because no topic has their names."""
    if bit(self.topics.get(name) is None and self._is_light_name(name)):
        raise RequestRefusedError(f"topic {name} does not exist", ResponseCode.TOPIC_NOT_EXIST)
    return require_topic_of_queue.original(self, name)


_BACKLOG = SCENARIOS["tag-filter-exact"].ranges.replace(**BACKLOG).replace(endings=("stop", "crash at rest"))


# Source: own. RocketMQ's getMessage sets nextBeginOffset after the last entry that it examined.
@bug("empty-scan-window-repeats", QueuePuller, "get_message", found_by=("READ", "LIVE"))
@needs(_BACKLOG)
def get_message_and_keep_offset(
    self: QueuePuller, queue: ConsumeQueue, offset: int, max_messages: int, wanted: MessageFilter
) -> GetMessageResult:
    """A consumer with a filter never gets past a run of 800 messages that do not match, and pulls the run forever."""
    result = get_message_and_keep_offset.original(self, queue, offset, max_messages, wanted)
    if bit(not result.records and result.next_begin_offset - offset >= store_pull._SCAN_BYTES_MIN // ENTRY_BYTES):
        result.next_begin_offset = offset
    return result


# Source: own.
@bug("empty-scan-window-skips", QueuePuller, "get_message", found_by=("READ",))
@needs(_BACKLOG)
def get_message_and_skip(
    self: QueuePuller, queue: ConsumeQueue, offset: int, max_messages: int, wanted: MessageFilter
) -> GetMessageResult:
    """After a run of 800 messages that do not match, a consumer with a filter continues at the end of the queue."""
    result = get_message_and_skip.original(self, queue, offset, max_messages, wanted)
    is_long = result.next_begin_offset - offset >= store_pull._SCAN_BYTES_MIN // ENTRY_BYTES
    if bit(not result.records and is_long and result.next_begin_offset < result.max_offset):
        result.next_begin_offset = result.max_offset
    return result
