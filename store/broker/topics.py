"""Topics and groups: their settings in `topics.json` and `subscriptionGroup.json`.

Operators create topics. If automatic creation is enabled, a first message creates its topic from a template topic
(TBW102). The broker creates system topics, and the retry and dead letter topics of groups.
Source: RocketMQ TopicConfigManager, TopicConfig, TopicSysFlag, SubscriptionGroupManager, SubscriptionGroupConfig.
"""

from collections.abc import Callable, Container, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from ..formats.delay_level import SCHEDULE_TOPIC
from ..formats.half_message import GIVEN_UP_TOPIC, HALF_TOPIC, OP_TOPIC
from ..world import World
from .broker_config import MASTER_ID, BrokerConfig
from .topic_names import (
    AUTO_CREATE_TOPIC,
    BENCHMARK_TOPIC,
    OFFSET_MOVED_EVENT,
    PERM_INHERIT,
    PERM_READ_WRITE,
    REPLY_TOPIC_POSTFIX,
    SELF_TEST_TOPIC,
    SYSTEM_GROUP_PREFIX,
    SYSTEM_GROUPS,
    group_name_fault,
    is_system_topic,
    topic_name_fault,
)
from .versioned_table import TableEntry, VersionedTable, json_field

SINGLE_TAG = "SINGLE_TAG"
MULTI_TAG = "MULTI_TAG"
UNIT_FLAG = 1
UNIT_SUB_FLAG = 2
QUEUES_MAX = 65_536
# Numbers of queues as in RocketMQ's TopicConfigManager. Each of the 18 default delay levels has a queue.
_BENCHMARK_QUEUES = 1024
_CLUSTER_QUEUES = 16
_SCHEDULE_QUEUES = 18


@dataclass(frozen=True, slots=True)
class TopicConfig(TableEntry):
    """Settings of a topic."""

    topic: str = field(metadata={"name": "topicName"})
    read_queue_nums: int = json_field("readQueueNums", 16, bits=32)
    write_queue_nums: int = json_field("writeQueueNums", 16, bits=32)
    perm: int = json_field("perm", PERM_READ_WRITE, bits=32)
    filter_type: str = json_field("topicFilterType", SINGLE_TAG)
    sys_flag: int = json_field("topicSysFlag", 0, bits=32)
    order: bool = json_field("order", False)

    @property
    def queue_nums(self) -> int:
        return max(self.read_queue_nums, self.write_queue_nums)


def unit_sys_flag(*, unit: bool = False, has_unit_sub: bool = False) -> int:
    return UNIT_FLAG * unit | UNIT_SUB_FLAG * has_unit_sub


class TopicConfigManager(VersionedTable[TopicConfig]):
    """The topics of a broker."""

    def __init__(self, world: World, config_directory: str, config: BrokerConfig) -> None:
        path = f"{config_directory}/topics.json"
        super().__init__(world, path, "topicConfigTable", TopicConfig)
        self._config = config
        self._own = frozenset(topic.topic for topic in _system_topics(config))

    def is_system(self, topic: str) -> bool:
        """Some system topics depend on settings."""
        return topic in self._own or is_system_topic(topic)

    def add_system_topics(self) -> None:
        """Raises OSError if the disk fails."""
        self.add_missing_entries((topic.topic, topic) for topic in _system_topics(self._config))

    def mark_ordered(self, find_ordered: Callable[[], Container[str]]) -> None:
        """Mark the found topics as ordered, all others as unordered. Raises OSError if the disk fails.

        `find_ordered` runs under the lock of the table: of two calls, the later one marks what it finds.
        """

        def marked(table: dict[str, TopicConfig]) -> dict[str, TopicConfig]:
            ordered = find_ordered()
            return {name: replace(each, order=name in ordered) for name, each in table.items()}

        # No registration follows, as in RocketMQ. Otherwise two name servers with different values would cause endless
        # registrations, because each answer would change the marks.
        self.change(marked, notify=False)

    def permitted_json_members(self, broker_permission: int) -> dict[str, Any]:
        """Return the table for name servers: `brokerPermission` limits the permission of each topic."""
        members = self.json_members
        if broker_permission != PERM_READ_WRITE:
            for entry in members[self._name].values():
                entry["perm"] &= broker_permission
        return members

    def create_by_example(self, topic: str, example: str, queue_nums: int, sys_flag: int = 0) -> TopicConfig | None:
        """Return an existing topic, or create it from a template. Return None if the template forbids that.

        The producer requests `queue_nums`; the topic gets at least 1 and at most the template's number of queues.
        """
        known = self.get(topic)
        template = self.get(example)
        if example == AUTO_CREATE_TOPIC and not self._config.auto_create_topic_enable:
            template = None  # the template may be left from earlier settings
        if known is not None or template is None or not template.perm & PERM_INHERIT or topic_name_fault(topic):
            return known
        queues = max(1, min(queue_nums, template.write_queue_nums))
        # Clear PERM_INHERIT, because the new topic is not a template.
        new = TopicConfig(topic, queues, queues, template.perm & ~PERM_INHERIT, template.filter_type, sys_flag)
        return self.get_or_create_entry(topic, lambda: new)

    def create(self, topic: str, queue_nums: int, perm: int = PERM_READ_WRITE, sys_flag: int = 0) -> TopicConfig | None:
        """Return an existing or new topic, or None for an invalid name. `queue_nums` is clamped to the valid range."""
        if topic_name_fault(topic):
            return None
        queues = max(0, min(queue_nums, QUEUES_MAX))
        return self.get_or_create_entry(topic, lambda: TopicConfig(topic, queues, queues, perm, sys_flag=sys_flag))


def _system_topics(config: BrokerConfig) -> Iterator[TopicConfig]:
    yield TopicConfig(SELF_TEST_TOPIC, 1, 1)
    if config.auto_create_topic_enable:
        queues = config.default_topic_queue_nums
        yield TopicConfig(AUTO_CREATE_TOPIC, queues, queues, PERM_READ_WRITE | PERM_INHERIT)
    yield TopicConfig(BENCHMARK_TOPIC, _BENCHMARK_QUEUES, _BENCHMARK_QUEUES)
    cluster_perm = PERM_INHERIT | PERM_READ_WRITE * config.cluster_topic_enable
    yield TopicConfig(config.broker_cluster_name, _CLUSTER_QUEUES, _CLUSTER_QUEUES, cluster_perm)
    broker_perm = PERM_INHERIT | PERM_READ_WRITE * config.broker_topic_enable
    yield TopicConfig(config.broker_name, 1, 1, broker_perm)
    yield TopicConfig(OFFSET_MOVED_EVENT, 1, 1)
    yield TopicConfig(SCHEDULE_TOPIC, _SCHEDULE_QUEUES, _SCHEDULE_QUEUES)
    if config.trace_topic_enable:
        yield TopicConfig(config.msg_trace_topic_name, 1, 1)
    yield TopicConfig(f"{config.broker_cluster_name}_{REPLY_TOPIC_POSTFIX}", 1, 1)
    for topic in (HALF_TOPIC, OP_TOPIC, GIVEN_UP_TOPIC):
        yield TopicConfig(topic, 1, 1)


@dataclass(frozen=True, slots=True)
class SubscriptionGroupConfig(TableEntry):
    """Settings of a consumer group."""

    group: str = field(metadata={"name": "groupName"})
    consume_enable: bool = json_field("consumeEnable", True)
    consume_from_min_enable: bool = json_field("consumeFromMinEnable", True)
    consume_broadcast_enable: bool = json_field("consumeBroadcastEnable", True)
    retry_queue_nums: int = json_field("retryQueueNums", 1, bits=32)
    retry_max_times: int = json_field("retryMaxTimes", 16, bits=32)
    broker_id: int = json_field("brokerId", MASTER_ID)
    """The group pulls from this broker id while it keeps up, if clients may read slaves."""
    which_broker_when_consume_slowly: int = json_field("whichBrokerWhenConsumeSlowly", 1)
    """The group pulls from this broker id while it lags behind."""
    notify_consumer_ids_changed_enable: bool = json_field("notifyConsumerIdsChangedEnable", True)


class SubscriptionGroupManager(VersionedTable[SubscriptionGroupConfig]):
    """The groups of a broker."""

    def __init__(self, world: World, config_directory: str, config: BrokerConfig) -> None:
        path = f"{config_directory}/subscriptionGroup.json"
        super().__init__(world, path, "subscriptionGroupTable", SubscriptionGroupConfig)
        self._config = config

    def add_system_groups(self) -> None:
        """Raises OSError if the disk fails."""
        self.add_missing_entries((group, SubscriptionGroupConfig(group)) for group in SYSTEM_GROUPS)

    def find(self, group: str) -> SubscriptionGroupConfig | None:
        """Return an existing group, or a new one if the settings allow that."""
        known = self.get(group)
        may_create = self._config.auto_create_subscription_group or group.startswith(SYSTEM_GROUP_PREFIX)
        if known is not None or not may_create or group_name_fault(group):
            return known
        return self.get_or_create_entry(group, lambda: SubscriptionGroupConfig(group))
