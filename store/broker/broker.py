"""Broker: a store with its services and request routes.

broker = Broker(world, StoreConfig("/var/lib/mq"), BrokerConfig(listen_port=10911))
broker.load()
broker.start()
...                # a server now serves broker.routes() and calls broker.channel_closed for ended connections
broker.shutdown()
"""

from collections.abc import Mapping, Sequence

from ..config import StoreConfig
from ..errors import CorruptFileError, StoreError
from ..formats.remoting.frame import FRAME_BYTES_MAX
from ..network import bracket_ipv6
from ..replication.ha_service import HAService
from ..world import World
from .broker_config import BrokerConfig
from .housekeeping import ClientHousekeepingService
from .kv_config import ORDER_TOPIC_CONFIG
from .name_server import NameServer
from .outer_api import BrokerRegistration, SlaveSynchronize
from .parts import BrokerParts
from .processors.acl_admin import AclAdminProcessor
from .processors.broker_admin import BrokerAdminProcessor
from .processors.client_manage import ClientManageProcessor
from .processors.figures import StatisticsProcessor
from .processors.group_admin import GroupAdminProcessor
from .processors.names import name_server_processors
from .processors.pull import PullMessageProcessor
from .processors.query import QueryMessageProcessor
from .processors.send import SendMessageProcessor
from .requests import RequestCode as Code
from .requests import success_response
from .router import (
    BODY_BYTES_MAX,
    REGISTRATION_BYTES_MAX,
    Channel,
    Pool,
    Processor,
    RequestRoute,
    Routes,
    with_error_responses,
)


class Broker(BrokerParts):
    """A broker. Source: RocketMQ BrokerController."""

    def __init__(self, world: World, store_config: StoreConfig, config: BrokerConfig) -> None:
        super().__init__(world, store_config, config)
        expiry = (self.consumers.close_expired, self.producers.close_expired, self.locks.forget_expired)
        samples = (self.daily.start_day_if_new, self.put_latency.start_minute_if_over, self.statistics.take_samples)
        reports = (self.watch.log_changes, self.watch.report_slow_puts)
        self.housekeeping = ClientHousekeepingService(world, (*expiry, *samples, *reports))
        self.name_server = NameServer(
            world, config, self.topics, kv_path=f"{store_config.config_directory}/kvConfig.json"
        )
        self.name_server.kv.on_changed = self._apply_order_config
        self.synchronize: SlaveSynchronize | None = None
        if self.is_slave and world.network is not None:
            self.synchronize = SlaveSynchronize(self)
        self.registrations = [
            BrokerRegistration(self, each, lambda: self.name_server.ha_address, self._follow_master)
            for each in config.name_servers
        ]
        """One service per name server, so that a slow name server does not delay the others."""
        self.topics.on_changed = self._register_again
        services = (self.held_pulls, self.housekeeping, self.synchronize, *self.registrations)
        self._services = [service for service in services if service is not None]
        """These services start in this order, after all other parts, and stop in reverse order, before them."""
        for service in (self.offsets, *self._services):
            service.on_failure = self.own_store.flags.service_failed

    findings: Sequence[CorruptFileError] = ()

    def load(self) -> None:
        """Load all files and recover the store.

        Raises StoreLockedError if another process uses the directory, CorruptFileError for an unreadable file, and
        OSError if the disk fails. An exception releases the directory lock.
        """
        self.store.load()
        report = self.own_store.last_recovery
        self.findings = [] if report is None else list(report.findings)
        try:
            self.topics.load()
            self.groups.load()
            self.offsets.load()
            self.name_server.kv.load()
            files = self.topics.file, self.groups.file, self.offsets.file, self.name_server.kv.file
            self.findings += [one.damage for one in files if one is not None and one.damage is not None]
            if not self.is_slave:
                # A slave must not reduce offsets: it copies the master's offsets, and its queues may still be shorter.
                self.offsets.clamp_to_queues(self.store)
        except (StoreError, OSError):
            self.store.close()
            raise

    def start(self) -> None:
        """Start the store and all services. A server may then serve the routes.

        Raises OSError if the disk fails or the HA port cannot be bound, and ValueError for an invalid haHost. An
        exception shuts the store down.
        """
        try:
            self.store.start()
            if not self.is_slave:
                self.topics.add_system_topics()
                self.groups.add_system_groups()
            if self.ha is not None:
                self._listen_for_slaves(self.ha)
                port = self.ha.address.rpartition(":")[2]
                self.name_server.ha_address = f"{bracket_ipv6(self.config.broker_ip1)}:{port}"
        except Exception:
            self.store.shutdown()
            raise
        if not self.is_slave:
            self.transactions.start()
        self.offsets.start()
        for service in self._services:
            service.start()

    def shutdown(self) -> bool:
        """After the last request, stop all services, then the store. Return whether the shutdown was clean."""
        for service in reversed(self._services):
            service.shutdown()
        if not self.is_slave:
            self.transactions.shutdown()
        self.offsets.shutdown()
        if self.ha is not None:
            self.ha.shutdown()
        return self.store.shutdown()

    def channel_closed(self, channel: Channel) -> None:
        super().channel_closed(channel)
        self.name_server.channel_closed(channel)

    def _listen_for_slaves(self, ha: HAService) -> None:
        address = f"{bracket_ipv6(self.config.ha_host)}:{self.store.config.ha_listen_port}"
        try:
            ha.start()
        except OSError as error:
            raise OSError(error.errno, f"slaves: {error.strerror}", address) from error

    def _follow_master(self, address: str, ha_address: str) -> None:
        """Copy from the given master, unless the settings name a master."""
        if self.synchronize is not None and not self.config.master_addr:
            self.synchronize.update_master_address(address)
        if self.ha is not None and ha_address and not self.store.config.ha_master_address:
            self.ha.update_master_address(ha_address)

    def _register_again(self) -> None:
        for registration in self.registrations:
            registration.wake()

    def _apply_order_config(self, namespace: str) -> None:
        """Mark ordered topics. If other name servers are configured, ignore the built-in one's ORDER_TOPIC_CONFIG."""
        if namespace == ORDER_TOPIC_CONFIG and not self.registrations:
            self.topics.mark_ordered(lambda: self.name_server.kv.namespace(ORDER_TOPIC_CONFIG) or {})

    def routes(self) -> Routes:
        """Source: RocketMQ BrokerController.registerProcessor."""
        sends, query = SendMessageProcessor(self), QueryMessageProcessor(self)
        broker, groups = BrokerAdminProcessor(self), GroupAdminProcessor(self)
        clients, figures = ClientManageProcessor(self), StatisticsProcessor(self)
        names, accounts = name_server_processors(self.world, self.name_server), AclAdminProcessor(self)
        processors: Mapping[Pool, Mapping[int, Processor]] = {
            Pool.SEND_MESSAGE: {
                Code.SEND_MESSAGE: sends.send,
                Code.SEND_MESSAGE_V2: sends.send,
                Code.SEND_BATCH_MESSAGE: sends.send,
                Code.CONSUMER_SEND_MSG_BACK: sends.send_back,
            },
            Pool.REPLY_MESSAGE: {
                Code.SEND_REPLY_MESSAGE: sends.send_reply,
                Code.SEND_REPLY_MESSAGE_V2: sends.send_reply,
            },
            Pool.PULL_MESSAGE: {Code.PULL_MESSAGE: PullMessageProcessor(self)},
            Pool.QUERY_MESSAGE: {Code.QUERY_MESSAGE: query.query_message, Code.VIEW_MESSAGE_BY_ID: query.view_message},
            Pool.HEARTBEAT: {Code.HEART_BEAT: clients.heartbeat},
            Pool.CLIENT_MANAGE: {
                Code.UNREGISTER_CLIENT: clients.unregister_client,
                Code.CHECK_CLIENT_CONFIG: clients.check_config,
                Code.GET_ROUTEINFO_BY_TOPIC: names.pop(Code.GET_ROUTEINFO_BY_TOPIC),
            },
            Pool.CONSUMER_MANAGE: {
                Code.GET_CONSUMER_LIST_BY_GROUP: clients.consumer_list,
                Code.QUERY_CONSUMER_OFFSET: clients.query_offset,
                Code.UPDATE_CONSUMER_OFFSET: clients.update_offset,
            },
            Pool.END_TRANSACTION: {Code.END_TRANSACTION: sends.end_transaction},
            Pool.ADMIN: {
                Code.GET_MAX_OFFSET: query.max_offset,
                Code.GET_MIN_OFFSET: query.min_offset,
                Code.SEARCH_OFFSET_BY_TIMESTAMP: query.offset_by_time,
                Code.GET_EARLIEST_MSG_STORETIME: query.earliest_time,
                Code.UPDATE_AND_CREATE_TOPIC: broker.update_topic,
                Code.DELETE_TOPIC_IN_BROKER: broker.delete_topic,
                Code.GET_ALL_TOPIC_CONFIG: lambda request, _: success_response(request, self.topics.json_members),
                Code.GET_TOPIC_STATS_INFO: broker.topic_stats,
                Code.GET_SYSTEM_TOPIC_LIST_FROM_BROKER: lambda request, _: success_response(
                    request, {"topicList": list(filter(self.topics.is_system, sorted(self.topics.table)))}
                ),
                Code.GET_BROKER_CONFIG: broker.get_config,
                Code.GET_BROKER_RUNTIME_INFO: broker.runtime_info,
                Code.UPDATE_BROKER_CONFIG: broker.update_config,
                Code.CLEAN_EXPIRED_CONSUMEQUEUE: broker.clean_expired_queues,
                Code.CLEAN_UNUSED_TOPIC: broker.clean_expired_queues,
                Code.DELETE_EXPIRED_COMMITLOG: broker.delete_expired_log,
                Code.RESUME_CHECK_HALF_MESSAGE: broker.resume_check,
                Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: groups.update_group,
                Code.DELETE_SUBSCRIPTIONGROUP: groups.delete_group,
                Code.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: lambda request, _: success_response(
                    request, self.groups.json_members
                ),
                Code.GET_CONSUMER_CONNECTION_LIST: groups.consumer_connections,
                Code.GET_PRODUCER_CONNECTION_LIST: groups.producer_connections,
                Code.GET_ALL_PRODUCER_INFO: groups.all_producers,
                Code.QUERY_TOPIC_CONSUME_BY_WHO: groups.groups_consuming_topic,
                Code.GET_CONSUMER_RUNNING_INFO: groups.forward_to_consumer,
                Code.CONSUME_MESSAGE_DIRECTLY: groups.consume_message_directly,
                Code.GET_CONSUME_STATS: groups.consume_stats,
                Code.INVOKE_BROKER_TO_RESET_OFFSET: groups.reset_offset,
                Code.INVOKE_BROKER_TO_GET_CONSUMER_STATUS: groups.consumer_status,
                Code.CLONE_GROUP_OFFSET: groups.clone_offset,
                Code.GET_ALL_CONSUMER_OFFSET: lambda request, _: success_response(request, self.offsets.json_members),
                Code.GET_ALL_DELAY_OFFSET: lambda request, _: success_response(
                    request, {"offsetTable": dict(sorted(self.own_store.schedule.offsets.items()))}
                ),
                Code.LOCK_BATCH_MQ: clients.lock_queues,
                Code.UNLOCK_BATCH_MQ: clients.unlock_queues,
                Code.VIEW_BROKER_STATS_DATA: figures.view_statistics,
                Code.GET_BROKER_CONSUME_STATS: figures.consume_stats,
                Code.QUERY_CONSUME_TIME_SPAN: figures.time_span,
                Code.QUERY_CORRECTION_OFFSET: figures.correction_offset,
                Code.QUERY_CONSUME_QUEUE: figures.query_queue_entries,
                Code.UPDATE_AND_CREATE_ACL_CONFIG: accounts.update_account,
                Code.DELETE_ACL_CONFIG: accounts.delete_account,
                Code.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG: accounts.update_white_addresses,
                Code.GET_BROKER_CLUSTER_ACL_INFO: accounts.acl_version,
                Code.GET_BROKER_CLUSTER_ACL_CONFIG: accounts.all_accounts,
                **names,
            },
        }
        routes = {
            code: RequestRoute(pool, with_error_responses(processor), _request_body_bytes_max(pool, code))
            for pool, of_pool in processors.items()
            for code, processor in of_pool.items()
        }
        assert len(routes) == sum(map(len, processors.values())), "a code has two processors"
        return routes


def _request_body_bytes_max(pool: Pool, code: int) -> int:
    if pool in (Pool.SEND_MESSAGE, Pool.REPLY_MESSAGE):  # the store checks maxMessageSize
        return FRAME_BYTES_MAX
    return REGISTRATION_BYTES_MAX if code == Code.REGISTER_BROKER else BODY_BYTES_MAX
