"""Workload: producers, consumers and operators of a run, whose actions are random and recorded."""
