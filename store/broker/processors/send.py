"""Sends: processor of messages, transaction decisions, retries and replies.

    SEND_MESSAGE  SEND_MESSAGE_V2  SEND_BATCH_MESSAGE
    END_TRANSACTION                a producer's decision about a half message
    CONSUMER_SEND_MSG_BACK         a consumer could not process a message and requests a retry
    SEND_REPLY_MESSAGE(_V2)        a consumer's reply to a waiting producer

The broker adds the property CLUSTER, removes WAIT, and stores properties in the order of a Java map. A message sent
back goes to the group's retry topic, with a longer delay after each retry. After too many retries, or with a negative
delay level, it goes to the group's dead letter topic.

The broker pushes a reply to the client named in REPLY_TO_CLIENT (PUSH_REPLY_MESSAGE_TO_CLIENT), and by default also
stores it. After a successful push the answer is SUCCESS even if the store refuses the reply. The answer to a send
always has msgId, queueId and queueOffset, because clients need these fields.
Source: RocketMQ SendMessageProcessor, asyncConsumerSendMsgBack, EndTransactionProcessor, ReplyMessageProcessor,
ReplyMessageRequestHeader.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from ...errors import StoreError
from ...formats.delay_level import delay_level
from ...formats.half_message import EndTransaction
from ...formats.host import encode_message_id
from ...formats.message import TRANSACTION_COMMIT, TRANSACTION_NONE, TRANSACTION_ROLLBACK, MessageRecord
from ...formats.messages import AppendMessageResult, Message, MessageBatch, PutMessageResult, PutMessageStatus
from ...formats.properties import (
    PROPERTY_CLUSTER,
    PROPERTY_DELAY,
    PROPERTY_MSG_REGION,
    PROPERTY_ORIGIN_MESSAGE_ID,
    PROPERTY_RETRY_TOPIC,
    PROPERTY_TRACE_ON,
    PROPERTY_TRAN_MSG,
    PROPERTY_WAIT,
    decode_properties,
    rebuild_properties,
)
from ...formats.remoting.command import RemotingCommand
from ...log.put_wait import PutWait
from ...services.transaction_service import EndTransactionStatus
from ..hooks import SendMessageContext
from ..parts import BrokerParts
from ..requests import (
    ExtFields,
    RequestCode,
    RequestRefusedError,
    ResponseCode,
    refuse_request_if,
    response_to,
    success_response,
)
from ..router import Channel, LateResponse
from ..sending import (
    MAX_RECONSUME_TIMES_VERSION,
    NO_LIMIT,
    PUT_CODES,
    SendChecks,
    SendRequest,
    put_status_remark,
    refuse_timer_properties,
    refuse_timer_properties_in_batch,
)
from ..topic_names import PERM_WRITE, RETRY_GROUP_PREFIX, dlq_topic, is_broker_only_topic, retry_topic
from ..topics import TopicConfig, unit_sys_flag

FIRST_DELAY_LEVEL = 3  # RocketMQ asyncConsumerSendMsgBack: 3 + reconsumeTimes
REPLY_TO_CLIENT = "REPLY_TO_CLIENT"
PUSH_REPLY_TIME = "PUSH_REPLY_TIME"
_Put = Callable[[RemotingCommand, SendRequest, Channel], RemotingCommand | LateResponse]
_SEND_BATCH = int(RequestCode.SEND_BATCH_MESSAGE)
_DEAD_LETTER_QUEUES = 1  # RocketMQ AbstractSendMessageProcessor.DLQ_NUMS_PER_GROUP
"""Dead letters go to these queues of their topic, also if an operator adds others."""
_DONE = (EndTransactionStatus.DECIDED, EndTransactionStatus.ALREADY_DECIDED)


class SendMessageProcessor:
    """Processor of sends. Answers when the message is as durable as the settings require."""

    def __init__(self, parts: BrokerParts) -> None:
        self._parts = parts
        self._checks = SendChecks(parts)

    def send(self, request: RemotingCommand, channel: Channel) -> RemotingCommand | LateResponse:
        return self._send_calling_hooks(request, channel, self._send)

    def _send_calling_hooks(
        self, request: RemotingCommand, channel: Channel, put: _Put
    ) -> RemotingCommand | LateResponse:
        self._checks.check_writeable()
        send, hooks = SendRequest.from_request(request), self._parts.hooks
        if not hooks.send:
            return put(request, send, channel)
        context = self._hook_context(request, send, channel)
        hooks.before_send(context)
        try:
            response = put(request, send._replace(properties=context.properties), channel)
        except RequestRefusedError as refused:
            hooks.after_send(context, response_to(request, refused.code, refused.remark))
            raise
        if isinstance(response, RemotingCommand):
            return hooks.after_send(context, response)
        respond = response.respond
        response.respond = lambda result: hooks.after_send(context, respond(result))
        return response

    def _hook_context(self, request: RemotingCommand, send: SendRequest, channel: Channel) -> SendMessageContext:
        return SendMessageContext(
            send.producer_group,
            send.topic,
            send.queue_id,
            send.properties,
            len(request.body),
            channel.remote_address,
            send.born_timestamp_ms,
            self._parts.config.address,
            self._parts.config.region_id,
        )

    def _send(self, request: RemotingCommand, send: SendRequest, channel: Channel) -> RemotingCommand | LateResponse:
        topic = self._checks.find_or_create_topic(send)
        message = self._checks.build_message(send, topic, request.body, channel)
        properties = decode_properties(send.properties)
        if not send.topic.startswith(RETRY_GROUP_PREFIX):  # the broker accepted these messages earlier
            refuse_timer_properties(send.properties)
        if send.batch or request.code == _SEND_BATCH:
            late = LateResponse(partial(self._make_send_response, request, message.queue_id))
            return late.response_or_self(self._put_batch(message, properties, late))
        if send.topic.startswith(RETRY_GROUP_PREFIX):
            message = self._retry_or_dead_letter(request, send, message)
        late = LateResponse(partial(self._make_send_response, request, message.queue_id))
        return late.response_or_self(self._put_single(message, properties, late))

    def _put_single(
        self, message: Message, properties: dict[str, str], late: LateResponse
    ) -> PutMessageResult | PutWait:
        properties[PROPERTY_CLUSTER] = self._parts.config.broker_cluster_name
        message.wait_store_ok = _parse_wait_property(properties.pop(PROPERTY_WAIT, None))
        message.properties = rebuild_properties(properties)
        is_transactional = properties.get(PROPERTY_TRAN_MSG, "").lower() == "true"
        if not is_transactional or (message.reconsume_times > 0 and delay_level(message.properties.encode()) > 0):
            return self._parts.store.begin_put(message, late.notify)
        if self._parts.config.reject_transaction_message:
            raise RequestRefusedError(
                "this broker refuses transactions (rejectTransactionMessage)", ResponseCode.NO_PERMISSION
            )
        return self._parts.transactions.begin_prepare(message, late.notify)

    def _put_batch(
        self, message: Message, properties: dict[str, str], late: LateResponse
    ) -> PutMessageResult | PutWait:
        if message.topic.startswith(RETRY_GROUP_PREFIX):
            raise RequestRefusedError("a batch cannot be sent to a retry topic", ResponseCode.MESSAGE_ILLEGAL)
        refuse_timer_properties_in_batch(message.body)
        properties[PROPERTY_CLUSTER] = self._parts.config.broker_cluster_name
        message.wait_store_ok = _parse_wait_property(properties.get(PROPERTY_WAIT))
        message.properties = rebuild_properties(properties)
        batch = MessageBatch(replace(message, body=b""), message.body)
        return self._parts.store.begin_put(batch, late.notify)

    def _retry_or_dead_letter(self, request: RemotingCommand, send: SendRequest, message: Message) -> Message:
        """After too many retries, readdress the message to the dead letter topic."""
        group = send.topic.removeprefix(RETRY_GROUP_PREFIX)
        retries_max = self._parts.require_group(group).retry_max_times
        if request.version >= MAX_RECONSUME_TIMES_VERSION and send.max_reconsume_times != NO_LIMIT:
            retries_max = send.max_reconsume_times
        if message.reconsume_times < retries_max:
            return message
        dead_letters = self._parts.topics.create(dlq_topic(group), _DEAD_LETTER_QUEUES)
        if dead_letters is None:
            raise RequestRefusedError(f"group {group!r}: the name of its dead letter topic is invalid")
        self._checks.check_queues(dead_letters)
        return replace(message, topic=dead_letters.topic, queue_id=0)

    def _make_send_response(self, request: RemotingCommand, queue_id: int, result: PutMessageResult) -> RemotingCommand:
        put, fields = result.append, self._region_and_trace
        if put is None:
            self._parts.watch.log_changes()
        if put is not None:
            fields |= {"msgId": put.message_id, "queueId": str(queue_id)}
            fields["queueOffset"] = str(put.queue_offset)
        return response_to(request, PUT_CODES[result.status], put_status_remark(result.status), fields)

    @property
    def _region_and_trace(self) -> dict[str, str]:
        """Fields of every answer to a send, by which clients trace messages."""
        config = self._parts.config
        return {PROPERTY_MSG_REGION: config.region_id, PROPERTY_TRACE_ON: "true" if config.trace_on else "false"}

    def send_back(self, request: RemotingCommand, channel: Channel) -> RemotingCommand | LateResponse:
        self._checks.check_writeable()
        if not self._parts.config.broker_permission & PERM_WRITE:
            raise RequestRefusedError("this broker does not permit writes", ResponseCode.NO_PERMISSION)
        fields = ExtFields(request.ext_fields)
        self._parts.hooks.after_consume(request, channel)
        group = self._parts.require_group(fields.text("group"))
        level = fields.int32("delayLevel")
        if group.retry_queue_nums <= 0:
            return success_response(request)
        record = self._require_record_at(fields.int64("offset"))
        retries_max = group.retry_max_times
        if request.version >= MAX_RECONSUME_TIMES_VERSION:
            retries_max = fields.int32("maxReconsumeTimes", retries_max)
        if level < 0 or record.reconsume_times >= retries_max:
            topic = self._find_or_create_topic(dlq_topic(group.group), _DEAD_LETTER_QUEUES, 0)
            message = self._retry_message(record, topic, 0)
        else:
            unit = unit_sys_flag(has_unit_sub=fields.boolean("unitMode", False))
            topic = self._find_or_create_topic(retry_topic(group.group), group.retry_queue_nums, unit)
            message = self._retry_message(record, topic, level or FIRST_DELAY_LEVEL + record.reconsume_times)
        late = LateResponse(partial(self._answer_send_back, request, record.topic, group.group))
        return late.response_or_self(self._parts.store.begin_put(message, late.notify))

    def _answer_send_back(
        self, request: RemotingCommand, topic: str, group: str, put: PutMessageResult
    ) -> RemotingCommand:
        if put.status is PutMessageStatus.PUT_OK:
            self._parts.statistics.count_sent_back(topic, group)
            return success_response(request)
        return response_to(request, ResponseCode.SYSTEM_ERROR, put.status.value)

    def _require_record_at(self, offset: int) -> MessageRecord:
        record = self._parts.store.look_message_by_offset(offset)
        if record is None or is_broker_only_topic(record.topic):
            raise RequestRefusedError(f"offset: expected the offset of a message, found {offset}")
        return record

    def _find_or_create_topic(self, name: str, queues: int, flag: int) -> TopicConfig:
        topic = self._parts.topics.create(name, queues, sys_flag=flag)
        if topic is None:
            raise RequestRefusedError(f"topic {name!r}: the name is invalid")
        if not topic.perm & PERM_WRITE:
            raise RequestRefusedError(f"topic {name!r} does not permit writes", ResponseCode.NO_PERMISSION)
        self._checks.check_queues(topic)
        return topic

    def _retry_message(self, record: MessageRecord, topic: TopicConfig, level: int) -> Message:
        """Return the message for the retry topic, or with delay level 0 for the dead letter topic."""
        assert level >= 0, level
        queues = topic.write_queue_nums if level else _DEAD_LETTER_QUEUES
        text = record.properties.encode(errors="surrogateescape").decode(errors="replace")
        properties = decode_properties(text)
        # Keep the original topic and id, because after the first retry the record's topic is the retry topic.
        properties.setdefault(PROPERTY_RETRY_TOPIC, record.topic)
        own_id = encode_message_id(record.store_host, record.physical_offset)
        properties.setdefault(PROPERTY_ORIGIN_MESSAGE_ID, own_id)
        properties[PROPERTY_DELAY] = str(level)
        return Message(
            topic.topic,
            record.body,
            self._parts.next_round_robin_queue_id(queues),
            rebuild_properties(properties),
            record.flag,
            record.sys_flag,
            record.born_timestamp_ms,
            record.born_host,
            self._parts.config.store_host,
            record.reconsume_times + 1,
        )

    def end_transaction(self, request: RemotingCommand, channel: Channel) -> RemotingCommand | None:
        """Execute a producer's decision. If the state is unknown, send no answer; the check asks again later."""
        fields = ExtFields(request.ext_fields)
        decision, group = fields.int32("commitOrRollback"), fields.text("producerGroup")
        ids = tuple(each for each in (fields.text("msgId", ""), fields.text("transactionId", "")) if each)
        named = EndTransaction(group, fields.int64("tranStateTableOffset"), fields.int64("commitLogOffset"), ids)
        if decision == TRANSACTION_NONE:
            return None
        if decision == TRANSACTION_COMMIT:
            result = self._parts.transactions.commit(named)
        elif decision == TRANSACTION_ROLLBACK:
            result = self._parts.transactions.rollback(named)
        else:
            expected = f"{TRANSACTION_NONE}, {TRANSACTION_COMMIT} or {TRANSACTION_ROLLBACK}"
            raise RequestRefusedError(f"commitOrRollback: expected {expected}, found {decision}")
        if result.status is EndTransactionStatus.SLAVE_NOT_AVAILABLE:
            return response_to(request, ResponseCode.SLAVE_NOT_AVAILABLE, result.status.value)
        if result.status not in _DONE:
            return response_to(request, ResponseCode.SYSTEM_ERROR, result.status.value)
        if result.put is None:
            return success_response(request)
        return response_to(request, PUT_CODES[result.put.status], put_status_remark(result.put.status))

    def send_reply(self, request: RemotingCommand, channel: Channel) -> RemotingCommand | LateResponse:
        return self._send_calling_hooks(request, channel, self._reply)

    def _reply(self, request: RemotingCommand, send: SendRequest, channel: Channel) -> RemotingCommand:
        topic = self._checks.find_or_create_topic(send)
        properties = decode_properties(send.properties)
        refused = self._push_reply_to_requester(request, send, properties, channel)
        message = self._checks.build_message(send, topic, request.body, channel)
        put = self._put_reply(message, properties) if self._parts.config.store_reply_message_enable else None
        refuse_request_if(refused)
        message_id, offset = (0, 0) if put is None else (put.message_id, put.queue_offset)
        place = {"msgId": message_id, "queueId": message.queue_id, "queueOffset": offset}
        return success_response(request, **place, **self._region_and_trace)

    def _put_reply(self, message: Message, properties: dict[str, str]) -> AppendMessageResult | None:
        """Return None on failure."""
        properties.pop(PROPERTY_WAIT, None)
        properties[PROPERTY_CLUSTER] = self._parts.config.broker_cluster_name
        message.properties = rebuild_properties(properties)
        try:
            return self._parts.store.put_message(message).append
        except (StoreError, OSError):
            return None  # the producer already has the reply

    def _push_reply_to_requester(
        self, request: RemotingCommand, send: SendRequest, properties: dict[str, str], channel: Channel
    ) -> str | None:
        """Return an error text, or None on success."""
        client_id = properties.get(REPLY_TO_CLIENT, "")
        producer = self._parts.producers.find_channel(client_id)
        if producer is None:
            return f"{REPLY_TO_CLIENT}: expected a connected client, found {client_id[:255]!r}"
        now_ms = self._parts.world.clock.now_ms()
        fields = {
            "producerGroup": send.producer_group,
            "topic": send.topic,
            "defaultTopic": send.default_topic,
            "defaultTopicQueueNums": str(send.default_topic_queue_nums),
            "queueId": str(send.queue_id),
            "sysFlag": str(send.sys_flag),
            "bornTimestamp": str(send.born_timestamp_ms),
            "flag": str(send.flag),
            "properties": rebuild_properties({**properties, PUSH_REPLY_TIME: str(now_ms)}),
            "reconsumeTimes": str(send.reconsume_times),
            "unitMode": str(send.unit_mode).lower(),
            "bornHost": channel.remote_address,
            "storeHost": self._parts.config.address,
            "storeTimestamp": str(now_ms),
        }
        code = RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT
        pushed = self._parts.pushes.push(producer, code, fields, request.body)
        return None if pushed else f"{client_id!r}: the connection has ended"


def _parse_wait_property(text: str | None) -> bool:
    """A missing property WAIT means true."""
    return text is None or text.lower() == "true"
