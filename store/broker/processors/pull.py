"""Processor of PULL_MESSAGE: reads messages from a queue, with long polling.

    sysFlag   1 the request has a commitOffset    2 the pull may be held    4 the fields have the subscription
              8 class filter                     16 lite pull

Source: RocketMQ PullMessageProcessor, PullSysFlag.
"""

from dataclasses import replace

from ...errors import StoreError
from ...filters.message_filter import MessageFilter
from ...formats.messages import GetMessageResult, GetMessageStatus, Message
from ...formats.remoting.command import RemotingCommand
from ...formats.remoting.json_body import MessageQueue, encode_json_body
from ..broker_config import MASTER_ID
from ..long_polling import HeldPull, Queue
from ..parts import BrokerParts
from ..requests import ExtFields, RequestRefusedError, ResponseCode, response_to
from ..router import Channel, with_error_responses
from ..subscriptions import TAG, SubscriptionData
from ..topic_names import OFFSET_MOVED_EVENT, PERM_READ
from ..topics import SubscriptionGroupConfig

COMMIT_OFFSET_FLAG = 1
SUSPEND_FLAG = 2
SUBSCRIPTION_FLAG = 4
CLASS_FILTER_FLAG = 8
MESSAGES_MAX = 1024
"""Maximum number of messages per pull, as in RocketMQ's clients."""
HELD_CHARACTERS_MAX = 4096
"""A pull with longer fields is not held, because a held pull's fields stay in memory."""
_BROADCASTING = "BROADCASTING"
_NS_PER_MS = 1_000_000

_CODES = {
    GetMessageStatus.FOUND: ResponseCode.SUCCESS,
    GetMessageStatus.MESSAGE_WAS_REMOVING: ResponseCode.PULL_RETRY_IMMEDIATELY,
    GetMessageStatus.NO_MATCHED_MESSAGE: ResponseCode.PULL_RETRY_IMMEDIATELY,
    GetMessageStatus.OFFSET_FOUND_NULL: ResponseCode.PULL_NOT_FOUND,
    GetMessageStatus.OFFSET_OVERFLOW_ONE: ResponseCode.PULL_NOT_FOUND,
    GetMessageStatus.OFFSET_OVERFLOW_BADLY: ResponseCode.PULL_OFFSET_MOVED,
    GetMessageStatus.OFFSET_TOO_SMALL: ResponseCode.PULL_OFFSET_MOVED,
}
_SCANNED = (GetMessageStatus.FOUND, GetMessageStatus.NO_MATCHED_MESSAGE, GetMessageStatus.MESSAGE_WAS_REMOVING)
"""Statuses after the pull has read queue entries. Other statuses follow from a queue's bounds."""


class PullMessageProcessor:
    """Processor of new and held pulls."""

    def __init__(self, parts: BrokerParts) -> None:
        self._parts = parts
        self._again = with_error_responses(
            lambda request, channel: self._pull_calling_hooks(request, channel, may_hold=False)
        )
        parts.held_pulls.answer = self._answer_held_pull

    def __call__(self, request: RemotingCommand, channel: Channel) -> RemotingCommand | None:
        """Answer a pull, or hold the pull and return None."""
        return self._pull_calling_hooks(request, channel, may_hold=True)

    def _pull_calling_hooks(
        self, request: RemotingCommand, channel: Channel, *, may_hold: bool
    ) -> RemotingCommand | None:
        response = self._pull(request, channel, may_hold=may_hold)
        if response is not None:
            self._parts.hooks.before_consume(request, channel, response)
        return response

    def _answer_held_pull(self, request: RemotingCommand, channel: Channel) -> None:
        response = self._again(request, channel)
        assert response is not None, "a pull is held only once"
        channel.send(response)

    def _pull(self, request: RemotingCommand, channel: Channel, *, may_hold: bool) -> RemotingCommand | None:
        parts, fields = self._parts, ExtFields(request.ext_fields)
        group_name, topic = fields.text("consumerGroup"), fields.text("topic")
        queue_id, offset = fields.int32("queueId"), fields.int64("queueOffset")
        most, sys_flag = fields.int32("maxMsgNums"), fields.int32("sysFlag")
        commit_offset, suspend_ms = fields.int64("commitOffset"), fields.int64("suspendTimeoutMillis")
        group = self._require_readable_group(group_name)
        self._require_queue(topic, queue_id)
        wanted = self._message_filter(fields, group, topic, sys_flag)
        if parts.is_slave and not parts.config.slave_read_enable:
            return self._redirect_to_master(request, (topic, queue_id), offset)
        most = min(max(1, most), MESSAGES_MAX)
        result = parts.store.get_message(topic, queue_id, offset, most, wanted=wanted)
        # A held pull must not commit its offset again, because the client may have committed a later one.
        if may_hold and sys_flag & COMMIT_OFFSET_FLAG and not parts.is_slave and commit_offset >= 0:
            parts.offsets.commit_offset(group_name, topic, queue_id, commit_offset)
        if parts.is_slave and not parts.store.config.offset_check_in_slave and result.status not in _SCANNED:
            result.next_begin_offset = offset  # the master's queue may be longer
        if result.records:
            parts.statistics.count_delivered(topic, group_name, result.records)
        code = _response_code_of(result, offset)
        may_hold = may_hold and bool(sys_flag & SUSPEND_FLAG) and not request.is_one_way
        if may_hold and code is ResponseCode.PULL_NOT_FOUND:
            kept, due_ns = replace(request, body=b"", remark=None), self._suspend_deadline_ns(suspend_ms)
            pull = HeldPull(kept, channel, (topic, queue_id), offset, wanted, due_ns)
            if fields.size_characters <= HELD_CHARACTERS_MAX and parts.held_pulls.hold_pull(pull):
                return None
        if code is ResponseCode.PULL_OFFSET_MOVED:
            if parts.is_slave and not parts.store.config.offset_check_in_slave:
                return _make_pull_response(request, ResponseCode.PULL_RETRY_IMMEDIATELY, group.broker_id, result)
            self._store_offset_moved_event(group_name, (topic, queue_id), offset, result)
        return _make_pull_response(request, code, self._suggested_broker(result, group), result)

    def _suspend_deadline_ns(self, suspend_ms: int) -> int:
        if not self._parts.store.config.long_polling_enable:
            suspend_ms = self._parts.config.short_polling_time_ms
        return self._parts.world.clock.monotonic_ns() + max(0, suspend_ms) * _NS_PER_MS

    def _require_readable_group(self, name: str) -> SubscriptionGroupConfig:
        if not self._parts.config.broker_permission & PERM_READ:
            raise RequestRefusedError("this broker does not permit reads", ResponseCode.NO_PERMISSION)
        group = self._parts.require_group(name)
        if not group.consume_enable:
            raise RequestRefusedError(f"group {name!r} may not consume", ResponseCode.NO_PERMISSION)
        return group

    def _require_queue(self, topic: str, queue_id: int) -> None:
        config = self._parts.require_topic(topic)
        if not config.perm & PERM_READ:
            raise RequestRefusedError(f"topic {topic!r} does not permit reads", ResponseCode.NO_PERMISSION)
        if not 0 <= queue_id < config.read_queue_nums:
            expected = f"0 to {config.read_queue_nums - 1}"
            raise RequestRefusedError(f"queueId of topic {topic!r}: expected {expected}, found {queue_id}")

    def _message_filter(
        self, fields: ExtFields, group: SubscriptionGroupConfig, topic: str, sys_flag: int
    ) -> MessageFilter:
        version = fields.int64("subVersion")
        if sys_flag & SUBSCRIPTION_FLAG:
            text, kind = fields.text("subscription", ""), fields.text("expressionType", TAG)
            subscription = SubscriptionData(topic, text, kind, version, bool(sys_flag & CLASS_FILTER_FLAG))
        else:
            subscription = self._registered_subscription(group, topic, version)
        subscription.check_expression()
        if subscription.is_tag:
            return subscription.message_filter()
        self._parts.require_filter_is_enabled(subscription)
        filters = self._parts.filters
        return subscription.message_filter(None if filters is None else filters.find(topic, group.group))

    def _registered_subscription(self, group: SubscriptionGroupConfig, topic: str, version: int) -> SubscriptionData:
        """Return the subscription from the group's heartbeat, or refuse the pull without a heartbeat."""
        info, name = self._parts.consumers.find_group(group.group), f"group {group.group!r}"
        unknown = ResponseCode.SUBSCRIPTION_NOT_EXIST
        if info is None:
            raise RequestRefusedError(f"{name} has sent no heartbeat", unknown)
        if not group.consume_broadcast_enable and info.newest_heartbeat.message_model == _BROADCASTING:
            raise RequestRefusedError(f"{name} may not consume in broadcasting mode", ResponseCode.NO_PERMISSION)
        found = info.subscriptions.get(topic)
        if found is None:
            raise RequestRefusedError(f"{name}: no subscription to {topic!r}", unknown)
        if found.version < version:
            remark = f"{name}: subVersion: expected at most {found.version}, found {version}"
            raise RequestRefusedError(remark, ResponseCode.SUBSCRIPTION_NOT_LATEST)
        return found

    def _redirect_to_master(self, request: RemotingCommand, queue: Queue, offset: int) -> RemotingCommand:
        """Redirect the consumer, which continues at the offset of its request.

        RocketMQ's answer contains a later offset, so the consumer would skip messages that the slave found.
        """
        first, end = self._parts.min_offset(*queue), self._parts.max_offset(*queue)
        empty = GetMessageResult(GetMessageStatus.NO_MATCHED_MESSAGE, offset, first, end)
        return _make_pull_response(request, ResponseCode.PULL_RETRY_IMMEDIATELY, MASTER_ID, empty)

    def _suggested_broker(self, result: GetMessageResult, group: SubscriptionGroupConfig) -> int:
        if not self._parts.config.slave_read_enable:
            return MASTER_ID
        is_slow = result.suggest_pulling_from_slave
        return group.which_broker_when_consume_slowly if is_slow else group.broker_id

    def _store_offset_moved_event(self, group: str, queue: Queue, offset: int, result: GetMessageResult) -> None:
        """Store an event about a corrected offset. A failed put does not affect the answer to the pull."""
        topic, queue_id = queue
        event = {
            "consumerGroup": group,
            "messageQueue": MessageQueue(topic, self._parts.config.broker_name, queue_id),
            "offsetNew": result.next_begin_offset,
            "offsetRequest": offset,
        }
        message = Message.create(OFFSET_MOVED_EVENT, encode_json_body(event), tags=group, keys=group)
        message.born_timestamp_ms = self._parts.world.clock.now_ms()
        message.born_host = message.store_host = self._parts.config.store_host
        message.wait_store_ok = False  # do not wait for the disk
        try:
            self._parts.store.put_message(message)
        except (StoreError, OSError):
            return  # the event is lost


def _make_pull_response(
    request: RemotingCommand, code: ResponseCode, broker_id: int, result: GetMessageResult
) -> RemotingCommand:
    fields = {
        "suggestWhichBrokerId": str(broker_id),
        "nextBeginOffset": str(result.next_begin_offset),
        "minOffset": str(result.min_offset),
        "maxOffset": str(result.max_offset),
    }
    return response_to(request, code, result.status.value, fields, b"".join(result.records))


def _response_code_of(result: GetMessageResult, offset: int) -> ResponseCode:
    if result.status is GetMessageStatus.NO_MESSAGE_IN_QUEUE:
        return ResponseCode.PULL_OFFSET_MOVED if offset else ResponseCode.PULL_NOT_FOUND
    return _CODES[result.status]
