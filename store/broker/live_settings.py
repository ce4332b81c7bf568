"""Live settings: reads and changes the configuration of a running broker.

Code reads a live setting at each use, so a change applies to the next use. A request changes all settings that it names
or none. If a key is unknown, has no effect, or cannot change at run time, the broker refuses the request with an error
that names the key; RocketMQ reports success. The broker writes changes to its broker.conf, if it has one.
Source: RocketMQ AdminBrokerProcessor.updateBrokerConfig, Configuration.update, MessageStoreConfig, BrokerConfig.
"""

from collections.abc import Callable, Mapping
from dataclasses import Field, fields, replace
from typing import Any

from ..config import ConfigError, StoreConfig
from ..settings.broker_conf import BROKER_KEYS, UNUSED_DEFAULTS, canonical_key, parse_setting
from ..settings.conf_file import ConfFile
from ..settings.describe_config import describe_settings, setting_text
from ..world import World
from .broker_config import BrokerConfig, settings_of
from .operator_log import Emit
from .setting_changes import SettingChangeError, SettingFixedError
from .versioned_table import DataVersion

_LIVE_OF_STORE = """
    max_message_size os_page_cache_busy_time_out_ms
    sync_flush_timeout_ms flush_interval_commit_log_ms flush_commit_log_least_pages
    flush_commit_log_thorough_interval_ms commit_interval_commit_log_ms commit_commit_log_least_pages
    commit_commit_log_thorough_interval_ms flush_interval_consume_queue_ms flush_consume_queue_least_pages
    flush_consume_queue_thorough_interval_ms flush_delay_offset_interval_ms
    max_transfer_bytes_on_message_in_memory max_transfer_count_on_message_in_memory
    max_transfer_bytes_on_message_in_disk max_transfer_count_on_message_in_disk
    access_message_in_memory_max_ratio disk_fall_recorded offset_check_in_slave long_polling_enable
    default_query_max_num
    file_reserved_time_hours delete_when disk_max_used_space_ratio disk_space_warning_level_ratio
    disk_space_clean_forcibly_ratio clean_file_forcibly_enable delete_commit_log_files_interval_ms
    delete_consume_queue_files_interval_ms redelete_hanged_file_interval_ms
    ha_send_heartbeat_interval_ms ha_housekeeping_interval_ms ha_transfer_batch_size ha_slave_fallbehind_max
    slave_timeout_ms max_lmq_consume_queue_num
"""
_LIVE_OF_BROKER = """
    broker_permission auto_create_topic_enable auto_create_subscription_group region_id trace_on
    validate_system_topic_when_update_topic register_name_server_period_ms
    start_accept_send_request_time_stamp_ms reject_transaction_message store_reply_message_enable
    transaction_timeout_ms transaction_check_max transaction_check_interval_ms
    short_polling_time_ms notify_consumer_ids_changed_enable slave_read_enable enable_property_filter
    flush_consumer_offset_interval_ms held_pulls_max held_pulls_of_client_max
"""
"""Fields that code reads at each use, or for which a change notifies the code."""
_STORE_LIVE = frozenset(_LIVE_OF_STORE.split())
_BROKER_LIVE = frozenset(_LIVE_OF_BROKER.split())
# With a misspelled name above, a setting could not change at run time.
assert {one.name for one in fields(StoreConfig)} >= _STORE_LIVE
assert {one.name for one in fields(BrokerConfig)} >= _BROKER_LIVE


class LiveSettings:
    """The settings of a broker. Thread-safe."""

    def __init__(self, world: World, store: StoreConfig, config: BrokerConfig) -> None:
        self.emit: Emit = lambda line: None
        self.on_changed: Callable[[frozenset[str]], None] = lambda names: None
        """Argument: names of changed fields of both configs."""
        self.others: Mapping[str, str] = {}
        """Key -> text of the server's settings."""
        self.unused = UNUSED_DEFAULTS
        """Key -> text of the settings without effect."""
        self.file: ConfFile | None = None
        """The broker.conf that stores changes; None: changes are lost when the process ends."""
        self.version = DataVersion(world.clock.now_ms())
        self._clock = world.clock
        self._lock = world.tasks.lock("live settings")
        self._store = store
        self._config = config

    @property
    def table(self) -> dict[str, str]:
        store = self._store
        known = {each.key: setting_text(each.value) for each in describe_settings(store, store.store_path_root_dir)}
        return {**self.unused, **self.others, **known, **settings_of(self._config)}

    def change(self, wanted: Mapping[str, str], operator: str) -> None:
        """Change all of the given settings or none.

        The log names the operator. Raises SettingChangeError, or OSError if the broker.conf cannot be written.
        """
        with self._lock:
            table = self.table
            spelled_right = {_SPELLINGS.get(canonical_key(key), key): text for key, text in wanted.items()}
            changes = {key: text for key, text in spelled_right.items() if table.get(key) != text}
            store, config = self._parse_changes(changes, table)
            assert len(store) + len(config) == len(changes), (changes, store, config)
            if changes and self.file is not None:
                self.file.write(changes)  # write first: if the write fails, no setting has changed
            _set_config_fields(self._store, store)
            _set_config_fields(self._config, config)
            if changes:
                self.version = DataVersion(self._clock.now_ms(), self.version.counter + 1)
        if changes:
            where = "in memory only, because there is no broker.conf" if self.file is None else "in broker.conf"
            shown = ", ".join(f"{key}={text} (was {table.get(key, '')})" for key, text in changes.items())
            self.emit(f"settings changed by {operator} {where}: {shown}")
            self.on_changed(frozenset((*store, *config)))

    def _parse_changes(
        self, changes: Mapping[str, str], table: Mapping[str, str]
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        store: dict[str, Any] = {}
        config: dict[str, Any] = {}
        for key, text in changes.items():
            if (one := _STORE_KEYS.get(key)) is not None and one.name in _STORE_LIVE:
                store[one.name] = _parse_value(one, key, text)
            elif (one := _BROKER_FIELDS.get(key)) is not None and one.name in _BROKER_LIVE:
                config[one.name] = _parse_value(one, key, text)
            elif key in self.unused:
                raise SettingFixedError(f"{key} has no effect on this broker")
            elif key in table or key in BROKER_KEYS:
                raise SettingFixedError(f"{key} cannot change while the broker runs: the broker reads it at the start")
            else:
                raise SettingChangeError(f"{key} is not a broker setting")
        try:
            replace(self._store, **store)
            replace(self._config, **config)
        except ConfigError as error:
            key = _STORE_NAMES.get(error.name, error.name)
            raise SettingChangeError(f"{key}: expected {error.expected}, found {error.found!r}") from error
        return store, config


_STORE_KEYS: Mapping[str, Field[Any]] = {one.metadata["key"].name: one for one in fields(StoreConfig)}
_SPELLINGS = {canonical_key(key): key for key in _STORE_KEYS}
_STORE_NAMES = {one.name: key for key, one in _STORE_KEYS.items()}
_BROKER_FIELDS: Mapping[str, Field[Any]] = {one.metadata["key"].name: one for one in fields(BrokerConfig)}
LIVE_KEYS = frozenset(
    key
    for table, live in ((_STORE_KEYS, _STORE_LIVE), (_BROKER_FIELDS, _BROKER_LIVE))
    for key, one in table.items()
    if one.name in live
)


def _parse_value(one: Field[Any], key: str, text: str) -> Any:
    try:
        return parse_setting(one, key, text)
    except ConfigError as error:
        raise SettingChangeError(str(error)) from error


def _set_config_fields(config: StoreConfig | BrokerConfig, changed: Mapping[str, Any]) -> None:
    """Change a frozen config that all parts of the broker share. No other function does this."""
    assert changed.keys() <= _STORE_LIVE | _BROKER_LIVE, changed
    for name, value in changed.items():
        object.__setattr__(config, name, value)
