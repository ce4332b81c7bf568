"""Broker: serves clients over the network, with a store and its settings."""
