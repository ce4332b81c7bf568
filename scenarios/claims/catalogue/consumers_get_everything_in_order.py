"""Consumers pull over a bad network from a broker that crashes and restarts, and begin again where they had got to."""

from dataclasses import replace

from ..broker_ranges import BROKER, TROUBLED
from ..scenario import Scenario

SCENARIO = Scenario(
    "consumers-get-everything-in-order",
    "once all is well again, consumers have been given every message of every queue, each behind the one before it",
    replace(
        BROKER,
        consumers=(1, 2),
        heals=(True,),
        network=TROUBLED,
        broker={**BROKER.broker, "consumer_restart_chance": (0.0, 0.5, 1.0)},
    ),
)
