"""Broker runs: brokers and their clients on an unreliable network."""
