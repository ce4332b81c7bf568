"""Bugs of answers to pulls: offsets that go back or too far, pulls held for a wrong time, offsets that are unknown."""

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
