"""Bugs of answers to pulls: offsets that go back or too far, pulls held for a wrong time, offsets that are unknown."""

from ....store.broker.long_polling import HeldPull, HeldPullTable, PullRequestHoldService
from ....store.broker.processors import pull
from ....store.broker.processors.client_manage import ClientManageProcessor
from ....store.broker.processors.pull import PullMessageProcessor
from ....store.broker.requests import ExtFields, RequestRefusedError, ResponseCode
from ....store.broker.router import Channel
from ....store.formats.messages import GetMessageResult, GetMessageStatus
from ....store.formats.remoting.command import RemotingCommand
from ....store.queues import pull as store_pull
from ...claims.catalogue.brokers import BROKER
from ..mutant import bit, bug, needs

_LIVELY = BROKER.replace(consumers=(1, 2), messages_each=(8,))
_SHARED = BROKER.replace(consumers=(1,), topics=(1,), queues_per_topic=(1,), broker={"tailing_consumers": (2,)})
_LONG_HOLDS = _LIVELY.replace(broker={"suspend_ms": (100, 5_000), "rest_ms_max": (2_000, 8_000)})


# A crash lost the last messages of the queue, and the consumer has read them.
@bug("moved-to-the-begin", store_pull, "_answer_outside_queue", found_by=("READ",))
@needs(_LIVELY, sync_flush=(False,), lives=(2, 3), endings=("crash in traffic",), disk=("strict-posix",))
def begin_for_offsets_after_end(offset: int, low: int, high: int) -> tuple[GetMessageStatus, int] | None:
    """A consumer whose offset is after the end of its queue gets all messages of the queue again."""
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


@bug("ended-client-takes-pulls-along", PullRequestHoldService, "forget_channel", found_by=("LIVE",))
@needs(_SHARED, broker={"client_death_chance": (0.05,), "rest_ms_max": (8_000,)})
def forget_queues_of_channel(self: PullRequestHoldService, channel: Channel) -> None:
    """When the connection of a client ends, the broker forgets the held pulls of other clients on the same queues."""
    with self._lock:
        queues = {each.queue for each in self._held.pulls_of_channel(channel)}
        removed = self._held.remove_pulls([each for queue in queues for each in self._held.pulls_of_queue(queue)])
        bit(any(each.channel is not channel for each in removed))
