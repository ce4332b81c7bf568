"""Request coverage: the request codes that the simulated users of each broker scenario can send.

`tests/scenarios/runs/broker/test_request_coverage.py` compares them with the requests that brokers receive in runs, and
with the tables in `docs/simulated-requests.md`.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from ....store.broker.requests import RequestCode as Code
from ...claims.catalogue import SCENARIOS
from ...claims.ranges import Options, Ranges
from .refused_requests import REFUSED_CODES

_SHOWN_MAX = 4


def _options(ranges: Ranges, path: str) -> Options:
    """Return the options of a knob, also those of optional groups."""
    return (*ranges[path], *(option for group in ranges.optional.values() for option in group.get(path, ())))


def _has(*paths: str) -> Callable[[Ranges], bool]:
    """Return whether ranges have an option other than 0 for each knob."""
    return lambda ranges: all(any(_options(ranges, path)) for path in paths)


def _uses_name_servers(ranges: Ranges) -> bool:
    return any(_options(ranges, "cluster.slaves")) or max(_options(ranges, "broker.masters")) > 1


class UserRequests(NamedTuple):
    """The requests of one kind of user, and whether a scenario's ranges have such users."""

    codes: tuple[Code, ...]
    is_in: Callable[[Ranges], bool]


USERS: Mapping[str, UserRequests] = {
    "producers": UserRequests((Code.SEND_MESSAGE_V2,), lambda ranges: True),
    "producers of batches": UserRequests((Code.SEND_BATCH_MESSAGE,), _has("messages.batch_chance")),
    "producers of transactions": UserRequests((Code.END_TRANSACTION, Code.HEART_BEAT), _has("transactions.chance")),
    "consumers": UserRequests((Code.PULL_MESSAGE, Code.QUERY_CONSUMER_OFFSET), _has("consumers")),
    "consumers that commit by request": UserRequests(
        (Code.UPDATE_CONSUMER_OFFSET,),
        lambda ranges: any(_options(ranges, "consumers")) and not all(_options(ranges, "broker.commits_with_pulls")),
    ),
    "consumers that may die": UserRequests((Code.HEART_BEAT,), _has("consumers", "broker.client_death_chance")),
    "consumers that register filters": UserRequests((Code.HEART_BEAT,), _has("consumers", "broker.registers_filters")),
    "consumers that retry": UserRequests((Code.CONSUMER_SEND_MSG_BACK,), _has("consumers", "broker.send_back_chance")),
    "consumers that fail": UserRequests(
        (Code.CONSUMER_SEND_MSG_BACK, Code.HEART_BEAT, Code.PULL_MESSAGE), _has("retry.failing_consumers")
    ),
    "tailing consumers": UserRequests((Code.PULL_MESSAGE, Code.GET_MAX_OFFSET), _has("broker.tailing_consumers")),
    "group members": UserRequests(
        (
            *(Code.HEART_BEAT, Code.GET_CONSUMER_LIST_BY_GROUP, Code.LOCK_BATCH_MQ, Code.UNLOCK_BATCH_MQ),
            *(Code.PULL_MESSAGE, Code.QUERY_CONSUMER_OFFSET, Code.UPDATE_CONSUMER_OFFSET),
        ),
        _has("broker.group_members"),
    ),
    "members that leave": UserRequests((Code.UNREGISTER_CLIENT,), _has("broker.group_members", "broker.leave_chance")),
    "lookup clients": UserRequests(
        (
            *(Code.QUERY_MESSAGE, Code.VIEW_MESSAGE_BY_ID, Code.PULL_MESSAGE, Code.GET_MIN_OFFSET),
            *(Code.GET_MAX_OFFSET, Code.SEARCH_OFFSET_BY_TIMESTAMP, Code.GET_EARLIEST_MSG_STORETIME),
        ),
        _has("index.seekers"),
    ),
    "operators": UserRequests(
        (
            *(Code.UPDATE_AND_CREATE_TOPIC, Code.DELETE_TOPIC_IN_BROKER, Code.GET_ALL_TOPIC_CONFIG),
            *(Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, Code.DELETE_SUBSCRIPTIONGROUP),
            *(Code.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, Code.GET_ROUTEINFO_BY_TOPIC, Code.PULL_MESSAGE),
            *(Code.CLEAN_UNUSED_TOPIC, Code.CLEAN_EXPIRED_CONSUMEQUEUE, Code.DELETE_EXPIRED_COMMITLOG),
            *(Code.UPDATE_CONSUMER_OFFSET, Code.QUERY_CONSUMER_OFFSET, Code.HEART_BEAT, Code.UNREGISTER_CLIENT),
            Code.GET_CONSUMER_LIST_BY_GROUP,
            *REFUSED_CODES,
        ),
        _has("broker.operators"),
    ),
    "operators of groups": UserRequests(
        (
            *(Code.INVOKE_BROKER_TO_RESET_OFFSET, Code.CLONE_GROUP_OFFSET, Code.GET_CONSUMER_CONNECTION_LIST),
            *(Code.QUERY_CONSUMER_OFFSET, Code.LOCK_BATCH_MQ, Code.SEARCH_OFFSET_BY_TIMESTAMP),
        ),
        _has("broker.operators", "broker.group_members"),
    ),
    "operators of settings": UserRequests(
        (Code.UPDATE_BROKER_CONFIG, Code.GET_BROKER_CONFIG, Code.PULL_MESSAGE), _has("broker.settings_operators")
    ),
    "clients with accounts": UserRequests(
        (
            *(Code.SEND_MESSAGE_V2, Code.PULL_MESSAGE, Code.HEART_BEAT, Code.GET_CONSUMER_LIST_BY_GROUP),
            *(Code.GET_MAX_OFFSET, Code.QUERY_CONSUMER_OFFSET, Code.UPDATE_CONSUMER_OFFSET),
            *(Code.GET_ROUTEINFO_BY_TOPIC, Code.CLEAN_UNUSED_TOPIC, Code.UPDATE_AND_CREATE_TOPIC),
            *(Code.GET_ALL_TOPIC_CONFIG, Code.UPDATE_AND_CREATE_ACL_CONFIG, Code.DELETE_ACL_CONFIG),
            *(Code.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG, Code.GET_BROKER_CLUSTER_ACL_CONFIG),
        ),
        _has("access.clients"),
    ),
    "clients and brokers that use name servers": UserRequests(
        (Code.GET_ROUTEINFO_BY_TOPIC, Code.REGISTER_BROKER, Code.UNREGISTER_BROKER), _uses_name_servers
    ),
    "route operators": UserRequests(
        (Code.WIPE_WRITE_PERM_OF_BROKER, Code.ADD_WRITE_PERM_OF_BROKER, Code.DELETE_TOPIC_IN_NAMESRV),
        _has("broker.route_operators"),
    ),
    "route watchers": UserRequests((Code.GET_ROUTEINFO_BY_TOPIC,), _has("broker.watches_routes")),
    "slaves": UserRequests(
        (
            *(Code.GET_ALL_TOPIC_CONFIG, Code.GET_ALL_CONSUMER_OFFSET, Code.GET_ALL_DELAY_OFFSET),
            Code.GET_ALL_SUBSCRIPTIONGROUP_CONFIG,
        ),
        _has("cluster.slaves"),
    ),
}

SENT_BY_BROKERS: Mapping[Code, str] = {
    Code.CHECK_TRANSACTION_STATE: "producers of transactions",
    Code.NOTIFY_CONSUMER_IDS_CHANGED: "group members",
    Code.RESET_CONSUMER_CLIENT_OFFSET: "operators of groups",
}
"""Requests of brokers -> the users that receive or cause them."""

_FIGURES = "reads figures; no promise depends on them"
_SETTINGS = "settings of a running name server do not change in runs"
_CALL = "the broker passes the call to a client and its answer back, and stores no data"
_REPLY = "a reply goes to a connected client only; it may be lost"
_NAMES = "the built-in name server answers from memory; runs query only routes"

NOT_SIMULATED: Mapping[Code, str] = {
    Code.SEND_MESSAGE: "the long form of SEND_MESSAGE_V2, which no client of 4.9 uses by default",
    Code.QUERY_DATA_VERSION: "a broker may ask before it registers; these brokers register without asking",
    Code.RESUME_CHECK_HALF_MESSAGE: "transaction-check-resumed calls the service instead",
    **dict.fromkeys((Code.UPDATE_NAMESRV_CONFIG, Code.GET_NAMESRV_CONFIG), _SETTINGS),
    **dict.fromkeys((Code.GET_BROKER_RUNTIME_INFO, Code.GET_TOPIC_STATS_INFO, Code.GET_CONSUME_STATS), _FIGURES),
    **dict.fromkeys((Code.VIEW_BROKER_STATS_DATA, Code.GET_BROKER_CONSUME_STATS), _FIGURES),
    **dict.fromkeys((Code.QUERY_CONSUME_TIME_SPAN, Code.QUERY_CORRECTION_OFFSET), _FIGURES),
    **dict.fromkeys((Code.QUERY_CONSUME_QUEUE, Code.QUERY_TOPIC_CONSUME_BY_WHO), _FIGURES),
    **dict.fromkeys((Code.GET_PRODUCER_CONNECTION_LIST, Code.GET_ALL_PRODUCER_INFO), _FIGURES),
    **dict.fromkeys((Code.GET_SYSTEM_TOPIC_LIST_FROM_BROKER, Code.GET_SYSTEM_TOPIC_LIST_FROM_NS), _FIGURES),
    Code.GET_BROKER_CLUSTER_ACL_INFO: "reads the version of the accounts; no promise depends on it",
    **dict.fromkeys((Code.GET_CONSUMER_STATUS_FROM_CLIENT, Code.INVOKE_BROKER_TO_GET_CONSUMER_STATUS), _CALL),
    **dict.fromkeys((Code.GET_CONSUMER_RUNNING_INFO, Code.CONSUME_MESSAGE_DIRECTLY), _CALL),
    **dict.fromkeys((Code.SEND_REPLY_MESSAGE, Code.SEND_REPLY_MESSAGE_V2), _REPLY),
    Code.PUSH_REPLY_MESSAGE_TO_CLIENT: _REPLY,
    **dict.fromkeys((Code.PUT_KV_CONFIG, Code.GET_KV_CONFIG, Code.DELETE_KV_CONFIG), _NAMES),
    **dict.fromkeys((Code.GET_KVLIST_BY_NAMESPACE, Code.GET_BROKER_CLUSTER_INFO), _NAMES),
    **dict.fromkeys((Code.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, Code.GET_TOPICS_BY_CLUSTER), _NAMES),
    Code.GET_UNIT_TOPIC_LIST: _NAMES,
    **dict.fromkeys((Code.GET_HAS_UNIT_SUB_TOPIC_LIST, Code.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST), _NAMES),
}
"""Requests that clients or operators of RocketMQ 4.9 send, and no simulated user sends, with the reason."""


def codes_of(ranges: Ranges) -> set[Code]:
    """Return the request codes that brokers can receive in runs of a scenario."""
    return {code for user in USERS.values() if user.is_in(ranges) for code in user.codes}


def scenarios_by_code() -> dict[Code, list[str]]:
    """Return the broker scenarios in which each code can be sent, also by a broker to its clients."""
    brokers = {name: each.ranges for name, each in SCENARIOS.items() if each.ranges.has_brokers}
    found: dict[Code, list[str]] = {code: [] for code in Code}
    for name, ranges in brokers.items():
        pushed = {code for code, user in SENT_BY_BROKERS.items() if USERS[user].is_in(ranges)}
        for code in codes_of(ranges) | pushed:
            found[code].append(name)
    return found


def coverage_tables() -> str:
    """Return the tables of `docs/simulated-requests.md`: requests by scenario, and requests that no scenario has."""
    every = sum(scenario.ranges.has_brokers for scenario in SCENARIOS.values())
    lines = ["| request | scenarios |", "| --- | --- |"]
    for code, names in scenarios_by_code().items():
        if names:
            shown = f"all {every}" if len(names) == every else ", ".join(f"`{name}`" for name in names[:_SHOWN_MAX])
            more = f" and {len(names) - _SHOWN_MAX} more" if _SHOWN_MAX < len(names) < every else ""
            lines.append(f"| `{code.name}` | {shown}{more} |")
    lines += ["", "| not simulated | reason |", "| --- | --- |"]
    for why in dict.fromkeys(NOT_SIMULATED.values()):
        names = [f"`{code.name}`" for code, each in NOT_SIMULATED.items() if each == why]
        lines.append(f"| {', '.join(names)} | {why} |")
    return "\n".join(lines)
