"""The broker's machine dies between a send and its answer, and comes back."""

from dataclasses import replace

from ..broker_ranges import BROKER
from ..scenario import Scenario

SCENARIO = Scenario(
    "a-broker-keeps-what-it-answered",
    "what a broker has answered SUCCESS, or shown to a consumer, is there after every crash that may not take it",
    replace(BROKER, sync_flush_timeout_ms=(50, 5_000)).with_faults(slow_sync_chance=(0.0, 0.0, 0.2)),
)
