"""Queues skip numbers, those of half messages and of decisions too, as where 4.9.8 was started in between."""

from dataclasses import replace

from ..scenario import Scenario
from . import transactions_are_decided_once_and_never_lost

SCENARIO = Scenario(
    "a-gap-in-the-numbers-hides-no-transaction",
    "half messages behind numbers that their queue skips are decided or asked about, as all others are",
    replace(
        transactions_are_decided_once_and_never_lost.SCENARIO.ranges,
        skipped_numbers_max=(1, 3),
        lives=(2, 3),
    ),
)
