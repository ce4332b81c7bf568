"""Partitions, one-way links, connections that break or fall silent, and crashes between."""

from ..cluster_ranges import TROUBLED
from ..scenario import Scenario

SCENARIO = Scenario(
    "network-trouble-costs-time-not-messages",
    "however the network misbehaves, no acknowledged message is lost, and slaves catch up when it is well again",
    TROUBLED,
)
