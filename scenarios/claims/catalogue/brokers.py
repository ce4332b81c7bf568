"""Brokers: clients that send, pull and end transactions over a network."""

from collections.abc import Mapping, Sequence
from typing import Any

from ..ranges import Ranges
from ..scenario import Scenario

FAIR: Mapping[str, Sequence[float | str]] = {
    "latency_us_min": (20, 500, 500),
    "latency_us_max": (500, 1_000, 20_000),
    "split_chance": (0.0, 0.0, 0.2),
    "late_chance": (0.0, 0.0, 0.05),
}
"""With a fixed latency, requests of several clients can arrive simultaneously."""
TROUBLED: Mapping[str, Sequence[float | str]] = {
    **FAIR,
    "partition_chance": (0.0, 0.01, 0.03),
    "one_way_chance": (0.0, 0.01, 0.03),
    "partition_ms_max": (500, 5_000, 20_000),
    "slow_link_chance": (0.0, 0.0, 0.02),
    "broken_chance": (0.0, 0.02, 0.1),
    "half_open_chance": (0.0, 0.0, 0.02),
    "refused_chance": (0.0, 0.2),
    "reset_at_death_chance": (0.0, 0.5),
}

_LONG_TIMEOUTS_MS = (3_000, 3_000)
"""For sends that wait for a slave. If producers repeat them every 200 ms, the slave may never reach the log's end.

There are as many options as in `BROKER`, so that older seeds keep the rest of their plans.
"""
SLAVE_SETTINGS: Mapping[str, Sequence[bool]] = {
    "slaves_know_master": (False, False, True),
    "slaves_know_ha_address": (False, False, True),
    "slaves_avoid_master": (False, False, True),
}
"""How slaves find their master: by one or both addresses in their settings, or by name servers, also of other brokers.
"""
SLAVE_SETTINGS_CHANCE = 0.7
SLAVES: Mapping[str, Any] = {
    "sync_flush": (True,),
    "memory": {"transient_pool": (False,)},
    "attribute_points": (False,),
    "heals": (False, False, False, False, True),
    "cluster": {
        "slaves": (1, 1, 1, 2),
        "sync_master": (False, False, True),
        "slave_sync_flush": (True, False),
        "slave_timeout_ms": (200, 3_000),
        "transfer_batch_bytes": (500, 32_768),
    },
    "broker": {
        "send_timeout_ms": _LONG_TIMEOUTS_MS,
        "slaves_are_read": (True, True, False),
        "slave_absence_chance": (0.0, 0.0, 0.4),
        "slave_death_chance": (0.0, 0.3, 0.6),
        "slave_disk_loss_chance": (0.0, 0.0, 0.4),
        "slave_disk_reuse_chance": (0.0, 0.8),
        **SLAVE_SETTINGS,
    },
    "faults": {"failed_sync_chance": (0.0,), "failed_write_back_chance": (0.0,)},
}
"""Slaves of a broker. They may be off, die or lose their disks.

Runs that heal, or switch at attributes, cost two to four times as much with a slave. If a failed sync drops data that
a slave has, no slave follows the master again.
"""
LAGGING_SLAVE: Mapping[str, Any] = {
    "cluster": {"slaves": (1,), "sync_master": (False,)},
    "broker": {"slave_lags": (True,)},
}
"""A slave without the end of its master's log may take over. Producers of a SYNC_MASTER would wait for it."""
RETURNING_MASTER: Mapping[str, Any] = {
    "cluster": {"slaves": (1,), "sync_master": (False,)},
    "broker": {"master_returns": (True,), "slaves_are_read": (False,)},
    "index": {"seekers": (0,)},
}
"""A lost master returns as a slave. If its log differs, a reader of it would get messages that its master never had."""
LIGHT_QUEUES: Mapping[str, Any] = {"light_queues": {"chance": (0.3,)}, "broker": {"light_readers": (1,)}}
SLAVES_WITH_RETENTION: Mapping[str, Any] = {**SLAVES, "cluster": {**SLAVES["cluster"], "sync_master": (False,)}}
"""While a slave is off, retention may remove the data that it needs next. Puts must not wait for such a slave."""
SLAVES_CHANCE = 0.33
_FEW_SLAVES_CHANCE = 0.1
"""For a scenario that costs three times as much with a slave."""
_SLAVES_WITH_HALF_MESSAGES: Mapping[str, Any] = {
    **SLAVES,
    "broker": {**SLAVES["broker"], "slave_takes_over": (True,)},
}
"""Slaves copy the progress of the transaction check. In runs that heal, a slave checks as the new master."""
_LOST_HALF_MESSAGES: Mapping[str, Any] = {
    "sync_flush": (False,),
    "settings": {"flush_commit_log_least_pages": (4,)},
    "messages": {"equal_sizes": (True,), "body_bytes_max": (40,), "property_bytes_max": (0,), "batch_chance": (0.0,)},
    "transactions": {"chance": (1.0,)},
    "broker": {"off_ms_max": (1,)},
}
"""A power cut loses half messages, and after the restart others get their offsets before their decisions arrive."""
PULLS_IN_FLIGHT: Mapping[str, Any] = {"broker": {"pulls_in_flight": (2,)}}
"""Pulls for one queue that wait over one connection, as those of two groups in one process do."""
FILTERS: Mapping[str, Any] = {
    "consuming": {"filtered": (True,)},
    "broker": {"registers_filters": (False, True, True), "tailing_consumers": (1, 2)},
    "settings": {"enable_consume_queue_ext": (False, True, True)},
}
"""Groups with different subscriptions that wait for the same queue."""
FILTERS_CHANCE = 0.2
_FEW_FILTERS_CHANCE = 0.1
OTHER_CLIENTS: Mapping[str, Any] = {"broker": {"other_clients": (True,)}}
"""C++ clients, binary headers and fastjson's dialect, each in a share of the clients."""
OTHER_CLIENTS_CHANCE = 0.2
GROUPS: Mapping[str, Any] = {
    "broker": {
        "group_operators": (1,),
        "group_races": (0, 8),
        "tasks_each": (4,),
        "other_clients": (False, False, True),
    },
    "disturbances": {"timer_slack_us": (1_000, 10_000)},
}
"""An operator with groups of its own. It adds up to 120 requests to a run, some of which the broker serves at once."""
SETTINGS: Mapping[str, Sequence[bool | int | str]] = {
    "auto_create_topic_enable": (True, True, True, False),
    "auto_create_subscription_group": (True, True, True, False),
    "short_polling_time_ms": (1_000, 1_000, 200, 3_000),
    "notify_consumer_ids_changed_enable": (True, True, True, False),
    "enable_calc_filter_bit_map": (False, True),
    "flush_consumer_offset_interval_ms": (1_000, 1_000, 1_000, 200, 5_000),
    "held_pulls_max": (100_000, 100_000, 100_000, 0, 2),
    "held_pulls_of_client_max": (10_000, 10_000, 10_000, 1),
    "region_id": ("DefaultRegion", "region-2"),
    "trace_on": (True, False),
    "accepts_sends_after_ms": (*(0,) * 7, 1_500),
    "reject_transaction_message": (*(False,) * 7, True),
    "transaction_timeout_ms": (1_000, 1_000, 1_000, 2_000),
    "transaction_check_interval_ms": (1_000, 1_000, 1_000, 2_000),
    "transaction_check_max": (15, 15, 15, 18),
    "validate_system_topic_when_update_topic": (True, False),
    "store_reply_message_enable": (True, True, False),
}
"""Settings of a broker."""

BROKER = Ranges(
    endings=(*("crash in traffic",) * 3, "crash at rest", "crash in load", "stop"),
    lives=(1, 2, 2, 3),
    producers=(1, 2, 3),
    consumers=(0, 1, 1, 2),
    messages_each=(2, 5, 8),
    pauses={"ms_max": (1, 30, 2_000)},
    memory={"warm_files": (False,)},
    index={"slots": (0, 0, 5)},
    broker={
        "serves": (True,),
        "send_timeout_ms": (200, 3_000),
        "sends_max": (1, 3),
        "suspend_ms": (100, 5_000, 5_000),
        "pull_messages_max": (1, 4, 32),
        "commits_with_pulls": (True, False),
        "consumer_restart_chance": (0.0, 0.5),
        "client_death_chance": (0.0, 0.0, 0.05),
        "tailing_consumers": (0, 0, 1, 2),
        "tasks_each": (1, 2),
        "buffer_bytes": (300, 4_096, 65_536),
        "rest_ms_max": (0, 0, 2_000, 8_000),
        "work_ms": (0, 1),
        "off_ms_max": (1, 1_000, 10_000),
    },
    disturbances={"paused_task_chance": (0.0, 0.1, 1.0), "paused_machine_chance": (0.0, 0.0, 0.05)},
    network=FAIR,
    broker_settings=SETTINGS,
)
"""A broker on a network that may be slow but has no faults."""

SCENARIOS: tuple[Scenario, ...] = (
    # The broker's machine dies between a send and its answer, and restarts.
    Scenario(
        "broker-crash",
        "after a crash, messages that a broker answered SUCCESS or delivered are present, unless the crash may lose "
        "them",
        BROKER.replace(flush={"sync_timeout_ms": (50, 5_000)})
        .replace(faults={"slow_sync_chance": (0.0, 0.0, 0.2)})
        .with_late_optional(SLAVES_CHANCE, slaves=SLAVES)
        .with_late_optional(_FEW_FILTERS_CHANCE, filters=FILTERS)
        .with_late_optional(OTHER_CLIENTS_CHANCE, other_clients=OTHER_CLIENTS)
        .with_late_optional(0.15, lost_half_messages=_LOST_HALF_MESSAGES),
        stream="a-broker-keeps-what-it-answered",
    ),
    # Connections break, and clients repeat unanswered requests.
    Scenario(
        "producer-retry-duplicates",
        "after network faults, a message is stored at most once per send, and no other message is stored",
        BROKER.replace(
            network=TROUBLED,
            disturbances={
                "paused_task_chance": (0.0, 0.0, 0.1),
                "paused_machine_chance": (0.0, 0.0, 0.05),
                "clock_step_chance": (0.0, 0.0, 0.1),
            },
        )
        .with_late_optional(SLAVES_CHANCE, slaves=SLAVES)
        .with_late_optional(_FEW_FILTERS_CHANCE, filters=FILTERS)
        .with_late_optional(OTHER_CLIENTS_CHANCE, other_clients=OTHER_CLIENTS),
        stream="retries-explain-every-duplicate",
    ),
    # The broker crashes and the network fails. Consumers pull, and restart at their committed offsets.
    Scenario(
        "consumer-order",
        "after all faults end, every consumer receives every message of every queue in order",
        BROKER.replace(
            consumers=(1, 2),
            heals=(True,),
            network={**TROUBLED, "failed_poll_chance": (0.0, 0.002, 0.02)},
            broker={"consumer_restart_chance": (0.0, 0.5, 1.0), "other_clients": (False, False, True)},
        )
        .with_late_optional(SLAVES_CHANCE, slaves=SLAVES)
        .with_late_optional(0.5, pulls_in_flight=PULLS_IN_FLIGHT)
        .with_late_optional(FILTERS_CHANCE, filters=FILTERS),
        stream="consumers-get-everything-in-order",
    ),
    # Check requests are lost until the broker gives up. Operators then resume the checks.
    Scenario(
        "transaction-check-resumed",
        "after an operator resumes a half message that was given up, the broker checks it again and its decision takes "
        "effect",
        BROKER.replace(
            producers=(1, 2),
            consumers=(0, 1),
            messages_each=(2, 4),
            transactions={"chance": (0.5, 1.0)},
            network={**TROUBLED, "one_way_chance": (0.05, 0.1), "partition_ms_max": (20_000,)},
            heals=(True,),
            broker={"resumes_checks": (True,), "rest_ms_max": (30_000,), "client_death_chance": (0.0, 0.3)},
        ).with_late_optional(0.3, more_checks={"broker_settings": {"transaction_check_max": (18,)}}),
        stream="what-was-given-up-can-be-decided-after-all",
    ),
    # Producers commit or roll back over a faulty network. The broker checks a transaction after its decision was lost.
    Scenario(
        "transaction-network-faults",
        "after network faults, no rolled back message is visible, and every message that its producer committed is "
        "visible or was given up only after checks",
        BROKER.replace(
            producers=(1, 2),
            consumers=(0, 1),
            messages_each=(2, 4),
            transactions={"chance": (0.3, 1.0)},
            network=TROUBLED,
        ).with_late_optional(_FEW_SLAVES_CHANCE, slaves=_SLAVES_WITH_HALF_MESSAGES),
        stream="transactions-survive-the-network",
    ),
    # Clients send, pull and end transactions. The broker's disk returns errors, is slow or full, and its machine dies.
    Scenario(
        "broker-disk-errors",
        "after any disk error, a broker answers SUCCESS only for messages that it has stored, and it works again as "
        "soon as the disk works",
        BROKER.replace(
            endings=("crash in traffic", "crash in traffic", "crash at rest", "crash in load", "stop", "stop"),
            messages_each=(2, 5, 12),
            messages={"body_bytes_max": (40, 300, 900)},
            commit_log_bytes=(2048, 4096),
            capacity_bytes=(0, 0, 16_000, 24_000),
            transactions={"chance": (0.0, 0.0, 0.3, 1.0)},
            broker={"consumer_restart_chance": (0.5, 1.0)},
            faults={
                "failed_sync_chance": (0.0, 0.0, 0.02, 0.1),
                "failed_directory_sync_chance": (0.0, 0.0, 0.05),
                "stopped_file_system_chance": (0.0, 0.2),
                "failed_creation_chance": (0.0, 0.1, 0.3),
                "failed_extend_chance": (0.0, 0.0, 0.1),
                "failed_write_chance": (0.0, 0.1, 0.3),
                "failed_read_chance": (0.0, 0.0, 0.05),
                "failed_map_chance": (0.0, 0.0, 0.05),
                "failed_lookup_chance": (0.0, 0.0, 0.02),
                "failed_removal_chance": (0.0, 0.0, 0.1),
                "failed_rename_chance": (0.0, 0.0, 0.1),
                "slow_sync_chance": (0.0, 0.1),
                "slow_io_chance": (0.0, 0.0, 0.1),
                "stall_chance": (0.0, 0.0, 0.01),
            },
        ).with_late_optional(SLAVES_CHANCE, slaves=SLAVES),
        stream="a-broker-on-a-failing-disk-answers-truthfully",
    ),
    # Mixes filters, delays, transactions and the write buffer with plain messages over a faulty network.
    Scenario(
        "filtered-and-delayed-delivery",
        "after crashes and pauses, a group receives exactly the messages that match its subscription, and none before "
        "its delay is over",
        BROKER.replace(
            consumers=(1, 2),
            heals=(True, True, False),
            memory={"transient_pool": (False, True)},
            consume_queue_bytes=(100, 200),
            consuming={"filtered": (True, True, False)},
            delay={"chance": (0.0, 0.3, 0.7)},
            transactions={"chance": (0.0, 0.0, 0.3)},
            network={"broken_chance": (0.0, 0.0, 0.05), "partition_chance": (0.0, 0.0, 0.01)},
            broker={"registers_filters": (False, True, True)},
            settings={"enable_consume_queue_ext": (False, True, True)},
        )
        .with_late_optional(SLAVES_CHANCE, slaves=SLAVES)
        .with_late_optional(0.3, groups=GROUPS)
        .with_late_optional(FILTERS_CHANCE, filters=FILTERS),
        stream="a-group-gets-what-it-wants-when-it-is-due",
    ),
    # Old log segments expire while consumers read them or before consumers start.
    Scenario(
        "consumer-offset-expired",
        "after the next messages of a consumer expire, it continues at the oldest remaining message and skips no other",
        BROKER.replace(
            heals=(True, True, False),
            consumers=(1, 2),
            messages_each=(5, 12),
            messages={"body_bytes_max": (300, 700)},
            commit_log_bytes=(1024,),
            consume_queue_bytes=(100, 200),
            consuming={"filtered": (False, False, True)},
            retention={"deletes_segments": (True,)},
            broker={
                "masters": (1, 1, 2),
                "pull_messages_max": (1, 1, 4),
                "commits_with_pulls": (True, False),
                "consumer_restart_chance": (0.5, 1.0),
                "work_ms": (50, 500, 2_000),
            },
        )
        .with_late_optional(SLAVES_CHANCE, slaves=SLAVES_WITH_RETENTION)
        .with_late_optional(0.3, groups=GROUPS),
        stream="consumers-are-moved-past-what-expired-alone",
    ),
    # Slaves serve pulls and sometimes die. The broker redirects consumers to a slave and back.
    Scenario(
        "slave-reads",
        "after pulls from a master or its slaves, a consumer has every message of every queue in order, and at the end "
        "a slave has the same messages as its master and can replace it",
        BROKER.replace(
            endings=("crash in traffic", "crash in traffic", "crash at rest", "crash in load", "stop"),
            lives=(2, 3),
            sync_flush=(True,),
            consumers=(1, 2),
            messages={"body_bytes_max": (40, 300, 900)},
            memory={"transient_pool": (False,)},
            cluster={
                "slaves": (1, 1, 2),
                "sync_master": (False, False, True),
                "slave_sync_flush": (True, False),
                "slave_timeout_ms": (200, 3_000),
                "transfer_batch_bytes": (500, 32_768),
            },
            network={"broken_chance": (0.0, 0.0, 0.05), "partition_chance": (0.0, 0.0, 0.01)},
            broker={
                "send_timeout_ms": _LONG_TIMEOUTS_MS,
                "slaves_are_read": (True, True, False),
                "slave_takes_over": (True, True, False),
                "off_ms_max": (1_000, 10_000, 30_000),
            },
        )
        .with_late_optional(0.5, lookups={"index": {"slots": (5, 40), "keys_chance": (0.5, 1.0), "seekers": (1,)}})
        .with_late_optional(0.5, reused_disks={"broker": {"slave_disk_reuse_chance": (1.0,)}})
        .with_late_optional(
            0.25, light_groups={**LIGHT_QUEUES, "broker": {**LIGHT_QUEUES["broker"], "tailing_consumers": (1, 2)}}
        )
        .with_late_optional(0.2, lagging_slave=LAGGING_SLAVE)
        .with_late_optional(0.15, returning_master=RETURNING_MASTER)
        .with_late_optional(SLAVE_SETTINGS_CHANCE, slave_settings={"broker": SLAVE_SETTINGS})
        .with_late_optional(0.3, registered={"broker": {"registers_filters": (True,)}})
        .with_late_optional(OTHER_CLIENTS_CHANCE, other_clients=OTHER_CLIENTS),
        stream="slaves-give-what-their-master-has",
    ),
    # A topic has queues at two masters. While one master is off, producers use the other, and clients fetch new routes.
    Scenario(
        "client-failover",
        "after one master goes down, clients use the other master and its name server, and every message that either "
        "master acknowledged is present and delivered",
        BROKER.replace(
            lives=(2, 3),
            sync_flush=(True,),
            consumers=(0, 1, 2),
            network=TROUBLED,
            cluster={"slaves": (0, 0, 1)},
            broker={"masters": (2,), "slaves_are_read": (True, False), "off_ms_max": (1_000, 10_000, 30_000)},
        )
        .with_late_optional(0.7, takeover={"broker": {"slave_takes_over": (True,)}})
        .with_late_optional(SLAVE_SETTINGS_CHANCE, slave_settings={"broker": SLAVE_SETTINGS}),
        stream="clients-go-on-at-another-master",
    ),
)
