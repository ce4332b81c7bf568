"""Routes: the processor and the pool of each request code.

Source: RocketMQ BrokerController.registerProcessor.
"""

from collections.abc import Mapping

from .name_server import NameServer, NameServerProcessor
from .parts import BrokerParts
from .processors.broker_admin import BrokerAdminProcessor
from .processors.client_manage import ClientManageProcessor
from .processors.end_transaction import EndTransactionProcessor
from .processors.group_admin import GroupAdminProcessor
from .processors.pull import PullMessageProcessor
from .processors.query import QueryMessageProcessor
from .processors.reply import ReplyMessageProcessor
from .processors.send import SendBackProcessor, SendMessageProcessor
from .requests import RequestCode as Code
from .router import Pool, Processor, Route, Routes, answering


def routes_of(parts: BrokerParts, name_server: NameServer) -> Routes:
    """Return what answers the requests to a broker, and to the name server in it."""
    send, reply = SendMessageProcessor(parts), ReplyMessageProcessor(parts)
    clients, query = ClientManageProcessor(parts), QueryMessageProcessor(parts)
    broker, groups = BrokerAdminProcessor(parts), GroupAdminProcessor(parts)
    names = NameServerProcessor(parts, name_server)
    processors: Mapping[Pool, Mapping[int, Processor]] = {
        Pool.SEND_MESSAGE: {
            Code.SEND_MESSAGE: send,
            Code.SEND_MESSAGE_V2: send,
            Code.SEND_BATCH_MESSAGE: send,
            Code.CONSUMER_SEND_MSG_BACK: SendBackProcessor(parts),
        },
        Pool.REPLY_MESSAGE: {Code.SEND_REPLY_MESSAGE: reply, Code.SEND_REPLY_MESSAGE_V2: reply},
        Pool.PULL_MESSAGE: {Code.PULL_MESSAGE: PullMessageProcessor(parts)},
        Pool.QUERY_MESSAGE: {Code.QUERY_MESSAGE: query.query, Code.VIEW_MESSAGE_BY_ID: query.view},
        Pool.HEARTBEAT: {Code.HEART_BEAT: clients.heartbeat},
        Pool.CLIENT_MANAGE: {
            Code.UNREGISTER_CLIENT: clients.unregister,
            Code.CHECK_CLIENT_CONFIG: clients.check_config,
            Code.GET_ROUTEINFO_BY_TOPIC: names.route,
        },
        Pool.CONSUMER_MANAGE: {
            Code.GET_CONSUMER_LIST_BY_GROUP: clients.consumer_list,
            Code.QUERY_CONSUMER_OFFSET: clients.query_offset,
            Code.UPDATE_CONSUMER_OFFSET: clients.update_offset,
        },
        Pool.END_TRANSACTION: {Code.END_TRANSACTION: EndTransactionProcessor(parts)},
        Pool.ADMIN: {
            Code.GET_MAX_OFFSET: query.max_offset,
            Code.GET_MIN_OFFSET: query.min_offset,
            Code.SEARCH_OFFSET_BY_TIMESTAMP: query.offset_by_time,
            Code.GET_EARLIEST_MSG_STORETIME: query.earliest_time,
            Code.UPDATE_AND_CREATE_TOPIC: broker.update_topic,
            Code.DELETE_TOPIC_IN_BROKER: broker.delete_topic,
            Code.GET_ALL_TOPIC_CONFIG: broker.topics,
            Code.GET_TOPIC_STATS_INFO: broker.topic_stats,
            Code.GET_SYSTEM_TOPIC_LIST_FROM_BROKER: broker.system_topics,
            Code.GET_BROKER_CONFIG: broker.config,
            Code.GET_BROKER_RUNTIME_INFO: broker.runtime_info,
            Code.CLEAN_EXPIRED_CONSUMEQUEUE: broker.clean_expired_queues,
            Code.DELETE_EXPIRED_COMMITLOG: broker.delete_expired_log,
            Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: groups.update,
            Code.DELETE_SUBSCRIPTIONGROUP: groups.delete,
            Code.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: groups.all_configs,
            Code.GET_CONSUMER_CONNECTION_LIST: groups.consumer_connections,
            Code.GET_PRODUCER_CONNECTION_LIST: groups.producer_connections,
            Code.GET_ALL_PRODUCER_INFO: groups.all_producers,
            Code.QUERY_TOPIC_CONSUME_BY_WHO: groups.consumed_by,
            Code.GET_CONSUMER_RUNNING_INFO: groups.running_info,
            Code.CONSUME_MESSAGE_DIRECTLY: groups.consume_directly,
            Code.GET_CONSUME_STATS: groups.consume_stats,
            Code.INVOKE_BROKER_TO_RESET_OFFSET: groups.reset_offset,
            Code.GET_ALL_CONSUMER_OFFSET: groups.all_consumer_offsets,
            Code.GET_ALL_DELAY_OFFSET: groups.all_delay_offsets,
            Code.LOCK_BATCH_MQ: clients.lock,
            Code.UNLOCK_BATCH_MQ: clients.unlock,
            Code.GET_BROKER_CLUSTER_INFO: names.cluster_info,
            Code.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: names.topic_list,
            Code.GET_TOPICS_BY_CLUSTER: names.topics_of_cluster,
            Code.GET_SYSTEM_TOPIC_LIST_FROM_NS: names.system_topics,
            Code.WIPE_WRITE_PERM_OF_BROKER: names.wipe_write_perm,
            Code.ADD_WRITE_PERM_OF_BROKER: names.add_write_perm,
            Code.DELETE_TOPIC_IN_NAMESRV: names.delete_topic,
            Code.REGISTER_BROKER: names.register,
            Code.UNREGISTER_BROKER: names.unregister,
        },
    }
    return {
        code: Route(pool, answering(processor))
        for pool, of_pool in processors.items()
        for code, processor in of_pool.items()
    }
