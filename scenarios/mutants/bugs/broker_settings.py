"""Bugs of brokers that ignore one of their settings, or change it wrongly at run time."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from ....store.broker import live_settings, parts
from ....store.broker.broker_config import BrokerConfig
from ....store.broker.live_settings import LiveSettings
from ....store.broker.long_polling import HeldPull, PullRequestHoldService
from ....store.broker.parts import BrokerParts
from ....store.broker.processors.broker_admin import BrokerAdminProcessor
from ....store.broker.processors.pull import PullMessageProcessor
from ....store.broker.processors.send import SendMessageProcessor
from ....store.broker.requests import ExtFields
from ....store.broker.router import Channel, LateResponse
from ....store.broker.sending import SendChecks
from ....store.broker.topics import SubscriptionGroupConfig, SubscriptionGroupManager, TopicConfig, TopicConfigManager
from ....store.formats.messages import Message, PutMessageResult
from ....store.formats.remoting.command import RemotingCommand
from ....store.log.put_wait import PutWait
from ....store.services import consumer_filter
from ....store.services.consumer_offsets import ConsumerOffsetManager
from ....store.services.transaction_check import TransactionConfig
from ....store.settings.conf_file import ConfFile, change_settings_in_text
from ....store.side_file import SideFile
from ...claims.catalogue import SCENARIOS
from ...claims.catalogue.brokers import BROKER
from ..mutant import bit, bug, needs

_LIVELY = BROKER.replace(heals=(True,), consumers=(1, 2), messages_each=(8,))
_OPERATED = SCENARIOS["operator-changes"].ranges.replace(broker={"rest_ms_max": (15_000,)})
_CHANGED = _OPERATED.replace(broker={"settings_operators": (1,)})


@bug("members-always-notified", BrokerParts, "_notify_members", found_by=("LIVE",))
@needs(SCENARIOS["orderly-consumers"].ranges, broker_settings={"notify_consumer_ids_changed_enable": (False,)})
def notify_against_setting(self: BrokerParts, group: str, channels: Iterable[Channel]) -> None:
    """A broker tells members of changes of their group although notifyConsumerIdsChangedEnable is off."""
    bit(not self.config.notify_consumer_ids_changed_enable)
    self.pushes.notify_consumer_ids_changed(group, channels)


@bug("pulls-held-without-limit", PullRequestHoldService, "hold_pull", found_by=("LIVE",))
@needs(_LIVELY, broker_settings={"held_pulls_max": (0, 2), "held_pulls_of_client_max": (1,)})
def hold_any_pull(self: PullRequestHoldService, pull: HeldPull) -> bool:
    """A broker holds more pulls of one client than heldPullsOfClientMax."""
    config = self._config
    bit(self._held.count_of(pull.channel) >= config.held_pulls_of_client_max)
    self._config = replace(config, held_pulls_of_client_max=config.held_pulls_max)
    try:
        return hold_any_pull.original(self, pull)
    finally:
        self._config = config


@bug("short-polls-held-long", PullMessageProcessor, "_suspend_deadline_ns", found_by=("LIVE",))
@needs(_LIVELY, settings={"long_polling_enable": (False,)}, broker={"suspend_ms": (5_000,)})
def suspend_for_long(self: PullMessageProcessor, suspend_ms: int) -> int:
    """Without long polling, a broker holds pulls for as long as with it, and looks at them as seldom."""
    bit(not self._parts.store.config.long_polling_enable)
    return self._parts.world.clock.monotonic_ns() + suspend_ms * 1_000_000


@suspend_for_long.also(PullRequestHoldService, "run_once")
def poll_at_long_interval(self: PullRequestHoldService) -> None:
    """Look at held pulls every 5 s."""
    config = self._config
    self._config = replace(config, short_polling_time_ms=5_000)
    try:
        poll_at_long_interval.original(self)
    finally:
        self._config = config


@bug("answer-names-default-region", SendMessageProcessor, "_make_send_response", found_by=("STATUS",))
@needs(BROKER, broker_settings={"region_id": ("region-2",)})
def respond_with_default_region(
    self: SendMessageProcessor, request: RemotingCommand, queue_id: int, result: PutMessageResult
) -> RemotingCommand:
    """The answer to a send names the default region, so clients trace a message to the wrong one."""
    response = respond_with_default_region.original(self, request, queue_id, result)
    bit(self._parts.config.region_id != "DefaultRegion")
    return replace(response, ext_fields={**response.ext_fields, "MSG_REGION": "DefaultRegion"})


@bug("sends-taken-too-early", SendChecks, "check_writeable", found_by=("STATUS",))
@needs(BROKER, broker_settings={"accepts_sends_after_ms": (1_500,)})
def check_without_time(self: SendChecks) -> None:
    """A broker takes messages before startAcceptSendRequestTimeStamp."""
    parts = self._parts
    bit(parts.world.clock.now_ms() < parts.config.start_accept_send_request_time_stamp_ms)


@bug("rejected-transactions-taken", SendMessageProcessor, "_put_single", found_by=("STATUS", "PREFIX"))
@needs(SCENARIOS["transaction-network-faults"].ranges, broker_settings={"reject_transaction_message": (True,)})
def put_any_message(
    self: SendMessageProcessor, message: Message, properties: dict[str, str], late: LateResponse
) -> PutMessageResult | PutWait:
    """A broker with rejectTransactionMessage takes half messages, which no check then decides."""
    is_half = properties.get("TRAN_MSG", "").lower() == "true"
    if not bit(is_half and self._parts.config.reject_transaction_message):
        return put_any_message.original(self, message, properties, late)
    config = self._parts.config
    self._parts.config = replace(config, reject_transaction_message=False)
    try:
        return put_any_message.original(self, message, properties, late)
    finally:
        self._parts.config = config


@bug("system-topics-change", BrokerAdminProcessor, "_require_changeable_topic", found_by=("STATUS",))
@needs(_OPERATED)
def allow_any_topic(self: BrokerAdminProcessor, fields: ExtFields) -> str:
    """An operator can change a topic of the system although validateSystemTopicWhenUpdateTopic is on."""
    topic = fields.text("topic")
    bit(self._parts.topics.is_system(topic) and self._parts.config.validate_system_topic_when_update_topic)
    return topic


@bug("topics-made-against-setting", TopicConfigManager, "create_by_example", found_by=("STATUS",))
@needs(_OPERATED, broker_settings={"auto_create_topic_enable": (False,)})
def create_any_topic(
    self: TopicConfigManager, topic: str, example: str, queue_nums: int, sys_flag: int = 0
) -> TopicConfig | None:
    """A first message creates its topic although autoCreateTopicEnable is off."""
    found = create_any_topic.original(self, topic, example, queue_nums, sys_flag)
    bit(found is None)
    return found or self.create(topic, queue_nums)


@bug("groups-made-against-setting", SubscriptionGroupManager, "find", found_by=("STATUS",))
@needs(_OPERATED, broker_settings={"auto_create_subscription_group": (False,)})
def find_or_create_group(self: SubscriptionGroupManager, group: str) -> SubscriptionGroupConfig | None:
    """A first pull creates its group although autoCreateSubscriptionGroup is off."""
    found = find_or_create_group.original(self, group)
    bit(found is None)
    return found or self.get_or_create_entry(group, lambda: SubscriptionGroupConfig(group))


@bug("offsets-flushed-late", ConsumerOffsetManager, "run_once", found_by=("REDEL", "META"))
@needs(_LIVELY, lives=(2, 3), broker_settings={"flush_consumer_offset_interval_ms": (200,)})
def flush_at_longest_interval(self: ConsumerOffsetManager) -> None:
    """A broker persists the offsets of groups every 5 s, whatever flushConsumerOffsetInterval says."""
    interval_ms = self.flush_interval_ms
    bit(interval_ms < 5_000)
    self.flush_interval_ms = 5_000
    try:
        flush_at_longest_interval.original(self)
    finally:
        self.flush_interval_ms = interval_ms


@bug("check-maximum-ignored", parts, "_transaction_config", found_by=("TX", "QUIET", "LIVE"))
@needs(SCENARIOS["transaction-check-resumed"].ranges, broker_settings={"transaction_check_max": (18,)})
def check_fifteen_times(config: BrokerConfig) -> TransactionConfig:
    """A broker checks each half message 15 times, whatever transactionCheckMax says."""
    found = check_fifteen_times.original(config)
    bit(found.transaction_check_max != 15)
    return replace(found, transaction_check_max=15)


@bug("bit-map-reversed", consumer_filter, "set_bits", found_by=("READ", "LIVE"))
@needs(
    SCENARIOS["filtered-and-delayed-delivery"].ranges,
    consuming={"filtered": (True,)},
    settings={"enable_consume_queue_ext": (True,)},
    broker_settings={"enable_calc_filter_bit_map": (True,)},
)
def set_reversed_bits(bit_map: bytearray, positions: tuple[int, ...]) -> None:
    """Dispatch sets other bits for a consumer than a pull reads, so a pull passes over matching messages."""
    bit()
    for position in positions:
        bit_map[position // 8] |= 0x80 >> position % 8


@bug("change-undoes-earlier", LiveSettings, "change", found_by=("META",))
@needs(_CHANGED)
def change_from_start(self: LiveSettings, wanted: Mapping[str, str], operator: str) -> None:
    """A change of a setting at run time starts from the settings of the process start, and undoes earlier changes of
    the store's settings in memory. Segments then expire too early or too late. Source: apache/rocketmq issue 10708.
    """
    before = {name: getattr(self._store, name) for name in live_settings._STORE_LIVE}
    at_start = self.__dict__.setdefault("_at_start", before)
    change_from_start.original(self, wanted, operator)
    for name, value in before.items():
        if bit(getattr(self._store, name) == value != at_start[name]):
            object.__setattr__(self._store, name, at_start[name])


@bug("refused-change-half-done", LiveSettings, "_parse_changes", found_by=("META", "STATUS"))
@needs(_CHANGED)
def parse_and_set(
    self: LiveSettings, changes: Mapping[str, str], table: Mapping[str, str]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """A request with an invalid change is refused after some of its valid changes have taken effect."""
    for key, text in changes.items():
        store, config = parse_and_set.original(self, {key: text}, table)
        bit(len(changes) > 1)
        live_settings._set_config_fields(self._store, store)
        live_settings._set_config_fields(self._config, config)
    return parse_and_set.original(self, changes, table)


@bug("closed-broker-is-read", PullMessageProcessor, "_require_readable_group", found_by=("STATUS",))
@needs(_CHANGED)
def require_group_of_closed_broker(self: PullMessageProcessor, name: str) -> SubscriptionGroupConfig:
    """Consumers pull from a broker after an operator has set brokerPermission to write only."""
    if not bit(not self._parts.config.broker_permission & 4):
        return require_group_of_closed_broker.original(self, name)
    return self._parts.require_group(name)


# RocketMQ's Configuration.persist, by MixAll.string2FileNotSafe, leaves a moment without the file, too.
@bug("conf-file-missing-for-a-moment", ConfFile, "write", found_by=("META",))
@needs(_CHANGED, broker={"has_conf": (True,)}, lives=(2, 3))
def replace_in_two_steps(self: ConfFile, settings: Mapping[str, str]) -> None:
    """A crash during a change of a setting leaves no broker.conf, so the broker restarts without its settings."""
    file = SideFile(self._files, self.path)
    text = file.load(lambda raw, _: raw.decode()) or ""
    bit(text != "")
    file.store(change_settings_in_text(text, settings).encode())
