"""Bugs of brokers that concern fields of requests at their limits, missing ones, and requests to the wrong broker."""

from dataclasses import replace

from ....store.broker import topic_names
from ....store.broker.long_polling import HeldPull
from ....store.broker.processors import pull
from ....store.broker.processors.pull import PullMessageProcessor
from ....store.broker.processors.send import SendMessageProcessor
from ....store.broker.requests import ExtFields, ResponseCode
from ....store.broker.router import Channel, LateResponse
from ....store.broker.sending import MAX_RECONSUME_TIMES_VERSION
from ....store.broker.subscriptions import SubscriptionData
from ....store.broker.topics import SubscriptionGroupConfig, SubscriptionGroupManager, TopicConfig, TopicConfigManager
from ....store.formats.half_message import EndTransaction, HalfMessage
from ....store.formats.messages import GetMessageResult, GetMessageStatus
from ....store.formats.remoting.command import RemotingCommand
from ....store.services.transaction_service import EndTransactionStatus, TransactionalMessageService
from ...claims.catalogue import SCENARIOS
from ...claims.catalogue.brokers import BROKER, GROUPS
from ..mutant import bit, bug, needs

_OPERATED = SCENARIOS["operator-changes"].ranges.replace(
    broker={"operators": (1,), "rest_ms_max": (15_000,), "group_members": (0,)}, cluster={"slaves": (0,)}
)
_GROUPS = SCENARIOS["group-members"].ranges.replace(**GROUPS).replace(broker={"group_races": (0,)})
_RETRIES = SCENARIOS["consumer-dead-letters"].ranges
_TAILING = BROKER.replace(broker={"tailing_consumers": (2,), "rest_ms_max": (8_000,)})


@bug("missing-integer-is-zero", ExtFields, "_parse_integer", found_by=("STATUS", "META"))
@needs(_OPERATED)
def parse_missing_as_zero(self: ExtFields, name: str, default: int | None, maximum: int, expected: str) -> int:
    """A broker executes a request that lacks a required number, as if the number were 0."""
    missing = bit(default is None and name not in self._fields)
    return 0 if missing else parse_missing_as_zero.original(self, name, default, maximum, expected)


@bug("long-integer-wraps", ExtFields, "_parse_integer", found_by=("STATUS", "META"))
@needs(_OPERATED)
def parse_low_bits(self: ExtFields, name: str, default: int | None, maximum: int, expected: str) -> int:
    """A broker keeps the lower 32 bits of a number that is too large for its field."""
    text = self._fields.get(name, "")
    if bit(text.isdecimal() and maximum < int(text) < 1 << 40):
        return int(text) & maximum
    return parse_low_bits.original(self, name, default, maximum, expected)


@bug("group-broadcasts-against-setting", PullMessageProcessor, "_registered_subscription", found_by=("STATUS",))
@needs(_GROUPS)
def subscribe_in_any_mode(
    self: PullMessageProcessor, group: SubscriptionGroupConfig, topic: str, version: int
) -> SubscriptionData:
    """A group pulls in broadcasting mode although its consumeBroadcastEnable is off."""
    bit(not group.consume_broadcast_enable)
    allowed = replace(group, consume_broadcast_enable=True)
    return subscribe_in_any_mode.original(self, allowed, topic, version)


@bug("no-offset-is-committed", PullMessageProcessor, "_pull", found_by=("META", "REDEL"))
@needs(_GROUPS)
def pull_and_commit_any(
    self: PullMessageProcessor, request: RemotingCommand, channel: Channel, *, may_hold: bool
) -> RemotingCommand | None:
    """A pull whose consumer knows no offset yet, and so sends a negative one, removes the group's offset."""
    response = pull_and_commit_any.original(self, request, channel, may_hold=may_hold)
    fields, offset = request.ext_fields, int(request.ext_fields["commitOffset"])
    if bit(response is not None and offset < 0):
        queue = fields["topic"], int(fields["queueId"])
        self._parts.offsets.commit_offset(fields["consumerGroup"], *queue, offset)
    return response


@bug("expired-offset-is-awaited", PullMessageProcessor, "_pull", found_by=("LIVE",))
@needs(_TAILING)
def hold_moved_pull(
    self: PullMessageProcessor, request: RemotingCommand, channel: Channel, *, may_hold: bool
) -> RemotingCommand | None:
    """A pull of an offset that the queue does not have waits for the next message before its offset is moved."""
    response = hold_moved_pull.original(self, request, channel, may_hold=may_hold)
    fields, moved = request.ext_fields, response is not None and response.code == ResponseCode.PULL_OFFSET_MOVED
    if not bit(moved and may_hold and fields["suspendTimeoutMillis"] != "0"):
        return response
    queue, wanted = (fields["topic"], int(fields["queueId"])), SubscriptionData("").message_filter()
    end, due_ns = self._parts.max_offset(*queue), self._suspend_deadline_ns(int(fields["suspendTimeoutMillis"]))
    is_held = self._parts.held_pulls.hold_pull(HeldPull(request, channel, queue, end, wanted, due_ns))
    return None if is_held else response


@bug("empty-queue-is-awaited", pull, "_response_code_of", found_by=("READ", "LIVE"))
@needs(_TAILING)
def code_of_empty_queue(result: GetMessageResult, offset: int) -> ResponseCode:
    """A consumer with an offset in a queue that lost all its messages waits instead of starting at 0."""
    if bit(result.status is GetMessageStatus.NO_MESSAGE_IN_QUEUE and offset > 0):
        return ResponseCode.PULL_NOT_FOUND
    return code_of_empty_queue.original(result, offset)


@bug("queues-without-maximum", TopicConfigManager, "create_by_example", found_by=("META",))
@needs(_OPERATED, broker_settings={"auto_create_topic_enable": (True,)})
def create_as_asked(
    self: TopicConfigManager, topic: str, example: str, queue_nums: int, sys_flag: int = 0
) -> TopicConfig | None:
    """A first send creates a topic with as many queues as its producer asks for, more than the broker's default."""
    is_new = self.get(topic) is None
    made = create_as_asked.original(self, topic, example, queue_nums, sys_flag)
    if made is not None and bit(is_new and queue_nums > made.write_queue_nums):
        made = replace(made, read_queue_nums=queue_nums, write_queue_nums=queue_nums)
        self.put(topic, made)
    return made


@bug("longest-name-refused", topic_names, "_name_fault", found_by=("STATUS",))
@needs(_OPERATED)
def refuse_longest_name(what: str, name: str, characters_max: int) -> str | None:
    """A topic or group cannot have a name of the maximum length."""
    bit(len(name) == characters_max)
    return refuse_longest_name.original(what, name, characters_max - 1)


@bug("system-group-not-made", SubscriptionGroupManager, "find", found_by=("STATUS",))
@needs(_OPERATED, broker_settings={"auto_create_subscription_group": (False,)})
def find_without_prefix(self: SubscriptionGroupManager, group: str) -> SubscriptionGroupConfig | None:
    """With autoCreateSubscriptionGroup off, tools and proxies cannot consume with their own groups."""
    is_system = group.startswith(topic_names.SYSTEM_GROUP_PREFIX)
    if bit(is_system and self.get(group) is None and not self._config.auto_create_subscription_group):
        return None
    return find_without_prefix.original(self, group)


@bug("first-version-has-no-maximum", SendMessageProcessor, "send_back", found_by=("REDEL",))
@needs(_RETRIES, retry={"old_clients": (False,)})
def send_back_by_later_versions(
    self: SendMessageProcessor, request: RemotingCommand, channel: Channel
) -> RemotingCommand | LateResponse:
    """The maximum of a consumer of RocketMQ 3.4.9, the first version that sends one, is ignored."""
    if bit(request.version == MAX_RECONSUME_TIMES_VERSION):
        request = replace(request, version=0)
    return send_back_by_later_versions.original(self, request, channel)


@bug("slave-decides", TransactionalMessageService, "_claim_half_message", found_by=("STATUS",))
@needs(_OPERATED, cluster={"slaves": (1,)})
def claim_at_slave(self: TransactionalMessageService, request: EndTransaction) -> HalfMessage | EndTransactionStatus:
    """A slave looks for the half message of a decision that a producer with an old route sends to it."""
    found = claim_at_slave.original(self, request)
    is_slave = bit(found is EndTransactionStatus.SLAVE_NOT_AVAILABLE)
    return EndTransactionStatus.PREPARED_NOT_FOUND if is_slave else found
