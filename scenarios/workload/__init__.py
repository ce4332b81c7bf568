"""Workload: producers, consumers and operators of a run, with random and recorded actions."""
