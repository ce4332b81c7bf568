"""Runs: a store, a cluster or brokers from the first start to the last check."""
