"""Landmarks: timeouts and intervals of the store, which delays should exceed.

A run counts which of the landmarks that its plan enables were exceeded.
"""

from dataclasses import fields

from ...store.config import StoreConfig
from ...store.delivery.schedule import RETRY_AFTER_ERROR_MS
from ...store.formats.checkpoint import SAFETY_MARGIN_MS
from ...store.log.allocate import UNLOCK_AFTER_MS
from ...store.log.allocate import WAIT_MS as ALLOCATE_WAIT_MS
from ...store.queues.dispatch import RETRY_MS as DISPATCH_RETRY_MS
from ...store.replication.ha_client import RECONNECT_MS
from ...store.retention.cleaning import CHECK_INTERVAL_MS, FIRST_CHECK_MS, FIRST_CLEAN_MS
from .machine import CONSUMER_OFFSET_INTERVAL_MS, DELAYS_MS, TRANSACTIONS, config_of
from .plan import Plan

_ALWAYS = (SAFETY_MARGIN_MS, ALLOCATE_WAIT_MS, DISPATCH_RETRY_MS)
_OF_REPLICATION = ("ha_", "slave_")
_OF_RETENTION = ("clean_", "delete_", "destroy_", "redelete_")
_OF_FLUSHING = ("flush_", "commit_", "sync_", "os_")


def _time_settings(prefixes: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(
        each.name for each in fields(StoreConfig) if each.name.endswith("_ms") and each.name.startswith(prefixes)
    )


_FLUSHING, _REPLICATION, _RETENTION = map(_time_settings, (_OF_FLUSHING, _OF_REPLICATION, _OF_RETENTION))


def plan_landmarks_ms(plan: Plan) -> tuple[int, ...]:
    found, settings = {*_ALWAYS}, [*_FLUSHING]
    if plan.memory.warm_files:
        found.add(UNLOCK_AFTER_MS)
    if plan.retention.deletes_segments:
        found |= {FIRST_CHECK_MS, CHECK_INTERVAL_MS, FIRST_CLEAN_MS}
        settings += _RETENTION
    if plan.delay.chance:
        found |= {*DELAYS_MS.values(), RETRY_AFTER_ERROR_MS}
    if plan.consuming.commits_offsets:
        found.add(CONSUMER_OFFSET_INTERVAL_MS)
    if plan.transactions.chance:
        found |= {TRANSACTIONS.transaction_timeout_ms, TRANSACTIONS.transaction_check_interval_ms}
    if plan.cluster.slaves:
        found |= {plan.cluster.slave_timeout_ms, RECONNECT_MS}
        settings += _REPLICATION
    if plan.broker.serves:
        from ...store.broker.clients import LOCK_MS_MAX  # the broker is an optional extra
        from ...store.broker.long_polling import SCAN_MS

        found |= {plan.broker.send_timeout_ms, plan.broker.suspend_ms, SCAN_MS, LOCK_MS_MAX}
    config = config_of(plan)
    found |= {getattr(config, name) for name in settings}
    assert min(found) >= 0, found
    return tuple(sorted(found - {0}))
