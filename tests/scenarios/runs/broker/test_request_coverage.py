"""Each request of RocketMQ 4.9 is in a scenario, or in a list with a reason; the page and the runs agree."""

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

import pytest

from tornlog.scenarios.campaigns.seeds import run_seed
from tornlog.scenarios.claims.catalogue import SCENARIOS
from tornlog.scenarios.claims.ranges import Options, Ranges
from tornlog.scenarios.runs.broker.refused_requests import REFUSED_CODES
from tornlog.scenarios.runs.broker.watched_requests import WatchedRequests
from tornlog.store.broker.requests import RequestCode as Code
from tornlog.store.broker.router import Channel, Processor, Response
from tornlog.store.formats.remoting.command import RemotingCommand

PAGE = Path(__file__).resolve().parents[4] / "docs" / "simulated-requests.md"
BEGIN, END = "<!-- table of requests -->\n\n", "\n\n<!-- end of table -->"
OF_BROKERS = [name for name, scenario in SCENARIOS.items() if scenario.ranges.has_brokers]
SEEDS = 24
SHOWN_MAX = 4


def options_of(ranges: Ranges, path: str) -> Options:
    """Return the options of a knob, also those of optional groups."""
    return (*ranges[path], *(option for group in ranges.optional.values() for option in group.get(path, ())))


def has(*paths: str) -> Callable[[Ranges], bool]:
    """Return whether ranges have an option other than 0 for each knob."""
    return lambda ranges: all(any(options_of(ranges, path)) for path in paths)


def uses_name_servers(ranges: Ranges) -> bool:
    return any(options_of(ranges, "cluster.slaves")) or max(options_of(ranges, "broker.masters")) > 1


class UserRequests(NamedTuple):
    """The requests of one kind of user, and whether a scenario's ranges have such users."""

    codes: tuple[Code, ...]
    is_in: Callable[[Ranges], bool]


USERS: dict[str, UserRequests] = {
    "producers": UserRequests((Code.SEND_MESSAGE, Code.SEND_MESSAGE_V2), lambda ranges: True),
    "producers of batches": UserRequests((Code.SEND_BATCH_MESSAGE,), has("messages.batch_chance")),
    "producers of transactions": UserRequests((Code.END_TRANSACTION, Code.HEART_BEAT), has("transactions.chance")),
    "consumers": UserRequests((Code.PULL_MESSAGE, Code.QUERY_CONSUMER_OFFSET), has("consumers")),
    "consumers that commit by request": UserRequests(
        (Code.UPDATE_CONSUMER_OFFSET,),
        lambda ranges: (
            any(options_of(ranges, "consumers")) and not all(options_of(ranges, "broker.commits_with_pulls"))
        ),
    ),
    "consumers that may die": UserRequests((Code.HEART_BEAT,), has("consumers", "broker.client_death_chance")),
    "consumers that register filters": UserRequests((Code.HEART_BEAT,), has("consumers", "broker.registers_filters")),
    "tailing consumers that register filters": UserRequests(
        (Code.HEART_BEAT,), has("broker.tailing_consumers", "broker.registers_filters")
    ),
    "consumers that retry": UserRequests((Code.CONSUMER_SEND_MSG_BACK,), has("consumers", "broker.send_back_chance")),
    "consumers that fail": UserRequests(
        (
            *(Code.CONSUMER_SEND_MSG_BACK, Code.HEART_BEAT, Code.PULL_MESSAGE),
            Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP,
        ),
        has("retry.failing_consumers"),
    ),
    "tailing consumers": UserRequests((Code.PULL_MESSAGE, Code.GET_MAX_OFFSET), has("broker.tailing_consumers")),
    "light readers": UserRequests(
        (
            *(Code.PULL_MESSAGE, Code.QUERY_CONSUMER_OFFSET, Code.UPDATE_CONSUMER_OFFSET),
            *(Code.GET_MIN_OFFSET, Code.GET_MAX_OFFSET),
        ),
        has("broker.light_readers"),
    ),
    "group members": UserRequests(
        (
            *(Code.HEART_BEAT, Code.GET_CONSUMER_LIST_BY_GROUP, Code.LOCK_BATCH_MQ, Code.UNLOCK_BATCH_MQ),
            *(Code.PULL_MESSAGE, Code.QUERY_CONSUMER_OFFSET, Code.UPDATE_CONSUMER_OFFSET),
        ),
        has("broker.group_members"),
    ),
    "members that leave": UserRequests((Code.UNREGISTER_CLIENT,), has("broker.group_members", "broker.leave_chance")),
    "lookup clients": UserRequests(
        (
            *(Code.QUERY_MESSAGE, Code.VIEW_MESSAGE_BY_ID, Code.PULL_MESSAGE, Code.GET_MIN_OFFSET),
            *(Code.GET_MAX_OFFSET, Code.SEARCH_OFFSET_BY_TIMESTAMP, Code.GET_EARLIEST_MSG_STORETIME),
            *(Code.GET_TOPIC_STATS_INFO, Code.QUERY_CONSUME_QUEUE, Code.UPDATE_CONSUMER_OFFSET, Code.GET_CONSUME_STATS),
            *(Code.QUERY_CONSUME_TIME_SPAN, Code.VIEW_BROKER_STATS_DATA, Code.GET_BROKER_RUNTIME_INFO),
        ),
        has("index.seekers"),
    ),
    "operators": UserRequests(
        (
            *(Code.UPDATE_AND_CREATE_TOPIC, Code.DELETE_TOPIC_IN_BROKER, Code.GET_ALL_TOPIC_CONFIG),
            *(Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, Code.DELETE_SUBSCRIPTIONGROUP),
            *(Code.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, Code.GET_ROUTEINFO_BY_TOPIC, Code.PULL_MESSAGE),
            *(Code.CLEAN_UNUSED_TOPIC, Code.CLEAN_EXPIRED_CONSUMEQUEUE, Code.DELETE_EXPIRED_COMMITLOG),
            *(Code.UPDATE_CONSUMER_OFFSET, Code.QUERY_CONSUMER_OFFSET, Code.HEART_BEAT, Code.UNREGISTER_CLIENT),
            *(Code.GET_CONSUMER_LIST_BY_GROUP, Code.CLONE_GROUP_OFFSET),
            *REFUSED_CODES,
        ),
        has("broker.operators"),
    ),
    "operators of groups": UserRequests(
        (
            *(Code.INVOKE_BROKER_TO_RESET_OFFSET, Code.CLONE_GROUP_OFFSET, Code.GET_CONSUMER_CONNECTION_LIST),
            *(Code.QUERY_CONSUMER_OFFSET, Code.LOCK_BATCH_MQ, Code.SEARCH_OFFSET_BY_TIMESTAMP),
        ),
        has("broker.operators", "broker.group_members"),
    ),
    "group operators": UserRequests(
        (
            *(Code.HEART_BEAT, Code.UNREGISTER_CLIENT, Code.GET_CONSUMER_LIST_BY_GROUP, Code.PULL_MESSAGE),
            *(Code.GET_CONSUMER_CONNECTION_LIST, Code.GET_PRODUCER_CONNECTION_LIST, Code.GET_ALL_PRODUCER_INFO),
            *(Code.UPDATE_CONSUMER_OFFSET, Code.QUERY_CONSUMER_OFFSET, Code.CLONE_GROUP_OFFSET),
            *(Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, Code.DELETE_SUBSCRIPTIONGROUP),
            *(Code.INVOKE_BROKER_TO_RESET_OFFSET, Code.GET_MAX_OFFSET, Code.SEARCH_OFFSET_BY_TIMESTAMP),
            *(Code.GET_BROKER_CONSUME_STATS, Code.QUERY_CORRECTION_OFFSET, Code.GET_MIN_OFFSET),
            *(Code.QUERY_TOPIC_CONSUME_BY_WHO, Code.GET_CONSUME_STATS, Code.GET_ALL_SUBSCRIPTIONGROUP_CONFIG),
            *(Code.LOCK_BATCH_MQ, Code.UNLOCK_BATCH_MQ, Code.CHECK_CLIENT_CONFIG),
            *(Code.SEND_REPLY_MESSAGE, Code.SEND_REPLY_MESSAGE_V2),
        ),
        has("broker.group_operators"),
    ),
    "lock racers": UserRequests((Code.LOCK_BATCH_MQ, Code.UNLOCK_BATCH_MQ), has("broker.lock_racers")),
    "operators that ask clients": UserRequests(
        (
            *(Code.GET_CONSUMER_RUNNING_INFO, Code.CONSUME_MESSAGE_DIRECTLY),
            Code.INVOKE_BROKER_TO_GET_CONSUMER_STATUS,
        ),
        has("broker.client_questions", "broker.group_members"),
    ),
    "operators of settings": UserRequests(
        (Code.UPDATE_BROKER_CONFIG, Code.GET_BROKER_CONFIG, Code.PULL_MESSAGE), has("broker.settings_operators")
    ),
    "clients with accounts": UserRequests(
        (
            *(Code.SEND_MESSAGE_V2, Code.PULL_MESSAGE, Code.HEART_BEAT, Code.GET_CONSUMER_LIST_BY_GROUP),
            *(Code.GET_MAX_OFFSET, Code.QUERY_CONSUMER_OFFSET, Code.UPDATE_CONSUMER_OFFSET),
            *(Code.GET_ROUTEINFO_BY_TOPIC, Code.CLEAN_UNUSED_TOPIC, Code.UPDATE_AND_CREATE_TOPIC),
            *(Code.GET_ALL_TOPIC_CONFIG, Code.UPDATE_AND_CREATE_ACL_CONFIG, Code.DELETE_ACL_CONFIG),
            *(Code.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG, Code.GET_BROKER_CLUSTER_ACL_CONFIG),
            *(Code.GET_BROKER_CLUSTER_ACL_INFO, Code.SEND_MESSAGE, Code.SEND_BATCH_MESSAGE, Code.QUERY_MESSAGE),
            *(Code.UNREGISTER_CLIENT, Code.CONSUMER_SEND_MSG_BACK, Code.DELETE_TOPIC_IN_BROKER),
            *(Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, Code.DELETE_SUBSCRIPTIONGROUP, Code.CLONE_GROUP_OFFSET),
            Code.INVOKE_BROKER_TO_RESET_OFFSET,
        ),
        has("access.clients"),
    ),
    "clients and brokers that use name servers": UserRequests(
        (Code.GET_ROUTEINFO_BY_TOPIC, Code.REGISTER_BROKER, Code.UNREGISTER_BROKER), uses_name_servers
    ),
    "route operators": UserRequests(
        (Code.WIPE_WRITE_PERM_OF_BROKER, Code.ADD_WRITE_PERM_OF_BROKER, Code.DELETE_TOPIC_IN_NAMESRV),
        has("broker.route_operators"),
    ),
    "foreign brokers": UserRequests(
        (
            *(Code.REGISTER_BROKER, Code.UNREGISTER_BROKER, Code.QUERY_DATA_VERSION, Code.GET_ROUTEINFO_BY_TOPIC),
            *(Code.WIPE_WRITE_PERM_OF_BROKER, Code.ADD_WRITE_PERM_OF_BROKER, Code.DELETE_TOPIC_IN_NAMESRV),
            *(Code.GET_BROKER_CLUSTER_INFO, Code.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, Code.GET_TOPICS_BY_CLUSTER),
            *(Code.GET_UNIT_TOPIC_LIST, Code.GET_HAS_UNIT_SUB_TOPIC_LIST, Code.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST),
            Code.GET_SYSTEM_TOPIC_LIST_FROM_NS,
        ),
        has("broker.foreign_brokers"),
    ),
    "operators of keys": UserRequests(
        (
            *(Code.PUT_KV_CONFIG, Code.DELETE_KV_CONFIG, Code.GET_KV_CONFIG, Code.GET_KVLIST_BY_NAMESPACE),
            *(Code.UPDATE_NAMESRV_CONFIG, Code.GET_NAMESRV_CONFIG, Code.GET_ROUTEINFO_BY_TOPIC),
        ),
        has("broker.key_operators"),
    ),
    "route watchers": UserRequests((Code.GET_ROUTEINFO_BY_TOPIC,), has("broker.watches_routes")),
    "slaves": UserRequests(
        (
            *(Code.GET_ALL_TOPIC_CONFIG, Code.GET_ALL_CONSUMER_OFFSET, Code.GET_ALL_DELAY_OFFSET),
            Code.GET_ALL_SUBSCRIPTIONGROUP_CONFIG,
        ),
        has("cluster.slaves"),
    ),
}

SENT_BY_BROKERS: Mapping[Code, tuple[str, ...]] = {
    Code.CHECK_TRANSACTION_STATE: ("producers of transactions",),
    Code.NOTIFY_CONSUMER_IDS_CHANGED: ("group members", "group operators"),
    Code.RESET_CONSUMER_CLIENT_OFFSET: ("operators of groups", "group operators"),
    Code.GET_CONSUMER_STATUS_FROM_CLIENT: ("operators that ask clients",),
    Code.PUSH_REPLY_MESSAGE_TO_CLIENT: ("group operators",),
}
"""Requests of brokers -> the users that receive or cause them."""


def codes_of(ranges: Ranges) -> set[Code]:
    """Return the request codes that brokers can receive in runs of a scenario."""
    return {code for user in USERS.values() if user.is_in(ranges) for code in user.codes}


def scenarios_by_code() -> dict[Code, list[str]]:
    """Return the broker scenarios in which each code can be sent, also by a broker to its clients."""
    found: dict[Code, list[str]] = {code: [] for code in Code}
    for name in OF_BROKERS:
        ranges = SCENARIOS[name].ranges
        pushed = {code for code, users in SENT_BY_BROKERS.items() if any(USERS[user].is_in(ranges) for user in users)}
        for code in codes_of(ranges) | pushed:
            found[code].append(name)
    return found


def coverage_table() -> str:
    """Return the table of the page: requests by scenario."""
    every = len(OF_BROKERS)
    lines = ["| request | scenarios |", "| --- | --- |"]
    for code, names in scenarios_by_code().items():
        if names:
            shown = f"all {every}" if len(names) == every else ", ".join(f"`{name}`" for name in names[:SHOWN_MAX])
            more = f" and {len(names) - SHOWN_MAX} more" if SHOWN_MAX < len(names) < every else ""
            lines.append(f"| `{code.name}` | {shown}{more} |")
    return "\n".join(lines)


def test_every_request_is_in_a_scenario_or_has_a_reason() -> None:
    rows = PAGE.read_text().partition("| not simulated | reason |")[2].splitlines()
    named = [name for row in rows for name in re.findall("`(.*?)`", row)]
    lacking = [code.name for code, names in scenarios_by_code().items() if not names]
    assert sorted(named) == sorted(lacking)


def test_a_request_without_a_scenario_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(USERS, "lookup clients")
    assert not scenarios_by_code()[Code.VIEW_MESSAGE_BY_ID]


def test_the_page_has_the_derived_table() -> None:
    """To renew the page, replace its part between the two marks by `coverage_table()`."""
    assert PAGE.read_text().partition(BEGIN)[2].partition(END)[0] == coverage_table()


@pytest.mark.slow
@pytest.mark.parametrize("name", OF_BROKERS)
def test_brokers_receive_only_the_declared_requests(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    received: set[Code] = set()
    process = WatchedRequests._process_request

    def record(self: WatchedRequests, processor: Processor, request: RemotingCommand, channel: Channel) -> Response:
        received.add(Code(request.code))
        return process(self, processor, request, channel)

    monkeypatch.setattr(WatchedRequests, "_process_request", record)
    for seed in range(SEEDS):
        run_seed(SCENARIOS[name], seed)
    declared = codes_of(SCENARIOS[name].ranges)
    assert received <= declared
    assert len(received) >= len(declared) // 2, declared - received
