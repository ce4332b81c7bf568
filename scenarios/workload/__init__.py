"""Workload: producers, consumers and operators of a run. The actions of these users are drawn and recorded."""
