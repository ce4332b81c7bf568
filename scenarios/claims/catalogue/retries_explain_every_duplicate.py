"""Connections break, and clients send again what they have no answer to."""

from dataclasses import replace

from ..broker_ranges import BROKER, TROUBLED
from ..scenario import Scenario

SCENARIO = Scenario(
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
)
