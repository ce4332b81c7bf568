"""Topic and group names: validity, system names, and the permission bits of topics.

Source: RocketMQ TopicValidator, MixAll, NamespaceUtil, PermName.
"""

import re

from ..formats.delay_level import SCHEDULE_TOPIC
from ..formats.half_message import GIVEN_UP_TOPIC, HALF_TOPIC, OP_TOPIC
from ..formats.message import MAX_TOPIC_BYTES

AUTO_CREATE_TOPIC = "TBW102"
SELF_TEST_TOPIC = "SELF_TEST_TOPIC"
BENCHMARK_TOPIC = "BenchmarkTest"
OFFSET_MOVED_EVENT = "OFFSET_MOVED_EVENT"
TRACE_TOPIC = "RMQ_SYS_TRACE_TOPIC"
REPLY_TOPIC_POSTFIX = "REPLY_TOPIC"
RETRY_GROUP_PREFIX = "%RETRY%"
DLQ_GROUP_PREFIX = "%DLQ%"
SYSTEM_TOPIC_PREFIX = "rmq_sys_"
SYSTEM_GROUP_PREFIX = "CID_RMQ_SYS_"
GROUP_CHARACTERS_MAX = MAX_TOPIC_BYTES - len(RETRY_GROUP_PREFIX)
"""Limit that keeps the name of the group's retry topic valid."""

SYSTEM_GROUPS = (
    "TOOLS_CONSUMER",
    "FILTERSRV_CONSUMER",
    "SELF_TEST_C_GROUP",
    "CID_ONS-HTTP-PROXY",
    "CID_ONSAPI_PULL",
    "CID_ONSAPI_PERMISSION",
    "CID_ONSAPI_OWNER",
)

_OF_TRANSACTIONS = {HALF_TOPIC, OP_TOPIC, GIVEN_UP_TOPIC}
_CLOSED_TOPICS = _OF_TRANSACTIONS | {SCHEDULE_TOPIC, SELF_TEST_TOPIC, OFFSET_MOVED_EVENT}
_SYSTEM_TOPICS = _CLOSED_TOPICS | {AUTO_CREATE_TOPIC, BENCHMARK_TOPIC, TRACE_TOPIC}
_NAME = re.compile(r"[%|a-zA-Z0-9_-]+", re.ASCII)

PERM_INHERIT = 1
"""Permission bit of a template for new topics."""
PERM_WRITE = 2
PERM_READ = 4
PERM_READ_WRITE = PERM_READ | PERM_WRITE


def topic_name_fault(topic: str) -> str | None:
    return _name_fault("topic", topic, MAX_TOPIC_BYTES)


def group_name_fault(group: str) -> str | None:
    return _name_fault("group", group, GROUP_CHARACTERS_MAX)


def _name_fault(what: str, name: str, characters_max: int) -> str | None:
    if len(name) > characters_max:
        return f"{what}: expected at most {characters_max} characters, found {len(name)}"
    if not _NAME.fullmatch(name):
        return f"{what}: expected letters, digits and % | _ -, found {name!r}"
    return None


def is_broker_only_topic(topic: str) -> bool:
    return topic in _CLOSED_TOPICS


def is_system_topic(topic: str) -> bool:
    return topic in _SYSTEM_TOPICS or topic.startswith(SYSTEM_TOPIC_PREFIX)


def retry_topic(group: str) -> str:
    return RETRY_GROUP_PREFIX + group


def dlq_topic(group: str) -> str:
    return DLQ_GROUP_PREFIX + group
