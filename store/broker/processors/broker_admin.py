"""What operators ask of the broker as a whole: GET_BROKER_CONFIG, GET_BROKER_RUNTIME_INFO, and to clean up.

Source: RocketMQ AdminBrokerProcessor, KVTable.
"""

from ...formats.remoting.command import RemotingCommand
from ...formats.remoting.json_body import encode_json_body
from ...settings.describe_config import describe, spelled
from ..broker_config import settings_of
from ..channel import Channel
from ..parts import BrokerParts
from ..requests import ResponseCode
from ..responses import BROKER_VERSION, response_to

VERSION_TEXT = "V4_9_8"


class BrokerAdminProcessor:
    """Answers operators."""

    def __init__(self, parts: BrokerParts) -> None:
        self._parts = parts
        self._begun_ms = parts.world.clock.now_ms()

    def config(self, request: RemotingCommand, channel: Channel) -> RemotingCommand:
        """Return every setting, as a broker.conf has it."""
        store = self._parts.store.config
        settings = {each.key: spelled(each.value) for each in describe(store, store.store_path_root_dir)}
        settings |= settings_of(self._parts.config)
        body = "".join(f"{key}={value}\n" for key, value in sorted(settings.items()))
        version = encode_json_body({"counter": 0, "timestamp": self._begun_ms}).decode()
        return response_to(request, ResponseCode.SUCCESS, ext_fields={"version": version}, body=body.encode())

    def runtime_info(self, request: RemotingCommand, channel: Channel) -> RemotingCommand:
        """Return what there is to tell of the broker and its store, all of it texts."""
        parts = self._parts
        store, config = parts.own_store, parts.config
        table = {
            **parts.store.runtime_info(),
            **({} if parts.ha is None else parts.ha.runtime_info()),
            **parts.server_info(),
            "brokerVersionDesc": VERSION_TEXT,
            "brokerVersion": str(BROKER_VERSION),
            "startAcceptSendRequestTimeStamp": str(config.start_accept_send_request_time_stamp_ms),
            "dispatchBehindBytes": str(parts.store.dispatch_behind_bytes),
            "remainHowManyDataToFlush": f"{store.max_phy_offset - store.log.flushed_where.get()} B",
            "pageCacheLockTimeMills": str(_held_ms(parts)),
            "heldPulls": str(parts.held_pulls.held_count),
        }
        return response_to(request, ResponseCode.SUCCESS, body=encode_json_body({"table": table}))

    def clean_expired_queues(self, request: RemotingCommand, channel: Channel) -> RemotingCommand:
        """Remove the queues all of whose messages have left the log."""
        self._parts.store.clean_expired_consumer_queue()
        return response_to(request, ResponseCode.SUCCESS)

    def delete_expired_log(self, request: RemotingCommand, channel: Channel) -> RemotingCommand:
        """Delete what of the log has had its time, whatever the hour."""
        self._parts.store.execute_delete_files_manually()
        return response_to(request, ResponseCode.SUCCESS)


def _held_ms(parts: BrokerParts) -> int:
    """Return for how long the put that holds the log's lock has held it, 0 if none does."""
    begin_ms = parts.own_store.commit_log.begin_time_in_lock_ms
    return max(0, parts.world.clock.now_ms() - begin_ms) if begin_ms else 0
