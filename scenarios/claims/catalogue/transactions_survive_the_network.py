"""Producers decide half messages over a bad network, and are asked about those whose decision was lost."""

from dataclasses import replace

from ..broker_ranges import BROKER, TROUBLED
from ..scenario import Scenario

SCENARIO = Scenario(
    "transactions-survive-the-network",
    "what is rolled back is never shown, and what is to be committed is, or is given up after having been asked about",
    replace(
        BROKER,
        producers=(1, 2),
        consumers=(0, 1),
        messages_each=(2, 4),
        transaction_chance=(0.3, 1.0),
        network=TROUBLED,
    ),
)
