"""What operators ask of the broker as a whole: GET_BROKER_CONFIG, GET_BROKER_RUNTIME_INFO, and to clean up.

Source: RocketMQ AdminBrokerProcessor, KVTable.
"""

from ...errors import StoreError
from ...formats.remoting.command import RemotingCommand
from ...formats.remoting.json_body import encode_json_body
from ...settings.describe_config import describe, spelled
from ..broker_config import settings_of
from ..channel import Channel
from ..parts import BrokerParts
from ..requests import ResponseCode
from ..responses import BROKER_VERSION, response_to

VERSION_TEXT = "V4_9_8"
_INT_MAX = 0x7FFFFFFF


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
            **parts.daily.fields(),
            "brokerVersionDesc": VERSION_TEXT,
            "brokerVersion": str(BROKER_VERSION),
            "startAcceptSendRequestTimeStamp": str(config.start_accept_send_request_time_stamp_ms),
            "dispatchBehindBytes": str(parts.store.dispatch_behind_bytes),
            "remainHowManyDataToFlush": f"{store.max_phy_offset - store.log.flushed_where.get()} B",
            "pageCacheLockTimeMills": str(_held_ms(parts)),
            "earliestMessageTimeStamp": str(_earliest_ms(parts)),
            **_capacity(parts),
            "remainTransientStoreBufferNumbs": str(_buffers_left(parts)),
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


def _earliest_ms(parts: BrokerParts) -> int:
    """Return when the first message of the log was stored, -1 if there is none.

    RocketMQ says -1 until the log has twice the largest message's bytes, and tools make an age of 50 years of it.
    """
    store = parts.own_store
    try:
        record = store.look_message_by_offset(store.min_phy_offset)
    except (
        StoreError
    ):  # what cannot be read now has no time to tell, and the other figures are wanted all the more
        return -1
    return -1 if record is None else record.store_timestamp_ms


def _capacity(parts: BrokerParts) -> dict[str, str]:
    """Return how much room the log's disk has in all and left, in words, if the directory is there."""
    files, path = parts.world.files, parts.own_store.config.commit_log_directories[0]
    if files.status(path) is None:
        return {}
    space = files.space(path)
    total, free = (
        f"{size / (1 << 30):.1f} GiB" for size in (space.used_bytes + space.usable_bytes, space.usable_bytes)
    )
    return {"commitLogDirCapacity": f"Total : {total}, Free : {free}."}


def _buffers_left(parts: BrokerParts) -> int:
    """Return how many buffers of the transient pool are left; without one, RocketMQ says the largest integer."""
    pool = parts.own_store.pool
    return _INT_MAX if pool is None else pool.available
