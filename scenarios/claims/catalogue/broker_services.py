"""Broker services: retries, groups, lookups, operators, accounts, requests in flight, routes."""

from collections.abc import Mapping
from typing import Any

from ..scenario import Scenario
from .brokers import (
    BROKER,
    FAIR,
    GROUPS,
    LIGHT_QUEUES,
    OTHER_CLIENTS,
    OTHER_CLIENTS_CHANCE,
    PULLS_IN_FLIGHT,
    SLAVE_SETTINGS,
    SLAVE_SETTINGS_CHANCE,
    SLAVES,
    SLAVES_CHANCE,
    SLAVES_WITH_RETENTION,
)
from .disturbances import CONF_CRASHES

_FEW_SLAVES_CHANCE = 0.1
"""For a scenario that costs 60 % more with a slave, although its claim does not concern slaves."""
_LIGHT_QUEUES_CHANCE = 0.15
"""For retries: the copy of a message that a consumer sends back enters its light queues only at its delivery."""
_DELAYS: Mapping[str, Any] = {"delay": {"chance": (0.5,)}}
"""Messages that a consumer sends back after they were delayed already."""
_CLOCK_STEPS: Mapping[str, Any] = {
    "disturbances": {"clock_step_chance": (0.1, 0.3), "clock_step_ms_max": (60_000, 600_000)}
}
"""Steps of the wall clock that may exceed the time of a lock or a member, which count by the monotonic clock."""
_CLOCK_STEPS_CHANCE = 0.3
_OPERATOR_CONNECTIONS: Mapping[str, Any] = {
    "network": {"latency_us_min": (500,), "latency_us_max": (500,)},
    "broker": {"operator_connections": (6,), "tasks_each": (4,), "buffer_bytes": (65_536,)},
}
"""With a fixed latency, requests of several connections and the end of another arrive at the same time."""
_CLIENT_QUESTIONS: Mapping[str, Any] = {
    "broker": {"client_questions": (1,), "group_members": (1, 2), "tasks_each": (2, 4, 6)},
    "disturbances": {"paused_task_chance": (1.0,), "paused_task_ms_max": (50,)},
}
"""Each question waits for clients in a task of the broker, up to 5 s, so the broker needs several. Short pauses delay a
question after its send, until its answer has arrived."""
_RECONNECTS: Mapping[str, Any] = {"broker": {"reconnect_chance": (0.3, 1.0)}}
LOCK_RACES: Mapping[str, Any] = {
    "broker": {"lock_racers": (1,), "group_members": (1,), "group_operators": (0,)},
    "disturbances": {
        "paused_task_chance": (0.01,),
        "paused_task_ms_max": (200,),
        "paused_woken_chance": (1.0,),
        "paused_machine_chance": (0.0,),
    },
    "network": {"latency_us_min": (500,), "latency_us_max": (500,)},
}
"""Clients ask for expired locks while the broker removes them, and short pauses stop it between two steps."""
_LATE_ENDS: Mapping[str, Any] = {
    "network": {"late_chance": (0.2, 0.5), "late_ms_max": (2_000,)},
    "disturbances": {"paused_task_chance": (0.0, 0.1), "paused_machine_chance": (0.0,)},
    "broker": {"off_ms_max": (10, 1_000), "idle_ms_max": (20_000,)},
}
"""A broker that restarts registers over a new connection before name servers notice the end of the old one: they notice
a stop late, and a power cut when the connection is idle for too long.

With long pauses a running broker would not register in time either.
"""
_FEW_QUEUED: Mapping[str, Any] = {
    "broker": {"queued_requests_max": (1,), "tasks_each": (1,), "sends_in_flight": (3, 4), "send_timeout_ms": (3_000,)},
}
"""More requests at once than a broker queues, so that it refuses some. Each must have an answer after all faults."""
_LITTLE_OUTPUT: Mapping[str, Any] = {"broker": {"output_pause_bytes": (100, 1_000)}}
"""With small buffers, clients do not read a broker's answers as fast as it sends them."""
_AT_ONCE: Mapping[str, Any] = {
    "network": {"latency_us_min": (500,), "latency_us_max": (500,), "split_chance": (0.0,), "late_chance": (0.0,)},
    "broker": {"tasks_each": (4,)},
    "attribute_points": (True,),
}
"""Requests and ends of connections that begin together arrive together, at a broker that serves several at a time."""
_GROUP_OPERATOR = BROKER.replace(
    producers=(1,),
    consumers=(0,),
    messages_each=(2,),
    lives=(1,),
    endings=("stop", "crash at rest"),
    heals=(False,),
    network={
        "latency_us_min": (500,),
        "latency_us_max": (500, 500, 1_000),
        "split_chance": (0.0,),
        "late_chance": (0.0,),
    },
    disturbances={"paused_task_chance": (0.0, 0.1), "timer_slack_us": (1_000, 10_000)},
    broker={
        "group_operators": (1,),
        "tailing_consumers": (0,),
        "client_death_chance": (0.0,),
        "tasks_each": (4,),
        "rest_ms_max": (60_000,),
    },
)
"""A small broker with hardly any messages, for many requests about groups."""

SCENARIOS: tuple[Scenario, ...] = (
    # Consumers send messages back for a retry, and the broker's machine dies.
    Scenario(
        "consumer-retry",
        "after the broker acknowledged a message that a consumer sent back, it delivers the message again when the "
        "delay is over",
        BROKER.replace(
            consumers=(1, 2),
            heals=(True,),
            topics=(1, 2),
            messages_each=(5, 8),
            commit_log_bytes=(1024, 2048),
            faults={"failed_creation_chance": (0.0, 0.3, 0.6)},
            broker={"send_back_chance": (0.3, 1.0), "rest_ms_max": (8_000,)},
        )
        .with_late_optional(SLAVES_CHANCE, slaves=SLAVES)
        .with_late_optional(_LIGHT_QUEUES_CHANCE, light_queues=LIGHT_QUEUES)
        .with_late_optional(0.3, delays=_DELAYS)
        .with_late_optional(OTHER_CLIENTS_CHANCE, other_clients=OTHER_CLIENTS),
        stream="what-is-sent-back-is-given-again",
    ),
    # Consumers fail to process messages, from retry to retry, while the broker's machine dies and answers are lost.
    Scenario(
        "consumer-dead-letters",
        "each message that a consumer sends back is delivered again when its delay is over, and after the last retry "
        "it is a dead letter, once for each request",
        BROKER.replace(
            lives=(1, 2),
            sync_flush=(True,),
            producers=(1, 2),
            consumers=(0,),
            topics=(1, 2),
            queues_per_topic=(1,),
            messages_each=(2, 4),
            heals=(True, True, False),
            memory={"transient_pool": (False,)},
            network={**FAIR, "broken_chance": (0.0, 0.0, 0.05)},
            broker={"tailing_consumers": (0,), "rest_ms_max": (2_000, 8_000)},
            retry={
                "failing_consumers": (1, 2),
                "fail_chance": (0.7, 1.0),
                "retries_max": (0, 1, 2),
                "retry_queues": (1, 2, 3, 0),
                "old_clients": (False, True),
            },
        )
        .with_late_optional(0.5, own_sends={"retry": {"own_send_chance": (0.3, 1.0)}})
        .with_late_optional(0.3, transactions={"transactions": {"chance": (0.5,)}})
        .with_late_optional(0.25, operators={"broker": {"operators": (1,)}}),
    ),
    # Members of a group lock the queues that they consume. Members die, leave, fall silent and return.
    Scenario(
        "orderly-consumers",
        "while members of a group join, leave and die, at most one of them holds the lock of each queue, and the group "
        "processes every queue in order to its end",
        BROKER.replace(
            endings=("crash in traffic", "stop in traffic", "crash at rest", "stop"),
            lives=(1, 1, 2),
            producers=(1, 2),
            consumers=(0,),
            topics=(1, 2),
            queues_per_topic=(1, 2),
            messages_each=(2, 5),
            heals=(True, True, False),
            broker={
                "group_members": (2, 2, 3),
                "leave_chance": (0.0, 0.1, 0.3),
                "client_death_chance": (0.0, 0.05, 0.3),
                "tailing_consumers": (0,),
                "pull_messages_max": (1, 4),
                "rest_ms_max": (0, 8_000, 150_000),
            },
        )
        .with_late_optional(SLAVES_CHANCE, slaves=SLAVES)
        .with_late_optional(_CLOCK_STEPS_CHANCE, clock_steps=_CLOCK_STEPS)
        .with_late_optional(0.5, reconnects=_RECONNECTS)
        .with_late_optional(0.2, groups=GROUPS)
        .with_late_optional(0.15, questions=_CLIENT_QUESTIONS),
    ),
    # Members of a group leave, fall silent for longer than the broker's patience, and return.
    Scenario(
        "group-members",
        "after a member leaves, dies or falls silent, the broker lists exactly the others and tells each in time",
        BROKER.replace(
            endings=("stop", "stop", "crash at rest"),
            lives=(1,),
            producers=(1,),
            consumers=(0,),
            topics=(1,),
            queues_per_topic=(2, 2),
            messages_each=(2,),
            heals=(False,),
            broker={
                "group_members": (2, 3),
                "leave_chance": (0.2, 0.4),
                "client_death_chance": (0.0, 0.3),
                "tailing_consumers": (0,),
                "rest_ms_max": (350_000,),
            },
        )
        .with_late_optional(_CLOCK_STEPS_CHANCE, clock_steps=_CLOCK_STEPS)
        .with_late_optional(0.5, reconnects=_RECONNECTS)
        .with_late_optional(0.3, groups=GROUPS)
        .with_late_optional(0.4, lock_races=LOCK_RACES),
    ),
    # Clients look up messages by key, id and time, and the bounds of queues, while the broker dies and restarts.
    Scenario(
        "broker-lookups",
        "every answer to a lookup by key, id or time contains exactly the messages that the broker has dispatched, and "
        "the bounds of a queue contain them",
        BROKER.replace(
            endings=("crash in traffic", "stop in traffic", "crash at rest", "stop"),
            lives=(1, 2),
            producers=(1, 2),
            consumers=(0,),
            topics=(1, 2),
            queues_per_topic=(1, 2),
            heals=(True, False),
            index={"slots": (5, 40), "keys_chance": (0.5, 1.0), "seekers": (1, 2)},
            memory={"transient_pool": (False, True)},
            consume_queue_bytes=(100, 200, 6_000),
            retention={"deletes_segments": (False, False, True)},
            broker={"tailing_consumers": (0,), "rest_ms_max": (2_000, 15_000)},
        )
        .with_late_optional(SLAVES_CHANCE, slaves=SLAVES_WITH_RETENTION)
        .with_late_optional(OTHER_CLIENTS_CHANCE, other_clients=OTHER_CLIENTS),
    ),
    # An operator creates, changes and deletes topics and groups, and resets offsets, while users send and consume.
    Scenario(
        "operator-changes",
        "an operator's change of a topic, group or permission takes effect before its answer and survives a crash, and "
        "every member receives offsets that an operator resets",
        BROKER.replace(
            endings=("crash in traffic", "stop in traffic", "crash at rest", "stop"),
            lives=(1, 2),
            producers=(1, 2),
            consumers=(0,),
            topics=(1, 2),
            queues_per_topic=(1, 2),
            messages_each=(2, 5),
            heals=(True, False),
            sync_flush=(True,),
            memory={"transient_pool": (False,)},
            cluster={"slaves": (0, 0, 0, 1)},
            broker={
                "operators": (1,),
                "group_members": (0, 1, 2),
                "tailing_consumers": (0,),
                "rest_ms_max": (2_000, 15_000),
            },
        )
        .with_late_optional(0.5, settings={"broker": {"settings_operators": (1,)}})
        .with_late_optional(0.5, conf={"broker": {"has_conf": (True,)}})
        .with_late_optional(0.1, connections=_OPERATOR_CONNECTIONS)
        .with_late_optional(0.3, questions=_CLIENT_QUESTIONS)
        .with_late_optional(0.4, groups=GROUPS)
        .with_late_optional(SLAVE_SETTINGS_CHANCE, slave_settings={"broker": SLAVE_SETTINGS})
        .with_late_optional(OTHER_CLIENTS_CHANCE, other_clients=OTHER_CLIENTS)
        .with_optional(0.3, conf_crashes={**CONF_CRASHES, "broker": {"settings_operators": (1,), "has_conf": (True,)}}),
    ),
    # Administrators and an operator of the machine change accounts while clients use them and the broker dies.
    Scenario(
        "broker-accounts",
        "a broker executes exactly the requests that its access rules allow, also while accounts change and after a "
        "crash, and a refused request has no effect",
        BROKER.replace(
            endings=("crash in traffic", "stop in traffic", "crash at rest", "stop"),
            lives=(1, 2),
            producers=(1,),
            consumers=(0, 1),
            topics=(1, 2),
            queues_per_topic=(1,),
            messages_each=(2, 5),
            heals=(True, False),
            sync_flush=(True,),
            memory={"transient_pool": (False,)},
            broker={"tailing_consumers": (0,), "rest_ms_max": (2_000, 15_000)},
            access={"clients": (1,), "edited_by_hand": (False, True, True)},
        ).with_optional(0.3, conf_crashes=CONF_CRASHES),
    ),
    # Clients send further requests over a connection before the answers to earlier ones.
    Scenario(
        "requests-in-flight",
        "if several requests are in flight on one connection, each gets the answer to its own request, also when "
        "the broker stops under load",
        BROKER.replace(
            endings=("stop in traffic", "stop in traffic", "crash in traffic", "stop"),
            lives=(1, 2),
            sync_flush=(True, True, False),
            producers=(1, 2),
            consumers=(1,),
            topics=(1, 2),
            queues_per_topic=(1, 2),
            messages_each=(6, 9),
            messages={"batch_chance": (0.0, 0.3)},
            heals=(True, False),
            broker={
                "sends_in_flight": (2, 3),
                "tasks_each": (1, 2),
                "tailing_consumers": (0, 1),
                "rest_ms_max": (0, 2_000),
            },
        )
        .with_late_optional(_FEW_SLAVES_CHANCE, slaves=SLAVES)
        .with_late_optional(0.3, few_pending={"broker": {"pending_requests_max": (1, 2)}})
        .with_late_optional(0.5, few_queued=_FEW_QUEUED)
        .with_late_optional(0.3, little_output=_LITTLE_OUTPUT)
        .with_late_optional(0.5, pulls_in_flight=PULLS_IN_FLIGHT),
    ),
    # Brokers stop, die and return. Each is a name server that loses the others and gets them back.
    Scenario(
        "name-server-routes",
        "a name server lists each running broker within two intervals of registration, and a broker that ended only "
        "until it notices the end",
        BROKER.replace(
            endings=("stop in traffic", "stop", "crash at rest", "crash at rest"),
            lives=(2,),
            sync_flush=(True,),
            producers=(1,),
            consumers=(0,),
            topics=(1,),
            messages_each=(1, 2),
            memory={"transient_pool": (False,)},
            heals=(True, False),
            cluster={"slaves": (0, 0, 0, 1)},
            broker={
                "watches_routes": (True,),
                "masters": (2,),
                "tailing_consumers": (0,),
                "rest_ms_max": (30_000,),
                "off_ms_max": (1_000, 30_000, 150_000),
            },
        )
        .with_late_optional(0.4, late_ends=_LATE_ENDS)
        .with_late_optional(
            0.5,
            permissions={"broker": {"route_operators": (1,)}},
            topics={"broker": {"operators": (1,)}},
            settings={
                "broker": {"settings_operators": (1,)},
                "disturbances": {"paused_task_chance": (0.0,), "paused_machine_chance": (0.0,)},
                "network": {"late_ms_max": (2_000,)},
            },
        )
        .with_late_optional(SLAVE_SETTINGS_CHANCE, slave_settings={"broker": SLAVE_SETTINGS})
        # Operators and masters of slaves change the marks of topics, too. A broker without a permission refuses
        # messages to ordered topics.
        .with_late_optional(
            0.2,
            keys={
                "broker": {"key_operators": (1,), "operators": (0,), "settings_operators": (0,), "masters": (2, 3)},
                "cluster": {"slaves": (0,)},
            },
        ),
    ),
    # Brokers of other clusters come and go at the name server of one broker, and operators set keys there.
    Scenario(
        "name-server-answers",
        "every answer of a name server has exactly the brokers, topics and versions of the registrations so far, and a "
        "key keeps its value over a crash",
        BROKER.replace(
            endings=("stop", "crash at rest"),
            lives=(1, 1, 2),
            sync_flush=(True,),
            producers=(1,),
            consumers=(0,),
            topics=(1,),
            queues_per_topic=(1,),
            messages_each=(1,),
            memory={"transient_pool": (False,)},
            heals=(True, False),
            broker={
                "foreign_brokers": (1,),
                "key_operators": (0, 1, 1),
                "tailing_consumers": (0,),
                "client_death_chance": (0.0,),
                "rest_ms_max": (400_000,),
                "idle_ms_max": (120_000, 400_000),
                "off_ms_max": (1, 1_000),
            },
        ).with_late_optional(0.5, at_once=_AT_ONCE),
    ),
    # An operator changes groups with offsets in two topics, and compares all views of them with a model.
    Scenario(
        "group-requests",
        "after each change of a group, all answers about the group show exactly this change",
        _GROUP_OPERATOR.replace(
            topics=(2,),
            queues_per_topic=(1, 2),
            messages_each=(2, 5, 8),
            messages={"body_bytes_max": (40, 400)},
            commit_log_bytes=(1024, 2048),
            consume_queue_bytes=(100,),
            retention={"deletes_segments": (False, True)},
            broker={"other_clients": (False, True)},
        ),
    ),
    # Two clients change one group at the same time, again and again.
    Scenario(
        "simultaneous-changes",
        "two changes of a group that a broker receives at the same time take effect one after the other",
        _GROUP_OPERATOR.replace(
            topics=(1, 2),
            attribute_points=(False, True),
            policy=("pos", "round-robin", "random-walk"),
            broker={"group_races": (10,)},
        ),
    ),
)
