"""Bugs that need other forms or targets of requests: batches, replies, second connections, dead letters."""

from dataclasses import replace

from ....store.broker.clients import ProducerManager
from ....store.broker.processors.client_manage import ClientManageProcessor
from ....store.broker.processors.send import SendMessageProcessor
from ....store.broker.requests import RequestCode, success_response
from ....store.broker.router import Channel, LateResponse
from ....store.broker.sending import SendChecks, SendRequest
from ....store.broker.topic_names import DLQ_GROUP_PREFIX
from ....store.broker.topics import TopicConfig, TopicConfigManager
from ....store.formats.messages import Message, PutMessageResult
from ....store.formats.remoting.command import RemotingCommand
from ...claims.catalogue import SCENARIOS
from ...claims.catalogue.brokers import GROUPS
from ..mutant import bit, bug, needs

_GROUPS = SCENARIOS["group-members"].ranges.replace(**GROUPS).replace(broker={"group_races": (0,)})
_BATCHES = SCENARIOS["broker-crash"].ranges.replace(messages={"batch_chance": (0.5,)})
_OPERATED = SCENARIOS["operator-changes"].ranges.replace(
    broker={"operators": (1,), "group_members": (0,)},
    queues_per_topic=(2,),
    messages_each=(8,),
    cluster={"slaves": (0,)},
)
_DEAD = SCENARIOS["consumer-dead-letters"].ranges


# After apache/rocketmq#6810 and #2435, where the table of clients has another connection than the client.
@bug("reply-to-first-connection", ProducerManager, "find_channel", found_by=("LIVE",))
@needs(_GROUPS)
def find_first_connection(self: ProducerManager, client_id: str) -> Channel | None:
    """A producer has connected again while its broken connection is still open: it gets no replies to its requests."""
    clients = [each for group in self.groups.values() for each in group]
    found = [each.channel for each in clients if each.client_id == client_id and each.channel.is_open]
    bit(bool(found) and found[0] is not find_first_connection.original(self, client_id))
    return found[0] if found else None


# After apache/rocketmq-client-cpp#363 and #152: of a batch, the broker stores one message.
@bug("batch-by-code-alone", SendMessageProcessor, "_send", found_by=("QOFF", "DUR", "STATUS"))
@needs(_BATCHES)
def send_by_code(
    self: SendMessageProcessor, request: RemotingCommand, send: SendRequest, channel: Channel
) -> RemotingCommand | LateResponse:
    """A batch with the code of a plain send, marked by its field `batch`, becomes one message."""
    bit(send.batch and request.code != RequestCode.SEND_BATCH_MESSAGE)
    return send_by_code.original(self, request, send._replace(batch=False), channel)


@bug("any-queue-is-one-to-read", SendChecks, "build_message", found_by=("QOFF",))
@needs(_OPERATED)
def choose_readable_queue(
    self: SendChecks, send: SendRequest, topic: TopicConfig, body: bytes, channel: Channel
) -> Message:
    """A broker that chooses the queue of a message also chooses queues to which producers may no longer write."""
    bit(send.queue_id < 0 and topic.read_queue_nums > topic.write_queue_nums)
    readable = replace(topic, write_queue_nums=topic.queue_nums)
    return choose_readable_queue.original(self, send, readable, body, channel)


@bug("chosen-queue-is-not-answered", SendMessageProcessor, "_make_send_response", found_by=("QOFF", "PREFIX", "READ"))
@needs(SCENARIOS["consumer-order"].ranges, queues_per_topic=(2,))
def answer_first_queue(
    self: SendMessageProcessor, request: RemotingCommand, queue_id: int, result: PutMessageResult
) -> RemotingCommand:
    """The answer to a message whose queue the broker has chosen names the first queue."""
    is_open = "-1" in (request.ext_fields.get("e"), request.ext_fields.get("queueId"))
    return answer_first_queue.original(self, request, 0 if bit(is_open and queue_id > 0) else queue_id, result)


@bug("leaver-by-client-id", ClientManageProcessor, "unregister_client", found_by=("LIVE",))
@needs(_GROUPS)
def unregister_all_connections(
    self: ClientManageProcessor, request: RemotingCommand, channel: Channel
) -> RemotingCommand:
    """A client that connected again, and ends its membership over the old connection, also loses the new one."""
    response, fields = unregister_all_connections.original(self, request, channel), request.ext_fields
    info = self._parts.consumers.find_group(group := fields.get("consumerGroup", ""))
    clients = {} if info is None else info.clients
    for other in [each for each, client in clients.items() if client.client_id == fields["clientID"]]:
        bit(True)
        self._parts.consumers.unregister(group, other, notify=True)
    return response


@bug("one-way-commit-ignored", ClientManageProcessor, "update_offset", found_by=("LIVE",))
@needs(_GROUPS)
def update_if_answered(self: ClientManageProcessor, request: RemotingCommand, channel: Channel) -> RemotingCommand:
    """A commit that wants no answer, as the usual one of a consumer, has no effect."""
    if bit(request.is_one_way):
        return success_response(request)
    return update_if_answered.original(self, request, channel)


@bug("dead-letters-unreadable", TopicConfigManager, "create", found_by=("LIVE",))
@needs(_DEAD)
def create_write_only(
    self: TopicConfigManager, topic: str, queue_nums: int, perm: int = 6, sys_flag: int = 0
) -> TopicConfig | None:
    """The topic of dead letters permits no reads, so nobody can look at what failed."""
    is_dead = bit(topic.startswith(DLQ_GROUP_PREFIX))
    return create_write_only.original(self, topic, queue_nums, 2 if is_dead else perm, sys_flag)
