"""Subscription groups: settings of each consumer group. RocketMQ's SubscriptionGroupManager, `subscriptionGroup.json`.

Source: RocketMQ SubscriptionGroupManager, SubscriptionGroupConfig.
"""

from dataclasses import dataclass
from typing import Any

from ..formats.remoting.json_body import Members
from ..world import World
from .broker_config import MASTER_ID, BrokerConfig
from .topic_names import SYSTEM_GROUP_PREFIX, SYSTEM_GROUPS, group_fault
from .versioned_table import VersionedTable


@dataclass(frozen=True, slots=True)
class SubscriptionGroupConfig:
    """One group."""

    group: str
    consume_enable: bool = True
    consume_from_min_enable: bool = True
    consume_broadcast_enable: bool = True
    retry_queue_nums: int = 1
    retry_max_times: int = 16
    broker_id: int = MASTER_ID
    """Where it is to pull from while it keeps up, on a broker whose slaves may be read."""
    which_broker_when_consume_slowly: int = 1
    """Where from when it does not."""
    notify_consumer_ids_changed_enable: bool = True

    @property
    def members(self) -> dict[str, Any]:
        """Return it as an object."""
        return {
            "brokerId": self.broker_id,
            "consumeBroadcastEnable": self.consume_broadcast_enable,
            "consumeEnable": self.consume_enable,
            "consumeFromMinEnable": self.consume_from_min_enable,
            "groupName": self.group,
            "notifyConsumerIdsChangedEnable": self.notify_consumer_ids_changed_enable,
            "retryMaxTimes": self.retry_max_times,
            "retryQueueNums": self.retry_queue_nums,
            "whichBrokerWhenConsumeSlowly": self.which_broker_when_consume_slowly,
        }

    @classmethod
    def of(cls, name: str, members: Members) -> "SubscriptionGroupConfig":
        """Read it from an object; name is its group's unless the object says another."""
        return cls(
            members.text("groupName", name),
            members.boolean("consumeEnable", True),
            members.boolean("consumeFromMinEnable", True),
            members.boolean("consumeBroadcastEnable", True),
            members.integer("retryQueueNums", 1, bits=32),
            members.integer("retryMaxTimes", 16, bits=32),
            members.integer("brokerId", MASTER_ID),
            members.integer("whichBrokerWhenConsumeSlowly", 1),
            members.boolean("notifyConsumerIdsChangedEnable", True),
        )


class SubscriptionGroupManager(VersionedTable[SubscriptionGroupConfig]):
    """The groups of one broker."""

    def __init__(self, world: World, config_directory: str, config: BrokerConfig) -> None:
        path = f"{config_directory}/subscriptionGroup.json"
        super().__init__(
            world, path, "subscriptionGroupTable", SubscriptionGroupConfig.of, lambda group: group.members
        )
        self._config = config

    def add_system_groups(self) -> None:
        """Make those groups that every broker has. Raises OSError if the disk fails."""
        self.add_missing((group, SubscriptionGroupConfig(group)) for group in SYSTEM_GROUPS)

    def find(self, group: str) -> SubscriptionGroupConfig | None:
        """Return a group, made if it is not there and settings allow that; None if it is not."""
        known = self.get(group)
        makes = self._config.auto_create_subscription_group or group.startswith(SYSTEM_GROUP_PREFIX)
        if known is not None or not makes or group_fault(group):
            return known
        return self.get_or_put(group, lambda: SubscriptionGroupConfig(group))
