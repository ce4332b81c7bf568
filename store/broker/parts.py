"""Broker parts: creates and connects the services of a broker.

`Broker` starts and stops these services. Processors use them.
"""

from collections.abc import Callable, Iterable, Mapping

from ..config import BrokerRole, ConfigError, StoreConfig
from ..formats.message import decode_record
from ..formats.remoting.json_body import MessageQueue
from ..message_store import MessageStore
from ..plugins import AnyMessageStore, PluginContext, build_message_store
from ..replication.ha_service import HAService
from ..services.consumer_filter import ConsumerFilterManager, use_bit_maps
from ..services.consumer_offsets import LIGHT_GROUP_PREFIX, ConsumerOffsetManager
from ..services.transaction_check import TransactionConfig
from ..services.transaction_service import TransactionalMessageService
from ..world import World
from .acl.plain_acl import AccessControl
from .broker_config import MASTER_ID, BrokerConfig
from .client_calls import ClientCalls, ClientPushes
from .clients import ConsumerManager, ProducerManager, RebalanceLockManager
from .hooks import MessageHooks
from .housekeeping import DailyMessageTotals, PutLatency, StoreProblemLog
from .live_settings import LiveSettings
from .long_polling import PullRequestHoldService
from .operator_log import warning_line
from .requests import RequestRefusedError, ResponseCode
from .router import Channel
from .statistics import BrokerStatistics
from .subscriptions import SubscriptionData
from .topic_names import group_name_fault
from .topics import SubscriptionGroupConfig, SubscriptionGroupManager, TopicConfig, TopicConfigManager


class BrokerParts:
    """The parts of a broker."""

    def __init__(self, world: World, store_config: StoreConfig, config: BrokerConfig) -> None:
        if store_config.broker_role is BrokerRole.SLAVE and config.broker_id == MASTER_ID:
            raise ConfigError("brokerId", "more than 0 on a slave", config.broker_id)
        self.world = world
        self.config = config
        self.own_store = store = MessageStore(world, store_config)
        context, plug_ins = PluginContext(world, store_config), config.message_store_plug_in
        self.store: AnyMessageStore = build_message_store(plug_ins, context, store)
        directory = store_config.config_directory
        self.topics = TopicConfigManager(world, directory, config)
        self.groups = SubscriptionGroupManager(world, directory, config)
        ms, light = config.flush_consumer_offset_interval_ms, store_config.enable_lmq
        self.offsets = ConsumerOffsetManager(world, directory, flush_interval_ms=ms, light_queues=light)
        self.transactions = TransactionalMessageService(world, store, self.offsets, _transaction_config(config))
        self.filters: ConsumerFilterManager | None = None
        """Registered SQL filters; None unless enableCalcFilterBitMap is set."""
        if config.enable_calc_filter_bit_map:
            if not store_config.enable_consume_queue_ext:
                raise ConfigError("enableCalcFilterBitMap", "false without enableConsumeQueueExt", True)
            self.filters = use_bit_maps(store)
        self.consumers = ConsumerManager(world)
        self.producers = ProducerManager(world)
        self.locks = RebalanceLockManager(world)
        self.calls = ClientCalls(world)
        self.pushes = ClientPushes(world, self.producers)
        self.statistics = BrokerStatistics(world.clock, store.stats, config.broker_cluster_name)
        self.put_latency = PutLatency(world, store.stats)
        self.settings = LiveSettings(world, store_config, config)
        self.daily = DailyMessageTotals(world, store.stats)
        self.watch = StoreProblemLog(world, store)
        self.hooks = MessageHooks()
        self.access: AccessControl | None = None
        """The server sets this. None: allow every request."""
        self.ha: HAService | None = None
        if world.network is not None:
            self.ha = HAService(store, config.ha_host)
        self.server_info: Callable[[], Mapping[str, str]] = dict
        self.held_pulls = PullRequestHoldService(world, self.store, config)
        self.consumers.on_changed = self._notify_members
        self.consumers.on_registered = self._register_filters
        self.consumers.on_gone = self._unregister_filters
        self.transactions.on_check = self.pushes.push_transaction_check
        self.store.on_arriving.append(self.held_pulls.on_arriving, self.held_pulls.awaits)
        self.settings.on_changed = self._apply_changed_settings
        self._queue_turn = world.tasks.cell("queue turn")

    def _notify_members(self, group: str, channels: Iterable[Channel]) -> None:
        """Announce a change of a group. The setting applies to every change, also to the end of a connection."""
        if self.config.notify_consumer_ids_changed_enable:
            self.pushes.notify_consumer_ids_changed(group, channels)

    def _apply_changed_settings(self, names: frozenset[str]) -> None:
        self.transactions.set_config(_transaction_config(self.config))
        self.offsets.flush_interval_ms = self.config.flush_consumer_offset_interval_ms
        if "broker_permission" in names:
            try:
                self.topics.write_with_next_version()
            except OSError as error:  # the settings have changed nevertheless
                text = f"name servers get the new brokerPermission only after the next change of a topic: {error}"
                self.settings.emit(warning_line(text))

    @property
    def is_slave(self) -> bool:
        return self.store.config.broker_role is BrokerRole.SLAVE

    def next_round_robin_queue_id(self, queues: int) -> int:
        """Return the next queue id in round robin. RocketMQ chooses a random one."""
        return self._queue_turn.add(1) % queues if queues > 0 else 0

    def channel_closed(self, channel: Channel) -> None:
        self.held_pulls.forget_channel(channel)
        self.producers.remove_channel(channel)
        self.consumers.remove_channel(channel)

    def require_topic(self, name: str) -> TopicConfig:
        """Return the topic's settings, or those of a light queue. Refuses the request if there is neither."""
        topic = self.topics.get(name)
        if topic is None and self._is_light_name(name):
            return TopicConfig(name, read_queue_nums=1, write_queue_nums=1)  # as RocketMQ's LmqTopicConfigManager
        if topic is None:
            raise RequestRefusedError(f"topic {name[:255]!r} does not exist", ResponseCode.TOPIC_NOT_EXIST)
        return topic

    def require_group(self, name: str) -> SubscriptionGroupConfig:
        """Return an existing group, or a new one if the settings allow that, else refuse the request."""
        group = self.groups.find(name)
        if group is None:
            remark = f"subscription group {name[:255]!r} does not exist"
            raise RequestRefusedError(remark, ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST)
        return group

    def require_filter_is_enabled(self, subscription: SubscriptionData) -> None:
        if not subscription.is_tag and not self.config.enable_property_filter:
            kind, reason = subscription.expression_type, "enablePropertyFilter is false on this broker"
            raise RequestRefusedError(f"expressionType {kind}: {reason}")

    def has_queue(self, topic: str, queue_id: int) -> bool:
        """Return whether the topic has the queue, or a light queue has this name.

        A slave can have a queue up to 10 s before it copies the topic from its master.
        """
        if self.is_slave and self.own_store.queues.find(topic, queue_id) is not None:
            return True
        config = self.topics.get(topic)
        if config is not None:
            return 0 <= queue_id < config.queue_nums
        return queue_id == 0 and self._is_light_name(topic)

    def group_name_fault(self, group: str) -> str | None:
        """Return an error text for an invalid name. Light group names need enabled light queues."""
        return None if self._is_light_name(group) else group_name_fault(group)

    def _is_light_name(self, name: str) -> bool:
        """Return whether a topic or group has the name of a light queue."""
        return self.store.config.enable_lmq and name.startswith(LIGHT_GROUP_PREFIX)

    def max_offset(self, topic: str, queue_id: int) -> int:
        return self.store.get_max_offset_in_queue(topic, queue_id) if self.has_queue(topic, queue_id) else 0

    def min_offset(self, topic: str, queue_id: int) -> int:
        return max(0, self.store.get_min_offset_in_queue(topic, queue_id))

    def offset_by_time(self, topic: str, queue_id: int, timestamp_ms: int) -> int:
        """Return the offset of the message with the nearest store time, or 0 if the queue is missing."""
        if not self.has_queue(topic, queue_id):
            return 0
        return self.store.get_offset_in_queue_by_time(topic, queue_id, timestamp_ms)

    def store_time(self, topic: str, queue_id: int, offset: int) -> int:
        """Return a message's store time in ms since 1970, or -1 if the message is missing."""
        if offset < 0 or not self.has_queue(topic, queue_id):
            return -1
        found = self.store.get_message(topic, queue_id, offset, 1)
        if not found.records or found.queue_offsets[0] != offset:
            return -1
        return decode_record(found.records[0], 0, file="commitlog").store_timestamp_ms

    def consume_progress(self, group: str, topic: str, queues: int) -> dict[MessageQueue, dict[str, int]]:
        """Return a group's progress in the first `queues` queues of a topic."""
        offsets = {}
        for queue_id in range(queues):
            own = max(0, self.offsets.query_offset(group, topic, queue_id))
            offsets[MessageQueue(topic, self.config.broker_name, queue_id)] = {
                "brokerOffset": self.max_offset(topic, queue_id),
                "consumerOffset": own,
                "lastTimestamp": max(0, self.store_time(topic, queue_id, own - 1)),
            }
        return offsets

    def _register_filters(self, group: str, subscriptions: tuple[SubscriptionData, ...]) -> None:
        if self.filters is not None:
            for each in subscriptions:
                if each.is_sql:
                    self.filters.register(each.topic, group, each.expression, each.version)

    def _unregister_filters(self, group: str) -> None:
        if self.filters is not None:
            self.filters.unregister(group)


def _transaction_config(config: BrokerConfig) -> TransactionConfig:
    return TransactionConfig(
        config.transaction_timeout_ms,
        config.transaction_check_max,
        config.transaction_check_interval_ms,
        config.store_host,
    )
