"""Workload: producers, consumers and operators of a run. Their actions are drawn and recorded."""
