"""Brokers: clients that send, pull and decide over a network."""

from dataclasses import replace

from ..broker_ranges import BROKER, TROUBLED
from ..scenario import Scenario

SCENARIOS: tuple[Scenario, ...] = (
    # The broker's machine dies between a send and its answer, and comes back.
    Scenario(
        "a-broker-keeps-what-it-answered",
        "what a broker has answered SUCCESS, or shown to a consumer, is there after every crash that may not take it",
        replace(BROKER, sync_flush_timeout_ms=(50, 5_000)).with_faults(slow_sync_chance=(0.0, 0.0, 0.2)),
    ),
    # Connections break, and clients send again what they have no answer to.
    Scenario(
        "retries-explain-every-duplicate",
        "whatever the network does, a message is stored once for each time it was sent at most, and nothing else is",
        replace(
            BROKER,
            network=TROUBLED,
            disturbances={
                "paused_task_chance": (0.0, 0.0, 0.1),
                "paused_machine_chance": (0.0, 0.0, 0.05),
                "clock_step_chance": (0.0, 0.0, 0.1),
            },
        ),
    ),
    # Consumers pull over a bad network from a broker that crashes and restarts, and begin again where
    # they had got to.
    Scenario(
        "consumers-get-everything-in-order",
        "once all is well again, consumers have been given every message of every queue, each behind the one before it",
        replace(
            BROKER,
            consumers=(1, 2),
            heals=(True,),
            network=TROUBLED,
            broker={**BROKER.broker, "consumer_restart_chance": (0.0, 0.5, 1.0)},
        ),
    ),
    # Producers decide half messages over a bad network, and are asked about those whose decision was lost.
    Scenario(
        "transactions-survive-the-network",
        "what is rolled back is never shown, and what is to be committed is, "
        "or is given up after having been asked about",
        replace(
            BROKER,
            producers=(1, 2),
            consumers=(0, 1),
            messages_each=(2, 4),
            transaction_chance=(0.3, 1.0),
            network=TROUBLED,
        ),
    ),
)
