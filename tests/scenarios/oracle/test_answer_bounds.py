"""Each answer and each time in the code is in a row of the table in docs/answers.md."""

import ast
import re
from collections import Counter, defaultdict
from dataclasses import fields
from enum import Enum
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages
from typing import NamedTuple

import tornlog.store
from tornlog.scenarios.mutants import MUTANTS
from tornlog.scenarios.oracle.invariants import INVARIANTS
from tornlog.store.broker.broker_config import BrokerConfig
from tornlog.store.config import StoreConfig

STORE = Path(tornlog.store.__file__).parent
PAGE = STORE.parent / "docs" / "answers.md"
TIME = re.compile(r"_(ms|hours)$|^_?([A-Z]+_)*MS(_MAX|_MIN)?$")
UNIT = re.compile(r"_PER_|_HOUR_MS|_DAY_MS|_UNIT_MS|NEVER_MS|LOCAL_MS|CLOCK_MS|TIMER_DEL|_STALL_MS")

ANSWER_ENUMS = ("PutMessageStatus", "GetMessageStatus", "EndTransactionStatus", "HalfMessageVerdict", "ResponseCode")
OTHER_ENUMS = (
    *("FlushDiskType", "BrokerRole", "TokenKind", "PartKind", "HeaderForm", "RequestCode", "MetricType", "Pool"),
    *("LineLevel", "ConnectionEnding", "RequestRefusal", "ReplicationRole", "BodyText", "DirectoryPromise"),
    *("RefusalReason", "Permission"),
)
"""Enumerations of settings, syntax, requests, figures, flags and tools."""
SHARED = Counter(
    FLUSH_DISK_TIMEOUT=2, FLUSH_SLAVE_TIMEOUT=2, SLAVE_NOT_AVAILABLE=3, SERVICE_NOT_AVAILABLE=2, MESSAGE_ILLEGAL=2
)
"""Answer -> number of enumerations that have a member of this name."""
ROWS_OF_ANSWER = Counter(SLAVE_NOT_AVAILABLE=2)
"""Answers with more than one row: a put, and a decision about a transaction."""

TIMES = {
    "PUT_OK": "sync_flush_timeout_ms slave_timeout_ms",
    "FLUSH_DISK_TIMEOUT": "sync_flush_timeout_ms",
    "FLUSH_SLAVE_TIMEOUT": "slave_timeout_ms",
    "SLAVE_NOT_AVAILABLE": (
        "ha_housekeeping_interval_ms replication.ha_client.RECONNECT_MS replication.ha_client.CONNECT_MS"
    ),
    "SERVICE_NOT_AVAILABLE": "retention.cleaning.FIRST_CHECK_MS retention.cleaning.CHECK_INTERVAL_MS",
    "CREATE_MAPEDFILE_FAILED": "log.allocate.WAIT_MS",
    "OS_PAGECACHE_BUSY": "os_page_cache_busy_time_out_ms",
    "OFFSET_OVERFLOW_ONE": "short_polling_time_ms",
    "end of the wait of a held pull": "broker.long_polling.SCAN_MS",
    "offset of a group": (
        "flush_consumer_offset_interval_ms services.consumer_offsets.FLUSH_CONSUMER_OFFSET_INTERVAL_MS"
    ),
    "delivery of a delayed message": (
        "flush_delay_offset_interval_ms delivery.schedule._RETRY_MS delivery.schedule.RETRY_AFTER_ERROR_MS"
        " delivery.schedule._SLEEP_MS_MAX formats.delay_level.UNKNOWN_LEVEL_DELAY_MS"
    ),
    "TOO_YOUNG": (
        "transaction_timeout_ms transaction_check_interval_ms services.transaction_check._PASS_MS_MAX"
        " services.transaction_check._COMMIT_MS_MAX"
    ),
    "lock of a queue": "broker.clients.LOCK_MS_MAX",
    "member of a group": "broker.clients.CHANNEL_EXPIRED_MS broker.housekeeping.INTERVAL_MS",
    "route to a broker": (
        "register_name_server_period_ms broker.outer_api.REGISTER_TIMEOUT_MS broker.outer_api.APART_MS"
        " broker.name_server.BROKER_EXPIRED_MS broker.remoting_client.CONNECT_MS"
    ),
    "tables of a slave": (
        "broker.outer_api.FIRST_MS broker.outer_api.INTERVAL_MS broker.outer_api.SYNCHRONIZE_TIMEOUT_MS"
    ),
    "CONSUMER_NOT_ONLINE": "broker.client_calls.TIMEOUT_MS",
    "UPDATE_AND_CREATE_ACL_CONFIG_FAILED": "broker.acl.plain_acl.WATCH_INTERVAL_MS",
    "removal of a segment": (
        "file_reserved_time_hours clean_resource_interval_ms delete_commit_log_files_interval_ms"
        " delete_consume_queue_files_interval_ms redelete_hanged_file_interval_ms"
        " retention.cleaning.FIRST_CLEAN_MS"
    ),
    "readable message": "commit_interval_commit_log_ms commit_commit_log_thorough_interval_ms queues.dispatch.RETRY_MS",
    "durable data under ASYNC_FLUSH": (
        "flush_interval_commit_log_ms flush_commit_log_thorough_interval_ms flush_interval_consume_queue_ms"
        " flush_consume_queue_thorough_interval_ms"
    ),
    "unlocked memory": "log.allocate.UNLOCK_AFTER_MS",
    "data of a slave": (
        "ha_send_heartbeat_interval_ms ha_housekeeping_interval_ms replication.ha_client.RECONNECT_MS"
        " replication.ha_client.CONNECT_MS replication.ha_service._ACCEPT_RETRY_MS"
    ),
    "end of a stop": ("broker.connections.DRAINED_MS broker.server.DRAIN_MS replication.ha_service.HANDOVER_MS_MAX"),
    "records read by a start after a crash": "formats.checkpoint.SAFETY_MARGIN_MS",
}
"""First answer of a row -> the settings, and the constants as `MODULE.NAME`, that give its bound."""

OTHER_TIMES = {
    **dict.fromkeys(("stats.LATENCY_BOUNDS_MS", "stats.SLOW_MS", "stats._SAMPLE_MS"), "figures for operators"),
    "broker.statistics.SAMPLE_MS": "figures for operators",
    **dict.fromkeys(("broker.health.TURN_MS_MAX", "broker.health._STEP_MS"), "health for operators"),
    **dict.fromkeys(("broker.operator_log.WINDOW_MS", "broker.operator_log.CLOSE_MS"), "lines for operators"),
    "broker.connections.ACCEPTS_PAUSE_MS": "spreads accepts; the limit of a request covers it",
    "destroy_mapped_file_interval_forcibly_ms": "without effect: the store has no references to files",
    "replication.ha_service._LOOK_MS": "a step of a wait; the limit of a handover covers it",
    "services.consumer_filter.FORGOTTEN_AFTER_MS": "a day, longer than any run",
    "services.transaction_check._POLL_MS": "a step of a wait; the limit of the pass covers it",
    "start_accept_send_request_time_stamp_ms": "no run sets it",
}
"""Times that give no bound, with the reason."""
GIVEN_BY = {
    "FLUSH_DISK_TIMEOUT": "sending",
    "FLUSH_SLAVE_TIMEOUT": "sending",
    "SLAVE_NOT_AVAILABLE": "processors.send sending",
    "SERVICE_NOT_AVAILABLE": "router sending",
    "SYSTEM_BUSY": "client_calls sending server",
    "MESSAGE_ILLEGAL": "processors.send sending",
    "PULL_RETRY_IMMEDIATELY": "processors.pull",
    "PULL_OFFSET_MOVED": "processors.pull",
    "PULL_NOT_FOUND": "processors.pull",
    "SUBSCRIPTION_NOT_EXIST": "processors.pull",
    "SUBSCRIPTION_NOT_LATEST": "processors.pull",
    "SUBSCRIPTION_PARSE_FAILED": "subscriptions",
    "SUCCESS": (
        "hooks outer_api processors.broker_admin processors.group_admin processors.names processors.pull"
        " processors.query requests sending"
    ),
    "NO_PERMISSION": "processors.pull processors.send sending setting_changes",
    "TOPIC_NOT_EXIST": "parts processors.client_manage processors.names sending",
    "SUBSCRIPTION_GROUP_NOT_EXIST": "parts",
    "QUERY_NOT_FOUND": "processors.client_manage processors.names processors.query",
    "SYSTEM_ERROR": "acl.rules processors.send requests router sending server setting_changes",
    "REQUEST_CODE_NOT_SUPPORTED": "processors.names server",
    "CONSUMER_NOT_ONLINE": "processors.group_admin",
    "CONSUME_MSG_TIMEOUT": "client_calls",
    "UPDATE_AND_CREATE_ACL_CONFIG_FAILED": "processors.acl_admin",
    "DELETE_ACL_CONFIG_FAILED": "processors.acl_admin",
    "UPDATE_GLOBAL_WHITE_ADDRS_CONFIG_FAILED": "processors.acl_admin",
}
"""Response code -> the modules in `store/broker` that name it. A new module needs a look at the row of the code."""


class Row(NamedTuple):
    """A row of the table. The answers are members of ANSWER_ENUMS in backticks, or one description."""

    answers: str
    legal: str
    bound: str
    invariant: str
    mutant: str

    @property
    def names(self) -> list[str]:
        return re.findall("`(.*?)`", self.answers) or [self.answers]


_CELLS = (line.strip("|").split("|") for line in PAGE.read_text().splitlines() if line.startswith("|"))
ROWS = [Row(*(cell.strip() for cell in cells)) for cells in _CELLS][2:]


def modules_of_store() -> dict[str, ast.Module]:
    found = sorted(STORE.rglob("*.py"))
    return {".".join(path.relative_to(STORE).with_suffix("").parts): ast.parse(path.read_text()) for path in found}


MODULES = modules_of_store()


def enums_of_store() -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for each in walk_packages(tornlog.store.__path__, "tornlog.store."):
        if each.name.rpartition(".")[2] == "__main__" or ".native" in each.name:
            continue
        for name, value in vars(import_module(each.name)).items():
            if isinstance(value, type) and issubclass(value, Enum) and value.__module__ == each.name:
                found[name] = [member.name for member in value]
    return found


def test_every_answer_of_the_store_has_a_row() -> None:
    enums = enums_of_store()
    assert set(enums) == {*ANSWER_ENUMS, *OTHER_ENUMS}
    members = Counter(member for name in ANSWER_ENUMS for member in enums[name])
    assert members - Counter(set(members)) == SHARED - Counter(set(SHARED))
    named = Counter(name for row in ROWS for name in row.names if "`" in row.answers)
    assert named == Counter(dict.fromkeys(members, 1)) | ROWS_OF_ANSWER


def test_every_module_that_gives_a_response_code_is_known() -> None:
    given: dict[str, set[str]] = defaultdict(set)
    for name, tree in MODULES.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "ResponseCode":
                given[node.attr].add(name.removeprefix("broker."))
    assert {code: set(modules.split()) for code, modules in GIVEN_BY.items()} == given


def times_of_store() -> set[str]:
    settings = {one.name for config in (StoreConfig, BrokerConfig) for one in fields(config) if TIME.search(one.name)}
    constants = {
        f"{name}.{target.id}"
        for name, tree in MODULES.items()
        for node in tree.body
        for target in (node.targets if isinstance(node, ast.Assign) else ())
        if isinstance(target, ast.Name) and TIME.search(target.id) and not UNIT.search(target.id)
    }
    return settings | constants


def test_every_time_of_the_store_is_a_bound_or_has_a_reason() -> None:
    assert set(TIMES) <= {row.names[0] for row in ROWS}
    bounds = {time for times in TIMES.values() for time in times.split()}
    assert bounds.isdisjoint(OTHER_TIMES)
    assert bounds | set(OTHER_TIMES) == times_of_store()


def test_every_row_names_a_check_and_a_bug_that_it_finds_or_says_why_not() -> None:
    for row in ROWS:
        if row.invariant:
            assert row.invariant in INVARIANTS
            assert row.invariant in MUTANTS[row.mutant.strip("`")].found_by, row.answers
        else:
            assert row.bound.startswith("not checked: ")
            assert not row.mutant
