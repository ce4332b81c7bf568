"""Routes: the processor and the pool of each request code.

Source: RocketMQ BrokerController.registerProcessor.
"""

from .name_server import NameServer, NameServerProcessor
from .parts import BrokerParts
from .processors.broker_admin import BrokerAdminProcessor, TopicAdminProcessor
from .processors.client_manage import ClientManageProcessor, ConsumerManageProcessor, LockProcessor
from .processors.end_transaction import EndTransactionProcessor
from .processors.group_admin import ConsumerCallProcessor, GroupAdminProcessor, ProgressAdminProcessor
from .processors.pull import PullMessageProcessor
from .processors.query import OffsetProcessor, QueryMessageProcessor
from .processors.reply import ReplyMessageProcessor
from .processors.send import SendBackProcessor, SendMessageProcessor
from .requests import RequestCode as Code
from .router import Pool, Route, Router, answering


def router_of(parts: BrokerParts, name_server: NameServer) -> Router:
    """Return what answers the requests to a broker, and to the name server in it."""
    send, reply = SendMessageProcessor(parts), ReplyMessageProcessor(parts)
    clients, consumers = ClientManageProcessor(parts), ConsumerManageProcessor(parts)
    query, offsets, locks = QueryMessageProcessor(parts), OffsetProcessor(parts), LockProcessor(parts)
    topics, groups = TopicAdminProcessor(parts), GroupAdminProcessor(parts)
    progress, broker = ProgressAdminProcessor(parts), BrokerAdminProcessor(parts)
    calls = ConsumerCallProcessor(parts)
    names = NameServerProcessor(parts, name_server)
    routes = {
        Code.SEND_MESSAGE: Route(Pool.SEND_MESSAGE, send),
        Code.SEND_MESSAGE_V2: Route(Pool.SEND_MESSAGE, send),
        Code.SEND_BATCH_MESSAGE: Route(Pool.SEND_MESSAGE, send),
        Code.CONSUMER_SEND_MSG_BACK: Route(Pool.SEND_MESSAGE, SendBackProcessor(parts)),
        Code.SEND_REPLY_MESSAGE: Route(Pool.REPLY_MESSAGE, reply),
        Code.SEND_REPLY_MESSAGE_V2: Route(Pool.REPLY_MESSAGE, reply),
        Code.PULL_MESSAGE: Route(Pool.PULL_MESSAGE, PullMessageProcessor(parts)),
        Code.QUERY_MESSAGE: Route(Pool.QUERY_MESSAGE, query.query),
        Code.VIEW_MESSAGE_BY_ID: Route(Pool.QUERY_MESSAGE, query.view),
        Code.HEART_BEAT: Route(Pool.HEARTBEAT, clients.heartbeat),
        Code.UNREGISTER_CLIENT: Route(Pool.CLIENT_MANAGE, clients.unregister),
        Code.CHECK_CLIENT_CONFIG: Route(Pool.CLIENT_MANAGE, clients.check_config),
        Code.GET_CONSUMER_LIST_BY_GROUP: Route(Pool.CONSUMER_MANAGE, consumers.consumer_list),
        Code.QUERY_CONSUMER_OFFSET: Route(Pool.CONSUMER_MANAGE, consumers.query_offset),
        Code.UPDATE_CONSUMER_OFFSET: Route(Pool.CONSUMER_MANAGE, consumers.update_offset),
        Code.END_TRANSACTION: Route(Pool.END_TRANSACTION, EndTransactionProcessor(parts)),
        Code.GET_MAX_OFFSET: Route(Pool.ADMIN, offsets.max_offset),
        Code.GET_MIN_OFFSET: Route(Pool.ADMIN, offsets.min_offset),
        Code.SEARCH_OFFSET_BY_TIMESTAMP: Route(Pool.ADMIN, offsets.offset_by_time),
        Code.GET_EARLIEST_MSG_STORETIME: Route(Pool.ADMIN, offsets.earliest_time),
        Code.UPDATE_AND_CREATE_TOPIC: Route(Pool.ADMIN, topics.update),
        Code.DELETE_TOPIC_IN_BROKER: Route(Pool.ADMIN, topics.delete),
        Code.GET_ALL_TOPIC_CONFIG: Route(Pool.ADMIN, topics.all_configs),
        Code.GET_TOPIC_STATS_INFO: Route(Pool.ADMIN, topics.stats),
        Code.GET_SYSTEM_TOPIC_LIST_FROM_BROKER: Route(Pool.ADMIN, topics.system_topics),
        Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: Route(Pool.ADMIN, groups.update),
        Code.DELETE_SUBSCRIPTIONGROUP: Route(Pool.ADMIN, groups.delete),
        Code.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: Route(Pool.ADMIN, groups.all_configs),
        Code.GET_CONSUMER_CONNECTION_LIST: Route(Pool.ADMIN, groups.consumer_connections),
        Code.GET_PRODUCER_CONNECTION_LIST: Route(Pool.ADMIN, groups.producer_connections),
        Code.GET_ALL_PRODUCER_INFO: Route(Pool.ADMIN, groups.all_producers),
        Code.QUERY_TOPIC_CONSUME_BY_WHO: Route(Pool.ADMIN, groups.consumed_by),
        Code.GET_CONSUMER_RUNNING_INFO: Route(Pool.ADMIN, calls.running_info),
        Code.CONSUME_MESSAGE_DIRECTLY: Route(Pool.ADMIN, calls.consume_directly),
        Code.GET_CONSUME_STATS: Route(Pool.ADMIN, progress.consume_stats),
        Code.INVOKE_BROKER_TO_RESET_OFFSET: Route(Pool.ADMIN, progress.reset_offset),
        Code.GET_ALL_CONSUMER_OFFSET: Route(Pool.ADMIN, progress.all_consumer_offsets),
        Code.GET_ALL_DELAY_OFFSET: Route(Pool.ADMIN, progress.all_delay_offsets),
        Code.GET_BROKER_CONFIG: Route(Pool.ADMIN, broker.config),
        Code.GET_BROKER_RUNTIME_INFO: Route(Pool.ADMIN, broker.runtime_info),
        Code.CLEAN_EXPIRED_CONSUMEQUEUE: Route(Pool.ADMIN, broker.clean_expired_queues),
        Code.DELETE_EXPIRED_COMMITLOG: Route(Pool.ADMIN, broker.delete_expired_log),
        Code.LOCK_BATCH_MQ: Route(Pool.ADMIN, locks.lock),
        Code.UNLOCK_BATCH_MQ: Route(Pool.ADMIN, locks.unlock),
        Code.GET_ROUTEINFO_BY_TOPIC: Route(Pool.CLIENT_MANAGE, names.route),
        Code.GET_BROKER_CLUSTER_INFO: Route(Pool.ADMIN, names.cluster_info),
        Code.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: Route(Pool.ADMIN, names.topic_list),
        Code.GET_TOPICS_BY_CLUSTER: Route(Pool.ADMIN, names.topics_of_cluster),
        Code.GET_SYSTEM_TOPIC_LIST_FROM_NS: Route(Pool.ADMIN, names.system_topics),
        Code.WIPE_WRITE_PERM_OF_BROKER: Route(Pool.ADMIN, names.wipe_write_perm),
        Code.ADD_WRITE_PERM_OF_BROKER: Route(Pool.ADMIN, names.add_write_perm),
        Code.DELETE_TOPIC_IN_NAMESRV: Route(Pool.ADMIN, names.delete_topic),
        Code.REGISTER_BROKER: Route(Pool.ADMIN, names.register),
        Code.UNREGISTER_BROKER: Route(Pool.ADMIN, names.unregister),
    }
    return Router({code: Route(pool, answering(processor)) for code, (pool, processor) in routes.items()})
