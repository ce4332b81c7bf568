"""Components of the store that get mutants, and the plans that exercise each.

A module of the store is in one component, or in NOT_MUTATED with a reason.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tornlog.scenarios.claims.catalogue import SCENARIOS
from tornlog.scenarios.claims.ranges import Ranges


@dataclass(frozen=True, slots=True)
class Component:
    """Some modules of the store with one job."""

    name: str
    modules: Sequence[str]
    """Below `store`."""
    needs: Mapping[str, Any]
    """Fields of Ranges that differ from those of the scenario."""
    scenario: str = ""
    """The scenario whose ranges are narrowed; empty: the usual ranges of a lone store."""

    def narrow(self, *more: Mapping[str, Any]) -> Ranges:
        """Return the ranges of the component's runs. more: further fields, which have priority."""
        ranges = SCENARIOS[self.scenario].ranges if self.scenario else Ranges()
        for needs in (self.needs, *more):
            ranges = ranges.replace(**needs)
        return ranges


LEFT_OUT = frozenset(
    (
        *("SegmentWarmUp", "TransactionConfig", "IndexStructure", "QueryMessageResult"),
        *("is_disk_full", "used_ratio", "DailyMessageTotals", "PutLatency", "StoreProblemLog", "ClientCalls"),
    )
)
"""Classes and functions that are not changed: runs do not use them, or only for reports."""

_PAUSES = {"paused_task_chance": (0.0, 0.5, 1.0)}
_DISKS_THAT_KEEP = ("strict-posix", "strict-posix", "ext4-ordered", "ext4-data", "xfs", "process-kill", "nothing-lost")
"""Disk models in which pages keep their new content after a failed sync. On btrfs pages revert to the old content."""
_CRASHES = ("crash in traffic", "crash in traffic", "crash at rest", "crash in load", "stop")

COMPONENTS: dict[str, Component] = {
    component.name: component
    for component in (
        Component(
            "segments",
            ("log.segment", "log.segment_queue"),
            {
                "commit_log_bytes": (1024, 2048, 4096),
                "consume_queue_bytes": (100, 200, 2000),
                "lives": (1, 2, 3),
                "messages": {"body_bytes_max": (0, 300, 700)},
                "messages_each": (8, 16, 24),
                "pauses": {"chance": (0.0, 0.5), "ms_max": (30, 100, 3000)},
                "retention": {"deletes_segments": (False, True, True), "deletes_queues": (False, True)},
                "endings": (*_CRASHES, "stop and odd file", "stop and strays"),
            },
        ),
        Component(
            "commit log",
            ("log.commit_log", "log.put_encoder", "log.log_time"),
            {
                "commit_log_bytes": (1024, 2048, 8192),
                "producers": (2, 3),
                "messages": {"illegal_chance": (0.0, 0.1)},
                "delay": {"chance": (0.0, 0.0, 0.3)},
                "light_queues": {"chance": (0.0, 0.0, 0.5)},
            },
        ),
        Component(
            "flush",
            ("log.flush",),
            {
                "commit_log_bytes": (1024, 2048, 8192),
                "producers": (2, 3),
                "sync_flush": (True, True, False),
                "disturbances": _PAUSES,
                "endings": ("crash in traffic", "stop", "stop in traffic", "stop in traffic"),
                "disk": _DISKS_THAT_KEEP,
                "faults": {"failed_sync_chance": (0.0, 0.0, 0.1), "slow_sync_chance": (0.0, 0.0, 0.3)},
            },
        ),
        Component(
            "commit",
            ("log.transient_pool",),
            {
                "sync_flush": (False,),
                "memory": {"transient_pool": (True,), "warm_files": (False, True)},
                "disturbances": _PAUSES,
                "consumers": (0, 1, 2),
                "commit_log_bytes": (1024, 2048, 8192),
                "capacity_bytes": (0, 0, 10_000, 16_000),
                "retention": {"deletes_segments": (False, True)},
                "endings": (*_CRASHES, "stop in traffic", "stop and full disk"),
                "faults": {
                    "failed_write_chance": (0.0, 0.0, 0.1),
                    "short_write_chance": (0.0, 0.2),
                    "sparse": (False, True),
                },
            },
        ),
        Component(
            "consume queue",
            ("queues.consume_queue", "queues.consume_queue_table", "queues.flush_queues"),
            {
                "consume_queue_bytes": (100, 200),
                "commit_log_bytes": (1024, 2048, 8192),
                "consumers": (0, 1),
                "lives": (1, 2, 3),
                "retention": {"deletes_segments": (False, True)},
                "disk": _DISKS_THAT_KEEP,
                "faults": {"failed_sync_chance": (0.0, 0.0, 0.05)},
            },
        ),
        Component(
            "dispatch",
            ("queues.dispatch",),
            {
                "consumers": (0, 1, 2),
                "commit_log_bytes": (1024, 2048),
                "delay": {"chance": (0.0, 0.0, 0.3)},
                "faults": {"failed_creation_chance": (0.0, 0.0, 0.2)},
            },
        ),
        Component(
            "index",
            ("index.index_file", "index.index_service", "index.key_query"),
            {
                "index": {"slots": (3, 40), "entries": (4, 9, 60), "keys_chance": (0.5,), "seekers": (0, 1, 2)},
                "messages": {"equal_sizes": (False,)},
                "lives": (1, 2, 3),
            },
        ),
        Component(
            "checkpoint",
            ("log.checkpoint",),
            {
                "recover_whole_log": (False,),
                "commit_log_bytes": (1024, 2048),
                "consume_queue_bytes": (20, 40, 200),
                "messages_each": (8, 16),
                "topics": (1, 2),
                "queues_per_topic": (1, 2),
                "pauses": {"chance": (0.5,), "ms_max": (1000, 3000)},
                "flush": {"thorough_interval_ms": (2000,)},
                "index": {"slots": (0, 5, 5), "entries": (5, 12), "keys_chance": (0.5,)},
                "disk": ("ext4-ordered", "strict-posix"),
                "lives": (2, 3, 4),
                "disturbances": {"clock_step_chance": (0.0, 0.1)},
                "endings": (
                    *("crash in load",) * 4,
                    *("stop and strays", "stop and strays", "stop and damage", "stop and damage"),
                    *_CRASHES,
                ),
            },
        ),
        Component(
            "recovery",
            ("recovery.recovery", "recovery.queue_replay", "recovery.index_recovery", "recovery.segment_times"),
            {
                "commit_log_bytes": (1024, 2048, 8192),
                "index": {"slots": (0, 5), "entries": (5, 12), "keys_chance": (0.0, 0.5)},
                "pauses": {"chance": (0.0, 0.5)},
                "flush": {"thorough_interval_ms": (2000,)},
                "retention": {"deletes_segments": (False, False, True)},
                "disk": _DISKS_THAT_KEEP,
                "faults": {"failed_sync_chance": (0.0, 0.0, 0.05)},
                "lives": (2, 3, 4),
                "endings": (*_CRASHES, "stop and damage"),
            },
        ),
        Component(
            "side files",
            ("side_file", "services.consumer_offsets"),
            {
                "consuming": {"commits_offsets": (True,)},
                "delay": {"chance": (0.0, 0.4)},
                "consumers": (1, 2),
                "pauses": {"chance": (0.5,), "ms_max": (1000, 3000)},
                "lives": (2, 3, 4),
                "endings": (*("crash in persist",) * 3, "stop and damaged progress", *_CRASHES),
                "disk": _DISKS_THAT_KEEP,
                "faults": {"failed_sync_chance": (0.0, 0.0, 0.05)},
            },
        ),
        Component(
            "schedule",
            ("delivery.schedule", "delivery.delivered_copies", "formats.redirect"),
            {
                "delay": {"chance": (0.3, 0.8)},
                "sync_flush": (True, False),
                "pauses": {"chance": (0.0, 0.5), "ms_max": (100, 3000)},
                "consumers": (0, 1),
                "lives": (1, 2, 3),
                "endings": ("crash in persist", "stop and damage", *_CRASHES),
            },
        ),
        Component(
            "transactions",
            ("services.transaction_check", "services.transaction_service", "services.transaction_queues"),
            {
                "transactions": {"chance": (0.4, 1.0)},
                "disturbances": _PAUSES,
                "memory": {"transient_pool": (False, True)},
                "consuming": {"commits_offsets": (False, True)},
                "messages_each": (2, 5, 10),
                "pauses": {"chance": (0.2, 0.5), "ms_max": (1, 30, 300)},
                "lives": (1, 2, 3),
                "endings": ("stop", *_CRASHES),
            },
        ),
        Component(
            "light queues",
            ("formats.light_queues",),
            {
                "light_queues": {"chance": (0.4, 0.9)},
                "producers": (2, 3),
                "topics": (2,),
                "queues_per_topic": (1, 2),
                "lives": (1, 2, 3),
            },
        ),
        Component(
            "retention",
            ("retention.cleaning", "running_flags"),
            {
                "retention": {"deletes_segments": (True,)},
                "commit_log_bytes": (1024, 2048),
                "consume_queue_bytes": (100, 200),
                "messages": {"body_bytes_max": (300, 700), "property_bytes_max": (0,)},
                "capacity_bytes": (0, 16_000, 16_000, 16_000),
                "disk": _DISKS_THAT_KEEP,
                "faults": {
                    "failed_sync_chance": (0.0, 0.05, 0.2, 0.2),
                    "failed_directory_sync_chance": (0.0, 0.1, 0.1),
                },
                "policy": ("pos", "pos", "random-walk", "pct"),
                "messages_each": (8, 16, 24),
                "pauses": {"chance": (0.2, 0.5)},
                "lives": (1, 2, 3),
            },
        ),
        Component(
            "allocate",
            ("log.allocate",),
            {
                "capacity_bytes": (0, 0, 16_000),
                "commit_log_bytes": (1024, 2048),
                "messages": {"body_bytes_max": (300, 700), "property_bytes_max": (0,)},
                "memory": {"transient_pool": (False, True)},
                "faults": {"failed_creation_chance": (0.0, 0.0, 0.2)},
                "lives": (1, 2, 3),
            },
        ),
        Component(
            "life of a store",
            ("message_store", "directories"),
            {
                "commit_log_bytes": (1024, 2048, 8192),
                "lives": (1, 2, 3),
                "starts": {"second": (False, False, True)},
                "memory": {"transient_pool": (False, True)},
                "delay": {"chance": (0.0, 0.4)},
                "faults": {"stall_chance": (0.0, 0.0, 0.05)},
            },
        ),
        Component(
            "services",
            ("service",),
            {
                "commit_log_bytes": (1024, 2048, 8192),
                "memory": {"transient_pool": (False, True)},
                "delay": {"chance": (0.0, 0.4)},
                "faults": {"failed_creation_chance": (0.0, 0.0, 0.2)},
                "endings": (*_CRASHES, "stop in traffic"),
            },
        ),
        Component(
            "queue extension",
            ("queues.consume_queue_ext",),
            {
                "settings": {"enable_consume_queue_ext": (True,), "mapped_file_size_consume_queue_ext": (400,)},
                "consuming": {"filtered": (True,)},
                "consumers": (1, 2),
                "messages_each": (8, 16),
                "retention": {"deletes_segments": (False, True)},
                "lives": (2, 3),
                "endings": (*_CRASHES, "stop and strays"),
            },
        ),
        Component(
            "pull",
            ("queues.pull", "filters.message_filter"),
            {
                "consumers": (1, 2),
                "consuming": {"filtered": (False, True)},
                "commit_log_bytes": (1024, 2048, 8192),
                "retention": {"deletes_segments": (False, True)},
                "lives": (1, 2),
                "disk": _DISKS_THAT_KEEP,
                "faults": {"failed_sync_chance": (0.0, 0.0, 0.1)},
            },
        ),
        Component(
            "replication",
            ("replication.ha_client", "replication.ha_service", "replication.replica_log"),
            {"retention": {"deletes_segments": (False, False, True)}},
            "replication-network-faults",
        ),
        Component(
            "waiting puts",
            ("log.group_transfer", "log.put_wait"),
            {
                "cluster": {"sync_master": (True,)},
                "endings": ("crash in traffic", "crash at rest", "stop", "stop in traffic"),
            },
            "replication-network-faults",
        ),
        Component(
            "broker sends",
            ("broker.sending", "broker.late_answers", "broker.topic_names", "broker.processors.send"),
            {
                "messages": {"batch_chance": (0.0, 0.2)},
                "transactions": {"chance": (0.0, 0.3)},
                "cluster": {"slaves": (0,)},  # a broker with slaves takes no transactions in runs
                "network": {"broken_chance": (0.0, 0.05), "partition_chance": (0.0, 0.02)},
            },
            "consumer-retry",
        ),
        Component(
            "broker pulls",
            ("broker.long_polling", "broker.subscriptions", "broker.processors.pull", "services.consumer_filter"),
            {"broker": {"tailing_consumers": (0, 1, 2), "pull_messages_max": (1, 4)}},
            "filtered-and-delayed-delivery",
        ),
        Component(
            "broker tables",
            (
                *("broker.topics", "broker.versioned_table"),
                *("broker.processors.broker_admin", "broker.processors.group_admin"),
            ),
            {"broker": {"group_members": (0, 2)}},
            "operator-changes",
        ),
        Component("life of a broker", ("broker.parts", "broker.broker"), {}, "swarm-broker"),
        Component(
            "group members",
            (
                *("broker.clients", "broker.client_calls", "broker.deadlines", "broker.housekeeping"),
                "broker.processors.client_manage",
            ),
            {"broker": {"rest_ms_max": (8_000, 150_000)}},
            "orderly-consumers",
        ),
        Component("lookups", ("broker.processors.query",), {}, "broker-lookups"),
        Component(
            "routes",
            ("broker.name_server", "broker.outer_api", "broker.processors.names"),
            {"cluster": {"slaves": (0, 1)}, "consumers": (0, 1)},
            "name-server-routes",
        ),
        Component(
            "connections",
            (
                *("broker.connections", "broker.server", "broker.session", "broker.router", "broker.requests"),
                *("broker.request_pool", "broker.fair_queue", "broker.remoting_client"),
            ),
            {
                "network": {"broken_chance": (0.0, 0.05), "half_open_chance": (0.0, 0.02), "split_chance": (0.0, 0.2)},
                "broker": {"buffer_bytes": (300, 4_096)},
            },
            "requests-in-flight",
        ),
    )
}

_FIGURES = "counts and shows; no promise depends on it"
_SETTINGS = "reads and checks settings; runs construct their settings"
_REAL = "the real machine; runs have a simulated one"
_SHARED = "the judge or the simulated clients use it too; conformance and fuzzing compare it with RocketMQ"
_READS = "reads directories for operators; no run uses it"

NOT_MUTATED: Mapping[str, str] = {
    "broker.acl": "permissions of accounts, as pure functions of an access list",
    "broker.broker_config": _SETTINGS,
    "broker.health": _FIGURES,
    "broker.hooks": "calls functions of a program that embeds a broker",
    "broker.kv_config": "its bugs in the catalogue of mutants need name-server-answers",
    "broker.limits": "protects a server from too many clients; the soak test exceeds the limits",
    "broker.live_settings": _SETTINGS,
    "broker.metrics": _FIGURES,
    "broker.name_server_settings": _SETTINGS,
    "broker.operator_log": _FIGURES,
    "broker.processors.acl_admin": "edits an access list; see broker.acl",
    "broker.processors.figures": _FIGURES,
    "broker.serve": _REAL,
    "broker.serve_names": _REAL,
    "broker.server_counts": _FIGURES,
    "broker.setting_changes": _SETTINGS,
    "broker.statistics": _FIGURES,
    "config": _SETTINGS,
    "errors": "defines error classes",
    "filters.sql_expression": "pure function; tests compare it with RocketMQ's",
    "filters.sql_filter": "pure function; tests compare it with RocketMQ's",
    "formats": _SHARED,
    "marks": _FIGURES,
    "network": "declares what the store needs of a network",
    "own_code": "worlds for users' programs",
    "plugins": "calls wrappers of a program that embeds a store",
    "real": _REAL,
    "runtime_info": _FIGURES,
    "settings": _SETTINGS,
    "stats": _FIGURES,
    "tools": _READS,
    "world": "declares what the store needs of a machine",
}
"""Modules and folders below `store` without mutants, except the modules of components, and the reasons."""
