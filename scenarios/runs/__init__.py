"""Runs: the lives of a store, a cluster or a broker, from the first start to the last check."""
