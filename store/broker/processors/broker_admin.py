"""Processor of operators' requests about topics and the broker itself.

    UPDATE_AND_CREATE_TOPIC  DELETE_TOPIC_IN_BROKER  GET_ALL_TOPIC_CONFIG  GET_TOPIC_STATS_INFO
    GET_SYSTEM_TOPIC_LIST_FROM_BROKER
    GET_BROKER_CONFIG  UPDATE_BROKER_CONFIG  GET_BROKER_RUNTIME_INFO
    CLEAN_EXPIRED_CONSUMEQUEUE  CLEAN_UNUSED_TOPIC  DELETE_EXPIRED_COMMITLOG  RESUME_CHECK_HALF_MESSAGE

Source: RocketMQ AdminBrokerProcessor, CreateTopicRequestHeader, TopicConfigSerializeWrapper, TopicStatsTable, KVTable.
"""

from ...errors import StoreError
from ...formats.remoting.command import RemotingCommand
from ...formats.remoting.json_body import MessageQueue, encode_json_body
from ..parts import BrokerParts
from ..requests import (
    BROKER_VERSION,
    INT_MAX,
    ExtFields,
    RequestRefusedError,
    ResponseCode,
    refuse_field,
    refuse_request_if,
    response_to,
    success_response,
)
from ..router import Channel
from ..setting_changes import SettingChangeError, properties_text, wanted_settings
from ..topic_names import PERM_INHERIT, PERM_READ_WRITE, topic_name_fault
from ..topics import MULTI_TAG, QUEUES_MAX, SINGLE_TAG, TopicConfig

VERSION_TEXT = "V4_9_8"
_PERM_MAX = PERM_READ_WRITE | PERM_INHERIT


class BrokerAdminProcessor:
    """Processor of operators' requests."""

    def __init__(self, parts: BrokerParts) -> None:
        self._parts = parts

    def update_topic(self, request: RemotingCommand, channel: Channel) -> RemotingCommand:
        fields = ExtFields(request.ext_fields)
        topic = self._require_changeable_topic(fields)
        perm, filter_type = fields.int32("perm"), fields.text("topicFilterType", SINGLE_TAG)
        if not 0 <= perm <= _PERM_MAX:
            refuse_field("perm", f"0 to {_PERM_MAX}", str(perm))
        if filter_type not in (SINGLE_TAG, MULTI_TAG):
            refuse_field("topicFilterType", f"{SINGLE_TAG} or {MULTI_TAG}", filter_type)
        queues = _queue_count(fields, "readQueueNums"), _queue_count(fields, "writeQueueNums")
        sys_flag, order = fields.int32("topicSysFlag", 0), fields.boolean("order", False)
        self._parts.topics.put(topic, TopicConfig(topic, *queues, perm, filter_type, sys_flag, order))
        return success_response(request)

    def delete_topic(self, request: RemotingCommand, channel: Channel) -> RemotingCommand:
        """Remove a topic. Its messages stay until they expire. A new topic of this name contains them."""
        self._parts.topics.remove(self._require_changeable_topic(ExtFields(request.ext_fields)))
        return success_response(request)

    def _require_changeable_topic(self, fields: ExtFields) -> str:
        topic, config = fields.text("topic"), self._parts.config
        refuse_request_if(topic_name_fault(topic))
        if topic == config.broker_cluster_name:
            refuse_request_if("topic: expected a name other than the cluster's")
        if config.validate_system_topic_when_update_topic and self._parts.topics.is_system(topic):
            refuse_request_if(f"topic: expected no system topic, found {topic!r}")
        return topic

    def topic_stats(self, request: RemotingCommand, channel: Channel) -> RemotingCommand:
        parts, topic = self._parts, ExtFields(request.ext_fields).text("topic")
        table = {}
        for queue_id in range(parts.require_topic(topic).write_queue_nums):
            end = parts.max_offset(topic, queue_id)
            table[MessageQueue(topic, parts.config.broker_name, queue_id)] = {
                "lastUpdateTimestamp": max(0, parts.store_time(topic, queue_id, end - 1)),
                "maxOffset": end,
                "minOffset": parts.min_offset(topic, queue_id),
            }
        return success_response(request, {"offsetTable": table})

    def get_config(self, request: RemotingCommand, channel: Channel) -> RemotingCommand:
        settings = self._parts.settings
        version = encode_json_body(settings.version.json_members).decode()
        body = properties_text(settings.table)
        return response_to(request, ResponseCode.SUCCESS, ext_fields={"version": version}, body=body)

    def update_config(self, request: RemotingCommand, channel: Channel) -> RemotingCommand:
        try:
            self._parts.settings.change(wanted_settings(request.body), channel.remote_address)
        except SettingChangeError as error:
            raise RequestRefusedError(str(error), error.code) from error
        return success_response(request)

    def runtime_info(self, request: RemotingCommand, channel: Channel) -> RemotingCommand:
        parts = self._parts
        store, config = parts.own_store, parts.config
        # Without a pool RocketMQ reports INT_MAX.
        buffers_left = INT_MAX if store.pool is None else store.pool.available
        table = {
            **parts.store.runtime_info(),
            **({} if parts.ha is None else parts.ha.runtime_info()),
            **parts.server_info(),
            **parts.daily.runtime_info_fields(),
            **parts.put_latency.runtime_info_fields(),
            "brokerVersionDesc": VERSION_TEXT,
            "brokerVersion": str(BROKER_VERSION),
            "startAcceptSendRequestTimeStamp": str(config.start_accept_send_request_time_stamp_ms),
            "dispatchBehindBytes": str(parts.store.dispatch_behind_bytes),
            "remainHowManyDataToFlush": f"{store.max_phy_offset - store.log.flushed_where.get()} B",
            "pageCacheLockTimeMills": str(_lock_held_ms(parts)),
            "earliestMessageTimeStamp": str(_first_store_time_ms(parts)),
            **_log_disk_capacity(parts),
            "remainTransientStoreBufferNumbs": str(buffers_left),
            "heldPulls": str(parts.held_pulls.held_count),
        }
        return success_response(request, {"table": table})

    def clean_expired_queues(self, request: RemotingCommand, channel: Channel) -> RemotingCommand:
        """Remove queues without messages in the log, also of existing topics.

        CLEAN_UNUSED_TOPIC does the same. A queue of a removed topic stays while it has messages in the log. Otherwise a
        new topic of this name would reuse its offsets.
        """
        self._parts.store.clean_expired_consumer_queue()
        return success_response(request)

    def delete_expired_log(self, request: RemotingCommand, channel: Channel) -> RemotingCommand:
        """Delete expired log segments now, independent of the configured hour."""
        self._parts.store.execute_delete_files_manually()
        return success_response(request)

    def resume_check(self, request: RemotingCommand, channel: Channel) -> RemotingCommand:
        fault = self._parts.transactions.resume(ExtFields(request.ext_fields).message_offset("msgId"))
        refuse_request_if(None if fault is None else f"msgId: {fault}")
        return success_response(request)


def _queue_count(fields: ExtFields, name: str) -> int:
    queues = fields.int32(name)
    if not 0 < queues <= QUEUES_MAX:
        refuse_field(name, f"1 to {QUEUES_MAX}", str(queues))
    return queues


def _lock_held_ms(parts: BrokerParts) -> int:
    begin_ms = parts.own_store.commit_log.begin_time_in_lock_ms
    return max(0, parts.world.clock.now_ms() - begin_ms) if begin_ms else 0


def _first_store_time_ms(parts: BrokerParts) -> int:
    """Return the store time of the first message, or -1 for an empty log.

    RocketMQ also returns -1 while the log is shorter than twice the largest message. Its tools show -1 as an age of 50
    years.
    """
    store = parts.own_store
    try:
        record = store.look_message_by_offset(store.min_phy_offset)
    except StoreError:  # the record is unreadable; return the other figures nevertheless
        return -1
    return -1 if record is None else record.store_timestamp_ms


def _log_disk_capacity(parts: BrokerParts) -> dict[str, str]:
    try:
        space = parts.world.files.space(parts.own_store.config.commit_log_directories[0])
    except OSError:
        return {}
    total, free = (space.used_bytes + space.usable_bytes) / (1 << 30), space.usable_bytes / (1 << 30)
    return {"commitLogDirCapacity": f"Total : {total:.1f} GiB, Free : {free:.1f} GiB."}
